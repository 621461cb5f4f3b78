"""Which files a table's snapshots lead to: the one place that knows, for everything that deletes.

A file lives as long as a live entry (added or existing) of a manifest of any snapshot names it, or the metadata names
it itself. Nothing else counts: not the path of a removed entry (several deletion vectors share one file), and not
sequence numbers (a cherry-picked file has one in each of its snapshots). Manifests are read once each, in parallel,
and only the fields that are needed are decoded, of many files at a time. One that cannot be read stops everything:
what is unknown is alive.

Files are compared by their path alone, without scheme and bucket: one file written in two ways is one file, and two
files of one name in two buckets keep each other alive, which errs on the safe side.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.manifest_lists import ListedManifests, what_is_missing
from tableformat.locations import Place
from tableformat.maintenance.avro_fields import AvroFields, BrokenFile
from tableformat.maintenance.errors import UnreadableMetadata
from tableformat.storage.errors import StorageUnavailable

_PARALLEL = 8
_AHEAD, _AHEAD_BYTES = 64, 16 * 1024 * 1024  # read ahead of their use; their contents are in memory

_BATCH_FILES, _BATCH_BYTES = 256, 1024 * 1024  # decoded together

_PATH, _LENGTH, _ADDED, _EXISTING, _LISTED_CONTENT = 500, 501, 504, 505, 517
_MANIFEST_LIST = AvroFields(
    {_PATH: pa.large_string(), _LENGTH: pa.int64()},
    {_ADDED: pa.int32(), _EXISTING: pa.int32(), _LISTED_CONTENT: pa.int32()},  # which lists of version 1 may lack
)
_STATUS, _DATA_FILE, _CONTENT, _FILE_PATH, _FILE_SIZE = 0, 2, 134, 100, 104
_MANIFEST = AvroFields(
    {_STATUS: pa.int32(), _FILE_PATH: pa.large_string(), _FILE_SIZE: pa.int64()},
    {_CONTENT: pa.int32()},  # which manifests of format version 1 lack
    inline=frozenset({_DATA_FILE, 102}),  # and the partition, which may be an empty record
)

S = TypeVar("S")
T = TypeVar("T")
_Decoded = tuple[str, int, list[pa.Array]]


class FileKind(StrEnum):
    """Kinds of files, in the order in which they go: what leads to others goes after them."""

    DATA = "data"
    DELETES = "deletes"
    STATISTICS = "statistics"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class TableFile:
    location: str
    kind: FileKind
    size_bytes: int

    @property
    def key(self) -> str:
        return key_of(self.location)

    def keep_from(self, dead: "dict[str, TableFile]") -> None:
        """Take what the table needs out of the files that are to go, whichever way a reader takes its location."""
        place = Place.of(self.location)
        dead.pop(place.comparable_path, None)
        if (other := place.as_s3_file_io) is not None:
            dead.pop(other.comparable_path, None)


def key_of(location: str) -> str:
    """By which files are compared."""
    return Place.of(location).comparable_path


class Reachability:
    """Reads what a table consists of. Holds no state but how to read and what to say when that fails."""

    def __init__(self, table: str, io: FileIO) -> None:
        self._table = table
        self._io = io

    def manifests(self, snapshots: Iterable[Snapshot]) -> dict[str, TableFile]:
        """The manifests of all the snapshots, and their manifest lists, by their keys."""
        found: dict[str, TableFile] = {}
        seen: set[str] = set()
        read = list(snapshots)
        lists = ((snapshot.manifest_list, 0) for snapshot in read)
        decoded = self._read("manifest list", _MANIFEST_LIST, lists)
        for snapshot, (location, size, (paths, lengths, *counts)) in zip(read, decoded, strict=True):
            self._require_whole(snapshot, _listed(*counts))
            file = TableFile(location, FileKind.MANIFEST_LIST, size)
            found[file.key] = file
            for path, length in zip(paths.to_pylist(), lengths.to_pylist(), strict=True):
                if path not in seen:  # most snapshots have most manifests of the one before
                    seen.add(path)
                    manifest = TableFile(path, FileKind.MANIFEST, length)
                    found[manifest.key] = manifest
        return found

    def _require_whole(self, snapshot: Snapshot, listed: ListedManifests) -> None:
        location = snapshot.manifest_list
        with self._reading("manifest list", location):
            missing = what_is_missing(snapshot, listed, lambda: self._content(location))
        if missing is not None:
            raise self._broken("manifest list", location, missing)

    def live_files(self, manifests: Iterable[TableFile]) -> Iterator[list[TableFile]]:
        """The data and delete files that live in each of the manifests."""
        only = ((file.location, file.size_bytes) for file in manifests if file.kind is FileKind.MANIFEST)
        for _, _, (status, path, size, content) in self._read("manifest", _MANIFEST, only):
            live = pc.not_equal(status, ManifestEntryStatus.DELETED.value)
            columns = (each.filter(live).to_pylist() for each in (content, path, size))
            yield [
                TableFile(path, FileKind.DELETES if content else FileKind.DATA, size)
                for content, path, size in zip(*columns, strict=True)
            ]

    def without_live(
        self,
        files: Mapping[str, TableFile],
        metadata: TableMetadata,
        metadata_location: str,
        *,
        known: "Known | None" = None,
    ) -> dict[str, TableFile]:
        """Those of the files that the table does not need. What is `known` not to lead to any of them is not read."""
        known = known or Known()
        dead = dict(files)
        for key in metadata_files(metadata, metadata_location):
            dead.pop(key, None)
        for file in statistics_files(metadata):
            file.keep_from(dead)
        unknown = [s for s in metadata.snapshots if s.snapshot_id not in known.snapshots] if dead else []
        manifests = self.manifests(unknown)
        for file in manifests.values():
            file.keep_from(dead)
        unread = [file for key, file in manifests.items() if key not in known.manifests]
        if any(file.kind in (FileKind.DATA, FileKind.DELETES, FileKind.STATISTICS) for file in dead.values()):
            for live in self.live_files(unread):
                for file in live:
                    file.keep_from(dead)
        return dead

    def _read(self, what: str, fields: AvroFields, files: Iterable[tuple[str, int]]) -> Iterator[_Decoded]:
        """Each file's location, its size and its fields: fetched in parallel, and decoded some at a time.

        With each file comes the size that it is known to have at least: one that was cut off between two blocks can be
        decoded, and would lack live files.
        """

        def fetch(file: tuple[str, int]) -> tuple[str, bytes]:
            location, least = file
            with self._reading(what, location):
                content = self._content(location)
            if len(content) < least:
                raise self._broken(what, location, f"it has {len(content)} bytes, and {least} by its list")
            return location, content

        batch: list[tuple[str, bytes]] = []
        size = 0
        for location, content in _parallel(fetch, files, size_of=lambda file: file[1]):
            batch.append((location, content))
            size += len(content)
            if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
                yield from self._decoded(what, fields, batch)
                batch, size = [], 0
        yield from self._decoded(what, fields, batch)

    def _decoded(self, what: str, fields: AvroFields, batch: Sequence[tuple[str, bytes]]) -> Iterator[_Decoded]:
        try:
            decoded = fields.read(batch) if batch else []
        except BrokenFile as error:
            raise self._broken(what, error.location, str(error)) from error
        for (location, content), columns in zip(batch, decoded, strict=True):
            yield location, len(content), columns

    def _broken(self, what: str, location: str, reason: str) -> UnreadableMetadata:
        return UnreadableMetadata(
            f"table {self._table}: its {what} {location} is broken ({reason}), so nobody can say which files are "
            "needed; nothing was deleted. Restore it"
        )

    def _content(self, location: str) -> bytes:
        with self._io.new_input(location).open() as stream:
            return stream.read()

    @contextmanager
    def _reading(self, what: str, location: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise UnreadableMetadata(
                f"table {self._table}: its {what} {location} does not exist, so nobody can say which files are needed; "
                "nothing was deleted. Restore it, or expire the snapshots that lead to it by another engine"
            ) from error
        except OSError as error:
            raise StorageUnavailable(
                f"table {self._table}: its {what} {location} cannot be read now ({error}); nothing was deleted. "
                "Run again"
            ) from error


@dataclass(frozen=True)
class Known:
    """Snapshots and manifests of which it is certain that they do not lead to the files in question."""

    snapshots: frozenset[int] = frozenset()
    manifests: frozenset[str] = frozenset()


def statistics_files(metadata: TableMetadata, snapshots: frozenset[int] | None = None) -> list[TableFile]:
    """Table and partition statistics, of the given snapshots only or of all."""
    return [
        TableFile(statistics.statistics_path, FileKind.STATISTICS, statistics.file_size_in_bytes)
        for statistics in (*metadata.statistics, *metadata.partition_statistics)
        if snapshots is None or statistics.snapshot_id in snapshots
    ]


def metadata_files(metadata: TableMetadata, metadata_location: str) -> set[str]:
    """The keys of the current metadata file and of those that its log names."""
    return {key_of(metadata_location)} | {key_of(entry.metadata_file) for entry in metadata.metadata_log}


def _listed(added: pa.Array, existing: pa.Array, content: pa.Array) -> ListedManifests:
    """By the columns of a list. One without contents is of data only."""
    counts = pc.add(added, existing).filter(pc.equal(pc.fill_null(content, 0), ManifestContent.DATA.value))
    return ListedManifests(len(added), None if counts.null_count else pc.sum(counts).as_py() or 0)


def _parallel(read: Callable[[S], T], items: Iterable[S], *, size_of: Callable[[S], int]) -> Iterator[T]:
    """The results in order, with bounded numbers of items and bytes read ahead. The first failure ends it."""
    remaining = iter(items)
    ahead: deque[tuple[Future[T], int]] = deque()
    size = 0
    with ThreadPoolExecutor(_PARALLEL) as pool:
        try:
            while True:
                while len(ahead) < _AHEAD and (size < _AHEAD_BYTES or not ahead):
                    item = next(remaining, None)
                    if item is None:
                        break
                    ahead.append((pool.submit(read, item), size_of(item)))
                    size += ahead[-1][1]
                if not ahead:
                    return
                future, its_size = ahead.popleft()
                size -= its_size
                yield future.result()
        finally:
            for future, _ in ahead:
                future.cancel()
