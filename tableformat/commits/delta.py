"""The snapshot that has some files more and some files less than the one before: appends, deletes and overwrites.

A removed file's entry becomes a `DELETED` one of this snapshot; the others stay what they are. A delete file that names
a removed file and no other goes with it, deletion vectors among them. A data file has one deletion vector at most, so
the position deletes that a new vector takes over go as well.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from tableformat.commits.counting import counted
from tableformat.commits.errors import CommitConflict
from tableformat.commits.manifests import FullManifestWriter
from tableformat.commits.memory import CommitMemory, FilteredManifest
from tableformat.commits.snapshot_writer import SnapshotWriter
from tableformat.inspection import LiveFile, live_file, manifest_first_row_id, read_entries, read_manifests
from tableformat.inspection.manifests import path_bounds
from tableformat.plurals import plural


@dataclass(frozen=True)
class NewFile:
    """A data or delete file that comes with the snapshot."""

    file: DataFile
    sequence_number: int | None = None
    """Of rows that are older than the snapshot: younger equality deletes must still apply to them."""


@dataclass(frozen=True)
class Delta:
    """What changes from one snapshot to the next."""

    removed: Mapping[str, str] = field(default_factory=dict)
    """The data files that go, each with the manifest that has it."""
    superseded: Set[str] = frozenset()
    """Data files whose position deletes are all in a vector that is among the new files."""
    added: tuple[NewFile, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        if all(new.file.content != DataFileContent.DATA for new in self.added):
            return Operation.DELETE
        is_append = not self.removed and all(new.file.content == DataFileContent.DATA for new in self.added)
        return Operation.APPEND if is_append else Operation.OVERWRITE


def snapshot_with_delta(table: Table, head: Snapshot | None, delta: Delta, memory: CommitMemory) -> Snapshot:
    """Written, and referred to by nothing yet. Raises `CommitConflict` if a file that is to go has gone already."""
    return _DeltaWriter(table, head, delta, memory).write()


class _DeltaWriter:
    def __init__(self, table: Table, head: Snapshot | None, delta: Delta, memory: CommitMemory) -> None:
        self._table = table
        self._head = head
        self._delta = delta
        self._memory = memory
        self._writer = SnapshotWriter(table, memory.snapshot_id, memory.written)
        self._collector = self._writer.summary_collector()
        self._removed_in: defaultdict[str, set[str]] = defaultdict(set)
        for path, manifest_path in delta.removed.items():
            self._removed_in[manifest_path].add(path)
        self._named = memory.same(frozenset({*delta.removed, *delta.superseded}))
        self._found: set[str] = set()

    def write(self) -> Snapshot:
        before = [] if self._head is None else read_manifests(self._table.io, self._head)
        kept = [self._filtered(manifest) for manifest in before]
        if missing := self._delta.removed.keys() - self._found:
            name = ".".join(self._table.name())
            raise CommitConflict(f"table {name}: {plural(len(missing), 'file')} gone already, such as {min(missing)}")
        manifests = [*self._added(), *kept]
        return self._writer.snapshot(
            self._writer.path(self._memory.new_list_name()),
            self._head,
            manifests,
            self._delta.operation,
            self._collector.build() | dict(self._delta.summary),
        )

    def _added(self) -> list[ManifestFile]:
        """Written for each attempt: what is added may differ from one to the next."""
        groups: dict[tuple[int, ManifestContent], list[NewFile]] = defaultdict(list)
        for new in self._delta.added:
            is_data = new.file.content == DataFileContent.DATA
            groups[new.file.spec_id, ManifestContent.DATA if is_data else ManifestContent.DELETES].append(new)
        manifests = []
        for (spec_id, content), files in groups.items():
            with self._manifest(spec_id, content) as writer:
                for new in files:
                    entry = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._writer.snapshot_id,
                        sequence_number=new.sequence_number,
                        file_sequence_number=None,
                        data_file=new.file,
                    )
                    self._count(self._collector.add_file, live_file(entry))
                    writer.add(entry)
            manifests.append(writer.to_manifest_file())
        return manifests

    def _filtered(self, manifest: ManifestFile) -> ManifestFile:
        is_data = manifest.content == ManifestContent.DATA
        concerned = frozenset(self._removed_in.get(manifest.manifest_path, ())) if is_data else self._named
        if not concerned:
            return manifest
        version = self._table.metadata.format_version
        cause = (manifest.manifest_path, manifest_first_row_id(manifest), version, concerned)
        filtered = self._memory.filtered(cause, lambda: self._write_filtered(manifest))
        if filtered is None:
            return manifest
        for file in filtered.removed:
            self._count(self._collector.remove_file, file)
        if is_data:
            self._found |= {file.path for file in filtered.removed}
        return filtered.manifest

    def _write_filtered(self, manifest: ManifestFile) -> FilteredManifest | None:
        """None if nothing of it goes. Its entries are not kept: those of a large table would not fit into memory."""
        entries = read_entries(self._table.io, manifest)
        going = [self._goes(entry.data_file, manifest.content) for entry in entries]
        if not any(going):
            return None
        with self._manifest(manifest.partition_spec_id, manifest.content) as writer:
            for entry, goes in zip(entries, going, strict=True):
                if goes:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        removed = tuple(live_file(entry) for entry, goes in zip(entries, going, strict=True) if goes)
        return FilteredManifest(writer.to_manifest_file(), removed)

    def _goes(self, file: DataFile, content: ManifestContent) -> bool:
        if content == ManifestContent.DATA:
            return file.file_path in self._delta.removed
        if file.content != DataFileContent.POSITION_DELETES:
            return False
        bounds = path_bounds(file)
        if bounds is None or bounds[0] != bounds[1]:
            return False
        return bounds[0].decode() in self._named

    def _count(self, count: Callable[..., None], file: LiveFile) -> None:
        spec = self._table.metadata.specs()[file.spec_id]
        count(counted(file), schema=self._writer.schema(file.spec_id), partition_spec=spec)

    def _manifest(self, spec_id: int, content: ManifestContent) -> FullManifestWriter:
        return self._writer.manifest(self._writer.path(self._memory.new_manifest_name()), spec_id, content)
