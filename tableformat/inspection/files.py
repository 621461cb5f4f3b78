"""One live file as a value, made from an entry that was read with PyIceberg.

Commits need whole entries, to write them again. Where all files of a snapshot are looked at, see `snapshot_files`.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.typedef import Record

from tableformat.inspection.manifests import content_range, first_row_id, path_bounds
from tableformat.inspection.partitions import partition_key


@dataclass(frozen=True)
class LiveFile:
    """A data or delete file that a snapshot refers to."""

    path: str
    content: DataFileContent
    file_format: FileFormat
    size_bytes: int
    records: int
    spec_id: int
    partition: Record
    sequence_number: int
    added_snapshot_id: int | None
    encrypted: bool
    sort_order_id: int | None = None
    first_row_id: int | None = None
    equality_ids: tuple[int, ...] = ()
    path_bounds: tuple[bytes, bytes] | None = None
    content_range: tuple[int, int] | None = None
    nan_keys: tuple[int, ...] = ()
    """Equality keys whose bounds leave out a NaN that the file may have. Only of a file that was read as an entry."""

    @cached_property
    def partition_key(self) -> tuple[Hashable, ...]:
        """Equal for files of one partition of one spec, and only for those."""
        return partition_key(self.spec_id, self.partition)


def live_file(entry: ManifestEntry) -> LiveFile:
    file = entry.data_file
    is_position_delete = file.content == DataFileContent.POSITION_DELETES
    return LiveFile(
        path=file.file_path,
        content=file.content,
        file_format=file.file_format,
        size_bytes=file.file_size_in_bytes,
        records=file.record_count,
        spec_id=file.spec_id,
        partition=file.partition,
        sequence_number=entry.sequence_number or 0,
        added_snapshot_id=entry.snapshot_id,
        encrypted=file.key_metadata is not None,
        sort_order_id=file.sort_order_id,
        first_row_id=first_row_id(file),
        equality_ids=tuple(file.equality_ids or ()),
        nan_keys=_nan_keys(file),
        path_bounds=path_bounds(file) if is_position_delete else None,
        content_range=content_range(file) if is_position_delete else None,
    )


def _nan_keys(file: DataFile) -> tuple[int, ...]:
    """Those that have bounds, and of which the counts do not say that there is no NaN."""
    bounded = (file.lower_bounds or {}).keys() & (file.upper_bounds or {}).keys()
    return tuple(
        key for key in file.equality_ids or () if key in bounded and (file.nan_value_counts or {}).get(key) != 0
    )
