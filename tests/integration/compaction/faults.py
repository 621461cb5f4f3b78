"""A catalog whose commits meet other writers and broken connections at chosen moments."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from tableformat.engine import RewriteTask
from tableformat.maintenance import InProcessExecutor, Outcomes

CommitRequest = tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]


class FaultyCatalog(SqlCatalog):
    """Runs the next of `before` ahead of a commit, and the next of `after` behind it; keeps what was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__("test", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder / 'warehouse'}")
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.loads_fail = 0
        self.requests: list[CommitRequest] = []

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        self.requests.append((requirements, updates))
        if self.before:
            self.before.pop(0)()
        response = super().commit_table(table, requirements, updates)
        if self.after:
            self.after.pop(0)()
        return response

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        if self.loads_fail:
            self.loads_fail -= 1
            raise ConnectionError("the catalog does not answer")
        return super().load_table(identifier)


class Meanwhile(InProcessExecutor):
    """An executor during whose work other things happen, once each."""

    def __init__(self, *happenings: Callable[[], object]) -> None:
        self._happenings = list(happenings)

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        yield from super().run(tasks)
        if self._happenings:
            self._happenings.pop(0)()


def connection_lost() -> None:
    raise ConnectionError("connection reset while the answer was on its way")
