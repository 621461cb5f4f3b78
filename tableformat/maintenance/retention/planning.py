"""Which data files hold nothing but rows that are too old, by metadata alone.

A file goes if its partition or its column statistics prove that every row is older than the limit; a row without a time
has no age and keeps its file. A file on the edge, with rows on both sides of the limit, stays until its last row is
too old. No data file is read or written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from pydantic import BaseModel, ConfigDict, PositiveInt
from pyiceberg.expressions import BooleanExpression, LessThan
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    _StrictMetricsEvaluator,
    expression_evaluator,
    strict_projection,
)
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from tableformat.inspection import read_entries, read_manifests, schema_of_spec
from tableformat.maintenance.errors import UnsupportedTable


class RowRetentionOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    max_age_ms: PositiveInt


@dataclass(frozen=True)
class OldFile:
    path: str
    records: int
    size_bytes: int


@dataclass(frozen=True)
class RowRetentionPlan:
    table: str
    snapshot_id: int | None
    column: str
    older_than: datetime
    files: tuple[OldFile, ...] = ()
    edge_files: int = 0
    """Files that may have some rows that are too old, and have others that are not."""

    @property
    def is_empty(self) -> bool:
        return not self.files

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    def __str__(self) -> str:
        return (
            f"retention of {self.table}: {len(self.files)} files of {self.bytes} bytes and {self.records} rows whose "
            f"{self.column} is before {self.older_than.isoformat()}; {self.edge_files} files on the edge stay"
        )


def plan_row_retention(table: Table, options: RowRetentionOptions, *, now: datetime) -> RowRetentionPlan:
    """Raises `UnsupportedTable` if the column is not there or has no time."""
    name, snapshot = ".".join(table.name()), table.current_snapshot()
    older_than = now - timedelta(milliseconds=options.max_age_ms)
    expression = _too_old(name, table.schema(), options.column, older_than)
    if snapshot is None:
        return RowRetentionPlan(name, None, options.column, older_than)
    certainly = _StrictMetricsEvaluator(table.schema(), expression).eval
    possibly = _InclusiveMetricsEvaluator(table.schema(), expression).eval
    files: list[OldFile] = []
    edge = 0
    for manifest in read_manifests(table.io, snapshot):
        if manifest.content != ManifestContent.DATA:
            continue
        by_partition = _by_partition(table, manifest, expression)
        for entry in read_entries(table.io, manifest):
            file = entry.data_file
            if by_partition(file) or certainly(file):
                files.append(OldFile(file.file_path, file.record_count, file.file_size_in_bytes))
            elif possibly(file):
                edge += 1
    return RowRetentionPlan(name, snapshot.snapshot_id, options.column, older_than, tuple(files), edge)


def _too_old(name: str, schema: Schema, column: str, older_than: datetime) -> BooleanExpression:
    try:
        kind = schema.find_field(column).field_type
    except ValueError as error:
        raise UnsupportedTable(name, f"it has no column {column!r}", "Name a column of the table.") from error
    if isinstance(kind, DateType):
        limit = older_than.astimezone(UTC).date().isoformat()
    elif isinstance(kind, TimestamptzType):
        limit = older_than.isoformat()
    elif isinstance(kind, TimestampType):  # without a zone: taken as UTC, as Iceberg's partitions take it
        limit = older_than.astimezone(UTC).replace(tzinfo=None).isoformat()
    else:
        raise UnsupportedTable(
            name, f"its column {column!r} is of type {kind}, by which no row has an age", "Name a date or a timestamp."
        )
    # What mypy makes of this constructor depends on the order in which it read the modules.
    less_than = cast("Callable[[str, str], BooleanExpression]", LessThan)
    return less_than(column, limit)


def _by_partition(table: Table, manifest: ManifestFile, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """Whether a file's partition alone proves it."""
    spec = table.metadata.specs()[manifest.partition_spec_id]
    schema = schema_of_spec(table.metadata, spec.spec_id)
    if schema is None or not spec.fields:
        return lambda _: False
    projected = strict_projection(table.schema(), spec)(expression)
    evaluate = expression_evaluator(Schema(*spec.partition_type(schema).fields), projected, case_sensitive=True)
    return lambda file: evaluate(file.partition)
