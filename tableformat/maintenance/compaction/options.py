"""What a compaction aims for. Names and defaults follow Iceberg's own `rewrite_data_files`."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tableformat.inspection import small_below

MIB = 1024 * 1024
_LARGE = 1.8
_FILES_PER_TASK = 4
_MOST_GROUP_BYTES = 100 * 1024 * MIB  # as Iceberg's own `max-file-group-size-bytes`


class Strategy(StrEnum):
    """In which order the rows of new files are."""

    BIN_PACK = "binpack"
    """As they come: the cheapest."""
    SORT = "sort"
    """By columns, or by the table's own sort order if none are named."""
    Z_ORDER = "zorder"
    """Near each other when they are near in all the columns."""


class OrderColumn(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    descending: bool = False
    nulls_first: bool | None = None
    """By default nulls come first in ascending and last in descending order."""

    @property
    def is_directed(self) -> bool:
        return self.descending or self.nulls_first is not None


class CompactionOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    target_file_bytes: int = Field(default=512 * MIB, ge=1024)
    min_file_bytes: int | None = Field(default=None, ge=0)
    """Smaller files are candidates; by default 75 % of the target."""
    max_file_bytes: int | None = Field(default=None, ge=1)
    """Larger files are candidates; by default 180 % of the target."""
    min_input_files: int = Field(default=5, ge=1)
    """A group of fewer files is left alone, unless it fills a whole file of the target size."""
    delete_ratio_percent: int = Field(default=30, ge=1, le=100)
    """A file is a candidate, alone as well, if about this share of its rows is deleted."""
    max_bytes_per_run: int | None = Field(default=None, ge=1)
    """Groups are no larger either, unless that is less than one file of the target size."""
    rewrite_all: bool = False
    """Rewrite every file, whatever its size and order. A second plan is then no emptier than the first."""
    use_current_spec: bool = False
    """Rewrite files of older partition specs, whatever their size, into the partitions of the table's current one."""
    strategy: Strategy = Strategy.BIN_PACK
    order: tuple[OrderColumn, ...] = ()
    cool_down_seconds: int = Field(default=0, ge=0)
    """Partitions that were written to this recently are left to their writers."""
    filter: str | None = None
    """Only partitions that can hold rows for which this holds, such as `day >= '2026-01-01'`."""
    commit_every_tasks: int | None = Field(default=None, ge=1)
    """Partial progress: commit whenever so many tasks are done, instead of everything at the end."""
    verify_contents: bool = False
    """Compare a checksum of all rows before and after, by reading the new files back before they are committed."""
    task_memory_bytes: int = Field(default=1024 * MIB, ge=MIB)
    """What a sort may hold in memory before it spills to local disk."""
    max_bytes_per_task: int | None = Field(default=None, ge=1)
    """Groups are divided into tasks of about this size; by default four times the target."""

    @model_validator(mode="after")
    def _sizes_are_in_order(self) -> "CompactionOptions":
        if not self.small_below < self.target_file_bytes < self.large_above:
            raise ValueError("min_file_bytes < target_file_bytes < max_file_bytes must hold")
        if self.strategy == Strategy.Z_ORDER and not 2 <= len(self.order) <= 8:
            raise ValueError("strategy zorder needs two to eight columns to cluster by")
        if self.strategy == Strategy.Z_ORDER and any(column.is_directed for column in self.order):
            raise ValueError("strategy zorder takes columns alone, without a direction")
        if self.strategy == Strategy.BIN_PACK and self.order:
            raise ValueError("strategy binpack takes no columns to order by: choose sort or zorder")
        return self

    @property
    def small_below(self) -> int:
        return small_below(self.target_file_bytes) if self.min_file_bytes is None else self.min_file_bytes

    @property
    def large_above(self) -> int:
        return int(self.target_file_bytes * _LARGE) if self.max_file_bytes is None else self.max_file_bytes

    @property
    def most_group_bytes(self) -> int:
        return max(self.target_file_bytes, min(self.max_bytes_per_run or _MOST_GROUP_BYTES, _MOST_GROUP_BYTES))

    @property
    def task_bytes(self) -> int:
        return max(self.target_file_bytes, self.max_bytes_per_task or _FILES_PER_TASK * self.target_file_bytes)
