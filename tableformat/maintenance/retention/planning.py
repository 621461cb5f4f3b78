"""Which rows are too old: whole data files by metadata alone, and files on the edge, which have to be read.

A file goes as a whole if its partition or its column statistics prove that every row is older than the limit; a row
without a time has no age and keeps its file. A file on the edge may have rows on both sides of the limit. No data file
is read for a plan.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import cast

from pydantic import BaseModel, ConfigDict, PositiveInt
from pyiceberg.expressions import BooleanExpression, LessThan
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    _StrictMetricsEvaluator,
    expression_evaluator,
    inclusive_projection,
    manifest_evaluator,
    strict_projection,
)
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from tableformat.engine.deletes import column_path
from tableformat.errors import PermanentError
from tableformat.inspection import (
    DeleteIndex,
    LiveFile,
    global_specs,
    live_file,
    manifest_first_row_id,
    partition_type,
    read_entries,
    read_manifests,
    schema_of_spec,
)
from tableformat.maintenance.compaction.disputed import require_undisputed
from tableformat.maintenance.compaction.eligibility import require_rewritable_columns, require_rewritable_file
from tableformat.maintenance.compaction.shredded import require_whole_variants
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.plurals import plural
from tableformat.suggestions import nearest


class RowRetentionOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    max_age_ms: PositiveInt


@dataclass(frozen=True)
class OldFile:
    path: str
    records: int
    size_bytes: int
    manifest_path: str


@dataclass(frozen=True)
class EdgeFile:
    """A file that may have rows on both sides of the limit, and the deletes that apply to it."""

    file: LiveFile
    manifest_path: str
    deletes: tuple[LiveFile, ...]

    @property
    def position_deletes(self) -> frozenset[tuple[str, tuple[int, int] | None]]:
        """What tells one state of the file's rows from another: equality deletes go by sequence numbers instead."""
        return frozenset((each.path, each.content_range) for each in self.deletes if not each.equality_ids)


@dataclass(frozen=True)
class AgeLimit:
    """From which value of a column on a row is young enough."""

    column: str
    field_id: int
    value: date | datetime
    """As the column's own type has it; a timestamp without a zone is taken as UTC, as Iceberg's partitions take it."""

    @property
    def expression(self) -> BooleanExpression:
        # What mypy makes of this constructor depends on the order in which it read the modules.
        less_than = cast("Callable[[str, str], BooleanExpression]", LessThan)
        return less_than(self.column, self.value.isoformat())


@dataclass(frozen=True)
class RowRetentionPlan:
    table: str
    snapshot_id: int | None
    limit: AgeLimit
    files: tuple[OldFile, ...] = ()
    edges: tuple[EdgeFile, ...] = ()
    """Files that may have some rows that are too old, and may have others that are not."""
    left_alone: tuple[str, ...] = ()
    """Why files on the edge cannot be read or written exactly, and stay as they are."""

    @property
    def is_empty(self) -> bool:
        return not self.files and not self.edges

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    def __str__(self) -> str:
        return (
            f"retention of {self.table}: remove {plural(len(self.files), 'file')} of {plural(self.bytes, 'byte')} and "
            f"{plural(self.records, 'row')} whose {self.limit.column} is before {self.limit.value.isoformat()}; read "
            f"{plural(len(self.edges), 'file')} on the edge; {len(self.left_alone):,} cannot be read"
        )


class ManifestScans:
    """What was found in the manifests of one run, whose limit stays the same: the next attempt reads new ones only.

    Their entries are not kept. With all their statistics those of a large table are more than a driver has memory for.
    """

    def __init__(self) -> None:
        self._old: dict[Hashable, _OldFiles] = {}
        self._deletes: dict[Hashable, tuple[LiveFile, ...]] = {}

    def old(self, table: Table, manifest: ManifestFile, scan: Callable[[ManifestFile], "_OldFiles"]) -> "_OldFiles":
        key = (_identity(manifest), table.metadata.current_schema_id)
        if key not in self._old:
            self._old[key] = scan(manifest)
        return self._old[key]

    def deletes(self, table: Table, manifest: ManifestFile) -> tuple[LiveFile, ...]:
        key = _identity(manifest)
        if key not in self._deletes:
            self._deletes[key] = tuple(live_file(entry) for entry in read_entries(table.io, manifest))
        return self._deletes[key]


def _identity(manifest: ManifestFile) -> Hashable:
    return manifest.manifest_path, manifest_first_row_id(manifest)  # row ids are inherited from the list


@dataclass(frozen=True)
class _OldFiles:
    """Of one manifest."""

    whole: tuple[OldFile, ...] = ()
    edges: tuple[LiveFile, ...] = ()


def plan_row_retention(
    table: Table, options: RowRetentionOptions, *, now: datetime, scans: ManifestScans | None = None
) -> RowRetentionPlan:
    """Raises `UnsupportedTable` if the column is not there or has no time."""
    scans = scans or ManifestScans()
    name, snapshot = ".".join(table.name()), table.current_snapshot()
    limit = _limit(name, table.schema(), options.column, now - timedelta(milliseconds=options.max_age_ms))
    if snapshot is None:
        return RowRetentionPlan(name, None, limit)
    scan = functools.partial(_scan, table, limit)
    manifests = read_manifests(table.io, snapshot)
    files: list[OldFile] = []
    edges: list[tuple[LiveFile, str]] = []
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA:
            old = scans.old(table, manifest, scan)
            files += old.whole
            edges += [(file, manifest.manifest_path) for file in old.edges]
    found, left_alone = _with_deletes(table, manifests, edges, scans)
    return RowRetentionPlan(name, snapshot.snapshot_id, limit, tuple(files), found, left_alone)


def _scan(table: Table, limit: AgeLimit, manifest: ManifestFile) -> _OldFiles:
    partitions = _Partitions(table, manifest, limit.expression)
    if not partitions.manifest_may_match(manifest):
        return _OldFiles()
    certainly = _StrictMetricsEvaluator(table.schema(), limit.expression).eval
    possibly = _InclusiveMetricsEvaluator(table.schema(), limit.expression).eval
    whole: list[OldFile] = []
    edges: list[LiveFile] = []
    for entry in read_entries(table.io, manifest):
        file = entry.data_file
        if partitions.proves(file) or (_has_no_null(file, table.schema(), limit.field_id) and certainly(file)):
            whole.append(OldFile(file.file_path, file.record_count, file.file_size_in_bytes, manifest.manifest_path))
        elif partitions.may_match(file) and possibly(file):
            edges.append(live_file(entry))
    return _OldFiles(tuple(whole), tuple(edges))


def _has_no_null(file: DataFile, schema: Schema, field_id: int) -> bool:
    """Whether it is known if rows have no time: PyIceberg takes a count that is missing for none.

    Of a struct's fields nothing is known by counts: the struct itself may be null.
    """
    field = next((field for field in schema.fields if field.field_id == field_id), None)
    return field is not None and (field.required or field_id in (file.null_value_counts or {}))


def _with_deletes(
    table: Table, manifests: Sequence[ManifestFile], edges: Sequence[tuple[LiveFile, str]], scans: ManifestScans
) -> tuple[tuple[EdgeFile, ...], tuple[str, ...]]:
    if not edges:
        return (), ()
    deletes = [
        file
        for manifest in manifests
        if manifest.content == ManifestContent.DELETES
        for file in scans.deletes(table, manifest)
    ]
    index = DeleteIndex(deletes, global_specs=global_specs(table.metadata))
    found: list[EdgeFile] = []
    left_alone: list[str] = []
    for file, manifest_path in edges:
        edge = EdgeFile(file, manifest_path, tuple(index.of(file)))
        try:
            _require_exact(table, edge)
        except PermanentError as error:
            left_alone.append(str(error))
        else:
            found.append(edge)
    return tuple(found), tuple(left_alone)


def merges_on_read(table: Table) -> bool:
    """Copy-on-write is Iceberg's default, and all that format version 1 has."""
    mode = table.metadata.properties.get(TableProperties.DELETE_MODE, TableProperties.DELETE_MODE_DEFAULT)
    return mode == TableProperties.DELETE_MODE_MERGE_ON_READ and table.metadata.format_version >= 2


def _require_exact(table: Table, edge: EdgeFile) -> None:
    if not merges_on_read(table):
        require_rewritable_columns(table)
        require_undisputed(table, edge.file, edge.deletes)
    for file in (edge.file, *edge.deletes):
        require_rewritable_file(table, file)
    require_whole_variants(table, edge.file)
    if schema_of_spec(table.metadata, edge.file.spec_id) is None:
        raise UnsupportedTable(
            ".".join(table.name()),
            f"partition spec {edge.file.spec_id} of {edge.file.path} cannot be understood",
            "Delete its old rows with another engine.",
        )


def why_no_age(schema: Schema, column: str) -> tuple[str, str] | None:
    """Why no row has an age by this column, and what to do; None if it has."""
    try:
        field = schema.find_field(column)
        column_path(schema, field.field_id)
    except ValueError:
        near = nearest(column, schema.column_names)
        return f"it has no column {column!r}", f"Did you mean {near!r}?" if near else "Name a column of the table"
    if isinstance(field.field_type, DateType | TimestamptzType | TimestampType):
        return None
    why = f"its column {column!r} is of type {field.field_type}, by which no row has an age"
    return why, "Name a date, timestamp or timestamptz column"


def _limit(name: str, schema: Schema, column: str, older_than: datetime) -> AgeLimit:
    why = why_no_age(schema, column)
    if why is not None:
        raise UnsupportedTable(name, *why)
    field, utc = schema.find_field(column), older_than.astimezone(UTC)
    if isinstance(field.field_type, DateType):
        return AgeLimit(column, field.field_id, utc.date())
    if isinstance(field.field_type, TimestamptzType):
        return AgeLimit(column, field.field_id, utc)
    return AgeLimit(column, field.field_id, utc.replace(tzinfo=None))


class _Partitions:
    """What the partitions of one manifest's spec say about the ages of rows."""

    def __init__(self, table: Table, manifest: ManifestFile, expression: BooleanExpression) -> None:
        spec = table.metadata.specs()[manifest.partition_spec_id]
        schema = schema_of_spec(table.metadata, spec.spec_id)
        self.proves: Callable[[DataFile], bool] = lambda _: False
        self.may_match: Callable[[DataFile], bool] = lambda _: True
        self.manifest_may_match: Callable[[ManifestFile], bool] = lambda _: True
        if schema is None or not spec.fields:
            return
        partition = Schema(*partition_type(spec, schema).fields)
        strict = expression_evaluator(partition, strict_projection(table.schema(), spec)(expression), True)
        projected = inclusive_projection(table.schema(), spec)(expression)
        inclusive = expression_evaluator(partition, projected, True)
        self.proves = lambda file: strict(file.partition)
        self.may_match = lambda file: inclusive(file.partition)
        self.manifest_may_match = manifest_evaluator(spec, schema, projected)
