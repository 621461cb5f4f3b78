"""The live files of one snapshot, from its manifests: what every plan and every health figure starts from."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.utils.concurrent import ExecutorFactory

from tableformat.inspection.manifests import (
    content_range,
    first_row_id,
    manifest_first_row_id,
    path_bounds,
    read_entries,
    read_manifests,
)
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

    @cached_property
    def partition_key(self) -> tuple[Hashable, ...]:
        """Equal for files of one partition of one spec, and only for those."""
        return partition_key(self.spec_id, self.partition)


class ManifestCache:
    """The files of manifests that were read lately, up to a number of files; the longest unused go first."""

    def __init__(self, max_files: int) -> None:
        self._max_files = max_files
        self._files = 0
        self._entries: OrderedDict[Hashable, tuple[LiveFile, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> tuple[LiveFile, ...] | None:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Hashable, files: tuple[LiveFile, ...]) -> None:
        with self._lock:
            if key in self._entries or len(files) > self._max_files:
                return
            self._entries[key] = files
            self._files += len(files)
            while self._files > self._max_files:
                _, dropped = self._entries.popitem(last=False)
                self._files -= len(dropped)


_cache = ManifestCache(max_files=200_000)


@dataclass(frozen=True)
class SnapshotFiles:
    manifests: tuple[ManifestFile, ...]
    data: tuple[LiveFile, ...]
    deletes: tuple[LiveFile, ...]


def snapshot_files(io: FileIO, snapshot: Snapshot) -> SnapshotFiles:
    """Every live file of the snapshot, in the order of its manifests."""
    manifests = tuple(read_manifests(io, snapshot))

    def read(manifest: ManifestFile) -> tuple[LiveFile, ...]:
        # A manifest never changes; what its entries inherit can differ from list to list, so it is part of the key.
        key = (manifest.manifest_path, manifest.sequence_number, manifest_first_row_id(manifest))
        found = _cache.get(key)
        if found is None:
            found = tuple(live_file(entry) for entry in read_entries(io, manifest))
            _cache.put(key, found)
        return found

    files = [file for read_files in ExecutorFactory.get_or_create().map(read, manifests) for file in read_files]
    return SnapshotFiles(
        manifests,
        data=tuple(file for file in files if file.content == DataFileContent.DATA),
        deletes=tuple(file for file in files if file.content != DataFileContent.DATA),
    )


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
        path_bounds=path_bounds(file) if is_position_delete else None,
        content_range=content_range(file) if is_position_delete else None,
    )
