"""What a compaction aims for. Names and defaults follow Iceberg's own `rewrite_data_files`."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

MIB = 1024 * 1024
_SMALL, _LARGE = 0.75, 1.8
_FILES_PER_TASK = 4


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
    max_bytes_per_task: int | None = Field(default=None, ge=1)
    """Groups are divided into tasks of about this size; by default four times the target."""

    @model_validator(mode="after")
    def _sizes_are_in_order(self) -> "CompactionOptions":
        if not self.small_below < self.target_file_bytes < self.large_above:
            raise ValueError("min_file_bytes < target_file_bytes < max_file_bytes must hold")
        return self

    @property
    def small_below(self) -> int:
        return int(self.target_file_bytes * _SMALL) if self.min_file_bytes is None else self.min_file_bytes

    @property
    def large_above(self) -> int:
        return int(self.target_file_bytes * _LARGE) if self.max_file_bytes is None else self.max_file_bytes

    @property
    def task_bytes(self) -> int:
        return max(self.target_file_bytes, self.max_bytes_per_task or _FILES_PER_TASK * self.target_file_bytes)
