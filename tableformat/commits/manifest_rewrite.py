"""Writes the live entries of some manifests into others, and the snapshot that has those instead.

An entry stays what it is: its file, its snapshot, its sequence numbers and its first row id; its status is `EXISTING`
now. Entries of removed files are not carried over: they speak of an older snapshot. The snapshot's rows are its
parent's.
"""

import contextlib
import itertools
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Record

from tableformat.commits.entries import CarriedEntries, carried_entries
from tableformat.commits.snapshot_writer import SnapshotWriter
from tableformat.commits.written import WrittenFiles
from tableformat.errors import PermanentError
from tableformat.inspection import manifest_first_row_id


class EntriesDoNotMatch(PermanentError):
    """The new manifests do not have the entries of the old ones; committing them would change the table."""


@dataclass(frozen=True)
class RewrittenManifests:
    """Manifests that are written and that nothing refers to yet, for one snapshot to come."""

    snapshot_id: int
    replaced: Mapping[str, int | None]
    """By their paths, the first row ids that their entries inherited: the new entries have what came of them."""
    manifests: tuple[ManifestFile, ...]
    entries: int


@dataclass(frozen=True)
class MergedManifests:
    """Manifests of one spec and content that are to become fewer, of about the target size."""

    spec_id: int
    content: ManifestContent
    manifests: Sequence[ManifestFile]
    target_bytes: int


def manifests_asked_for(total_bytes: int, target_bytes: int) -> int:
    """By their size: what has more manifests is written anew."""
    return max(1, -(-total_bytes // target_bytes))


def rewrite_manifests_of(
    table: Table, groups: Sequence[MergedManifests], written_files: WrittenFiles
) -> RewrittenManifests:
    snapshot_id = table.metadata.new_snapshot_id()
    writer = _GroupWriter(table, snapshot_id, written_files)
    written: list[ManifestFile] = []
    total = 0
    for group in groups:
        entries = writer.entries_of(group)
        written += writer.write(group, entries)
        total += len(entries.records)
    replaced = {each.manifest_path: manifest_first_row_id(each) for group in groups for each in group.manifests}
    return RewrittenManifests(snapshot_id, replaced, tuple(written), total)


class _GroupWriter:
    def __init__(self, table: Table, snapshot_id: int, written: WrittenFiles) -> None:
        self._table = table
        self._writer = SnapshotWriter(table, snapshot_id, written)
        self._commit = uuid.uuid4()
        self._numbers = itertools.count()

    def entries_of(self, group: MergedManifests) -> CarriedEntries:
        entries = carried_entries(
            self._table.io,
            group.manifests,
            format_version=self._table.metadata.format_version,
            content=group.content,
            spec=self._table.metadata.specs()[group.spec_id],
            schema=self._writer.schema(group.spec_id),
            order=_order,
        )
        number = len(entries.records)
        recorded = sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in group.manifests)
        if all(each.added_files_count is not None for each in group.manifests) and recorded != number:
            raise EntriesDoNotMatch(
                f"table {'.'.join(self._table.name())}: manifests with {recorded} live entries by their list have "
                f"{number}; nothing was committed"
            )
        return entries

    def write(self, group: MergedManifests, entries: CarriedEntries) -> list[ManifestFile]:
        """In as few as their size asks for. That is known when they are written: together, entries have one header and
        are compressed better than apart."""
        count = manifests_asked_for(sum(each.manifest_length for each in group.manifests), group.target_bytes)
        while True:
            number = len(entries.records)
            size = max(1, -(-number // count))
            written = [
                self._write_part(group, entries, start, min(start + size, number)) for start in range(0, number, size)
            ]
            count = manifests_asked_for(sum(each.manifest_length for each in written), group.target_bytes)
            if count >= len(written):
                return written
            for manifest in written:
                with contextlib.suppress(OSError):  # what stays behind is left to the removal of orphans
                    self._table.io.delete(manifest.manifest_path)

    def _write_part(self, group: MergedManifests, entries: CarriedEntries, start: int, end: int) -> ManifestFile:
        path = self._writer.path(f"{self._commit}-m{next(self._numbers)}.avro")
        with self._writer.manifest(path, group.spec_id, group.content) as writer:
            writer.write_encoded(entries.part(start, end))
        return writer.to_manifest_file()


def snapshot_with(
    table: Table,
    head: Snapshot,
    current: Sequence[ManifestFile],
    rewritten: RewrittenManifests,
    written: WrittenFiles,
    *,
    of_run: Mapping[str, str],
) -> Snapshot:
    """The head's snapshot with the new manifests in the place of the old. `current` has all those that are replaced;
    `of_run` is what the summary says of the run."""
    kept = [manifest for manifest in current if manifest.manifest_path not in rewritten.replaced]
    writer = SnapshotWriter(table, rewritten.snapshot_id, written)
    changes = {
        "manifests-created": str(len(rewritten.manifests)),
        "manifests-kept": str(len(kept)),
        "manifests-replaced": str(len(rewritten.replaced)),
        "entries-processed": str(rewritten.entries),
        **of_run,
    }
    # The writer of a list sets the sequence number of its attempt in the values that it gets.
    own = [ManifestFile(*(each[place] for place in range(len(each)))) for each in rewritten.manifests]
    path = writer.path(f"snap-{rewritten.snapshot_id}-0-{uuid.uuid4()}.avro")
    return writer.snapshot(path, head, [*own, *kept], Operation.REPLACE, changes)


def _order(partition: Record) -> tuple[Hashable, ...]:
    """Neighbours in it are neighbours in every partition field, the first one first; no value comes before any."""
    values = (partition[position] for position in range(len(partition)))
    return tuple((value is not None, 0 if value is None else _comparable(value)) for value in values)


def _comparable(value: Hashable) -> Hashable:
    # Values of one field are of one type and have an order of their own, but for NaN, which would disturb any sort.
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value
