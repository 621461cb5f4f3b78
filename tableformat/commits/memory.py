"""What the attempts of one commit share, so that an attempt after a lost race costs only what changed meanwhile.

Manifests are immutable: one that was read need not be read again, and one that was written for this commit serves the
next attempt too, because all attempts carry the same snapshot id. Under a writer that commits several times a second
this is the difference between winning the race soon and never.
"""

import itertools
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tableformat.commits.written import WrittenFiles
from tableformat.inspection import SHARED_CACHE, LiveFile, ManifestCache, SnapshotFiles, snapshot_files

_KEPT_BYTES: Final = 1024**3
"""Of decoded manifests, some 200 bytes for each of a table's files: more than any but the largest have."""


@dataclass(frozen=True)
class FilteredManifest:
    """A manifest that was written again without some of its files."""

    manifest: ManifestFile
    removed: tuple[LiveFile, ...]


class CommitMemory:
    def __init__(self, snapshot_id: int, written: WrittenFiles | None = None) -> None:
        self.snapshot_id = snapshot_id
        self._commit = uuid.uuid4()
        self._numbers = itertools.count()
        self._decoded = ManifestCache(_KEPT_BYTES, beneath=SHARED_CACHE)
        self._manifests: dict[Hashable, ManifestFile] = {}
        self._filtered: dict[Hashable, FilteredManifest | None] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self.written = WrittenFiles() if written is None else written

    def new_manifest_name(self) -> str:
        return f"{self._commit}-m{next(self._numbers)}.avro"

    def new_list_name(self) -> str:
        return f"snap-{self.snapshot_id}-{next(self._numbers)}-{self._commit}.avro"

    def files(self, io: FileIO, snapshot: Snapshot) -> SnapshotFiles:
        """The snapshot's live files, of which only manifests that are new since the last attempt are read."""
        return snapshot_files(io, snapshot, self._decoded)

    def manifest(self, cause: Hashable, write: Callable[[], ManifestFile]) -> ManifestFile:
        """The manifest that was written for this cause, written first if need be. Threads may ask for different causes.

        Each call gives a value of its own: the writer of a list sets the sequence number of its attempt in it.
        """
        if cause not in self._manifests:
            self._manifests[cause] = write()
        return _copy(self._manifests[cause])

    def filtered(self, cause: Hashable, write: Callable[[], FilteredManifest | None]) -> FilteredManifest | None:
        """As `manifest`, with what was removed; also remembers that nothing is."""
        if cause not in self._filtered:
            self._filtered[cause] = write()
        known = self._filtered[cause]
        return None if known is None else FilteredManifest(_copy(known.manifest), known.removed)

    def same(self, paths: frozenset[str]) -> frozenset[str]:
        """The equal set of an earlier attempt: causes that have it are then compared at once, however large it is."""
        return self._sets.setdefault(paths, paths)


def _copy(manifest: ManifestFile) -> ManifestFile:
    """PyIceberg's own copy shares what is inside."""
    return ManifestFile(*(manifest[position] for position in range(len(manifest))))
