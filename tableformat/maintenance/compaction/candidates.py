"""Which data files a compaction would want to rewrite, each for reasons of its own.

Whether rewriting them together is worth the work is decided in `planning`.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

from tableformat.engine import RowOrder
from tableformat.errors import PermanentError
from tableformat.inspection import DeleteIndex, LiveFile, SnapshotFiles, global_specs, schema_of_spec
from tableformat.maintenance.compaction.options import CompactionOptions


class BadFilter(PermanentError):
    """The filter cannot be understood, or speaks of columns that the table does not have."""


@dataclass(frozen=True)
class Candidate:
    """A data file with the deletes that apply to it and the share of its rows that they are likely to delete."""

    file: LiveFile
    deletes: tuple[LiveFile, ...]
    deleted_rows: float

    must: bool
    """Whether it should be rewritten whatever its size: for its deletes or its order."""

    @property
    def live_bytes(self) -> float:
        return self.file.size_bytes * (1 - self.deleted_share)

    @property
    def deleted_share(self) -> float:
        return min(1.0, self.deleted_rows / self.file.records) if self.file.records else 0.0


def find_candidates(
    table: Table, files: SnapshotFiles, options: CompactionOptions, order: RowOrder | None, *, now: datetime
) -> list[Candidate]:
    """The files that are too small, too large, too much deleted or in the wrong order, where writers are at rest."""
    busy = _busy_partitions(table, files, options, now)
    wanted = _Filter(table, options.filter)
    return [
        candidate
        for candidate in _with_deletes(table, files, options, order)
        if (candidate.must or not options.small_below <= candidate.file.size_bytes <= options.large_above)
        and candidate.file.partition_key not in busy
        and wanted.may_match(candidate.file)
    ]


def _with_deletes(
    table: Table, files: SnapshotFiles, options: CompactionOptions, order: RowOrder | None
) -> list[Candidate]:
    """Every data file with its deletes. A delete file's rows are shared out among the rows that it applies to."""
    index = DeleteIndex(files.deletes, global_specs=global_specs(table.metadata))
    deletes = [tuple(index.of(file)) for file in files.data]
    reach: Counter[tuple[str, tuple[int, int] | None]] = Counter()
    for file, found in zip(files.data, deletes, strict=True):
        for delete in found:
            reach[delete.path, delete.content_range] += file.records
    candidates = []
    for file, applying in zip(files.data, deletes, strict=True):
        deleted = sum(
            delete.records * file.records / max(1, reach[delete.path, delete.content_range]) for delete in applying
        )
        many_deletes = deleted * 100 >= options.delete_ratio_percent * max(1, file.records)
        wrong_order = (
            order is not None and order.sort_order_id is not None and file.sort_order_id != order.sort_order_id
        )
        candidates.append(Candidate(file, applying, deleted, must=many_deletes or wrong_order))
    return candidates


def _busy_partitions(
    table: Table, files: SnapshotFiles, options: CompactionOptions, now: datetime
) -> set[tuple[Hashable, ...]]:
    """The partitions that somebody wrote to during the cool-down; compactions do not count as writing."""
    if not options.cool_down_seconds:
        return set()
    since = (now.timestamp() - options.cool_down_seconds) * 1000
    recent = {
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.timestamp_ms > since
        and not (snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE)
    }
    return {file.partition_key for file in (*files.data, *files.deletes) if file.added_snapshot_id in recent}


class _Filter:
    """Whether a file's partition can hold rows that the filter is about."""

    def __init__(self, table: Table, text: str | None) -> None:
        self._name = ".".join(table.name())
        self._metadata = table.metadata
        self._by_spec: dict[int, Callable[[Record], bool]] = {}
        try:
            self._expression = AlwaysTrue() if text is None else parse(text)
        except Exception as error:  # the parser's own error types are not part of its interface
            raise BadFilter(f"table {self._name}: filter: {text!r} cannot be read: {error}") from error

    def may_match(self, file: LiveFile) -> bool:
        if isinstance(self._expression, AlwaysTrue):
            return True
        if file.spec_id not in self._by_spec:
            self._by_spec[file.spec_id] = self._evaluator(file.spec_id)
        return self._by_spec[file.spec_id](file.partition)

    def _evaluator(self, spec_id: int) -> Callable[[Record], bool]:
        spec = self._metadata.specs()[spec_id]
        schema = schema_of_spec(self._metadata, spec_id) or self._metadata.schema()
        try:
            projected = inclusive_projection(schema, spec)(self._expression)
        except ValueError as error:
            raise BadFilter(f"table {self._name}: filter: {error}") from error
        return expression_evaluator(Schema(*spec.partition_type(schema).fields), projected, True)
