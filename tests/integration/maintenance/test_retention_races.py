"""Row retention against other writers: no row loses its id, no attempt does again what an earlier one did."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.commits.delta import Delta, snapshot_with_delta
from tableformat.commits.head import commit_on_main
from tableformat.commits.memory import CommitMemory
from tableformat.commits.runs import RUN_ID
from tableformat.maintenance.retention import RowRetentionOptions, RowRetentionResult, remove_old_rows
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, head, read, row_ids

NOW = datetime.now(UTC) + timedelta(hours=2)  # ahead of what is committed, however long the suite has been running
MONTH = RowRetentionOptions(column="at", max_age_ms=30 * 24 * 3600 * 1000)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "at", TimestamptzType(), required=False)
)


class CountingIO(PyArrowFileIO):
    opened: Counter[str]

    def new_input(self, location: str) -> InputFile:  # type: ignore[override]  # PyArrow's own kind
        self.opened[location] += 1
        return super().new_input(location)


class RacedCatalog(LocalCatalog):
    """Runs the next of `before` ahead of a commit, and the next of `after` behind it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self.opened: Counter[str] = Counter()

    def wrap(self, io: PyArrowFileIO) -> PyArrowFileIO:
        counting = CountingIO(io.properties)
        counting.opened = self.opened
        return counting

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        if self.before:
            self.before.pop(0)()
        response = super().commit_table(table, requirements, updates)
        if self.after:
            self.after.pop(0)()
        return response


@pytest.fixture
def raced(catalog: LocalCatalog, tmp_path: Path) -> RacedCatalog:
    catalog.create_namespace_if_not_exists("db")
    return RacedCatalog(tmp_path)


def put(table: Table, *rows: tuple[int, int]) -> None:
    """Each row is an id, and how many days old it is."""
    at = pa.array([NOW - timedelta(days=days) for _, days in rows], pa.timestamp("us", "UTC"))
    table.append(pa.table({"id": pa.array([each for each, _ in rows], pa.int64()), "at": at}))


def run(catalog: LocalCatalog) -> RowRetentionResult:
    now = NOW + timedelta(minutes=1)
    return remove_old_rows(catalog, IDENTIFIER, MONTH, run_id="run", now=now, sleep=lambda _: None)


def test_rows_that_are_numbered_meanwhile_keep_their_ids(catalog: LocalCatalog, raced: RacedCatalog) -> None:
    table = catalog.create_table(IDENTIFIER, SCHEMA)
    put(table, (1, 90), (2, 1), (3, 1))
    catalog.commit_table(table, (), (WriteFormatV3Update(),))
    given: dict[int, int] = {}

    def number_all_rows() -> None:
        commit_on_main(
            catalog,
            IDENTIFIER,
            lambda table, head: snapshot_with_delta(
                table, head, Delta(summary={RUN_ID: "other"}), CommitMemory(table.metadata.new_snapshot_id())
            ),
            run_id="other",
        )
        given.update(row_ids(table))

    raced.before.append(number_all_rows)
    assert run(raced).rows_removed == 1
    assert row_ids(table) == {row: given[row] for row in (2, 3)}


def test_an_attempt_after_a_lost_race_reads_and_writes_only_what_is_new(
    catalog: LocalCatalog, raced: RacedCatalog
) -> None:
    table = catalog.create_table(IDENTIFIER, SCHEMA)
    for number in range(4):
        put(table, (number, 90))
    manifests = [manifest.manifest_path for manifest in head(table).manifests(table.io)]
    raced.before += [lambda number=number: put(catalog.load_table(IDENTIFIER), (number, 1)) for number in (10, 11, 12)]  # type: ignore[misc]

    result = run(raced)

    assert (result.rows_removed, read(table.refresh(), head(table).snapshot_id)) == (4, [10, 11, 12])
    assert {raced.opened[path] for path in manifests} == {2}, "once for the plan, once to be written again"
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    written = [path for path in folder.glob("*-m*.avro") if f"file://{path}" not in manifests]
    assert len(written) == 4 + 3, "each of the old ones once, and those of the other writer"


def test_a_commit_that_landed_though_its_client_calls_it_lost_keeps_its_files(
    catalog: LocalCatalog, raced: RacedCatalog
) -> None:
    """A client that repeats requests by itself is told of the conflict with its own first copy."""
    table = catalog.create_table(IDENTIFIER, SCHEMA, properties={"commit.retry.num-retries": "0"})
    put(table, (1, 90), (2, 1))

    def take_it_for_lost() -> None:
        raise CommitFailedException("somebody was first")

    raced.after.append(take_it_for_lost)
    run(raced)
    assert read(table.refresh(), head(table).snapshot_id) == [2]
