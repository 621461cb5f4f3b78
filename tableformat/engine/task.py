"""The values that describe one rewrite and its outcome.

They are small, frozen and picklable, because an executor may be another process on another machine: a task carries
everything that its rewrite needs, file access included. Credentials can be among the file access properties, so these
never appear in a representation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.typedef import Record


@dataclass(frozen=True)
class SourceFile:
    """A live data file as its manifest describes it."""

    path: str
    file_format: str
    size_bytes: int
    records: int
    sequence_number: int
    first_row_id: int | None = None


@dataclass(frozen=True)
class DeleteFile:
    """A live delete file that may apply to files of the task."""

    path: str
    file_format: str
    size_bytes: int
    records: int
    sequence_number: int
    equality_ids: tuple[int, ...] = ()
    referenced_data_file: str | None = None
    content_range: tuple[int, int] | None = None
    """Offset and length of a deletion vector in its Puffin file."""


@dataclass(frozen=True)
class SortColumn:
    field_id: int
    descending: bool
    nulls_first: bool
    transform: Transform[Any, Any] = field(default_factory=IdentityTransform)
    """Rows are in the order of what it makes of the column's values."""


@dataclass(frozen=True)
class RowOrder:
    """The order of the rows in new files: by the columns one after the other, or by all of them along a curve."""

    columns: tuple[SortColumn, ...]
    z_order: bool = False
    sort_order_id: int | None = None
    """The table's sort order that this is; new files say that they have it."""


@dataclass(frozen=True)
class RewriteTask:
    """Rewrite these files of one partition into files near the target size, there or in partitions of a new spec."""

    task_id: str
    table: str
    sources: Sequence[SourceFile]
    position_deletes: tuple[DeleteFile, ...]
    equality_deletes: tuple[DeleteFile, ...]
    schema: Schema
    """What is written: the table's current schema, and behind it the row lineage of format version 3."""
    read_schema: Schema
    """The schema, and behind it columns that were dropped from it but that equality deletes still speak of."""
    spec: PartitionSpec
    partition: Record
    partition_path: str
    identity_values: Mapping[int, object]
    """Values by field id that hold for the whole partition: some writers leave those columns out of the files."""
    table_location: str
    table_properties: Mapping[str, str]
    target_file_bytes: int
    keeps_lineage: bool
    order: RowOrder | None
    memory_bytes: int
    """What a sort may hold before it goes on on local disk."""
    verify_contents: bool
    """Read the new files back and compare a checksum of their rows with that of the rows that were read."""
    io_properties: Mapping[str, str] = field(repr=False)
    output_spec: PartitionSpec | None = None
    """The spec whose partitions the rows move to; none if they stay in the partition where they are."""

    @cached_property  # a task can have a hundred thousand sources, and whoever writes asks for each batch of rows
    def source_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources)

    @cached_property
    def source_records(self) -> int:
        return sum(source.records for source in self.sources)


@dataclass(frozen=True)
class WrittenFile:
    """A new Parquet file with the statistics that its manifest entry needs, keyed by field id."""

    path: str
    spec_id: int
    partition: Record
    size_bytes: int
    records: int
    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]
    sort_order_id: int | None


@dataclass(frozen=True)
class RewriteResult:
    """What one task did. Nothing of it is visible in the table until a commit refers to the files."""

    task_id: str
    files: tuple[WrittenFile, ...]
    rows_read: int
    rows_deleted: int

    @property
    def rows_written(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def bytes_written(self) -> int:
        return sum(file.size_bytes for file in self.files)
