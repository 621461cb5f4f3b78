"""When a replacement may be committed to the table as it is now: the rules that keep rows from being lost or revived.

The head must descend from the snapshot that was planned on; every replaced file must still be live; and no position
delete or deletion vector for a replaced file may have come since, because it names a row of a file that goes. Equality
deletes that came since are no conflict: new files keep the starting snapshot's sequence number, so those deletes apply
to them as well; but for rows that move to another spec they are one, both where the rows were and where they arrive,
because such deletes hold for one partition. Delete files that have nothing left to apply to go in the same commit.
"""

from dataclasses import dataclass

from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from tableformat.commits.errors import CommitConflict
from tableformat.commits.memory import CommitMemory
from tableformat.commits.replacement import Replacement
from tableformat.errors import PermanentError
from tableformat.inspection import (
    DataIndex,
    DeleteIndex,
    LiveFile,
    global_specs,
    live_file,
    partition_key,
    read_manifests,
)

_Entries = tuple[ManifestFile, tuple[ManifestEntry, ...]]


class RowsDoNotMatch(PermanentError):
    """The new files do not have the rows of the old ones; committing them would change the table."""


@dataclass(frozen=True)
class TouchedManifest:
    """A manifest that has to be written again, because some of its files go."""

    manifest: ManifestFile
    entries: tuple[ManifestEntry, ...]
    removed: frozenset[int]
    """Positions of the entries whose files go."""


@dataclass(frozen=True)
class ReplacementBase:
    """What a replacement is built on: the head, and which of its manifests have files that go."""

    head: Snapshot
    starting_sequence_number: int
    kept: tuple[ManifestFile, ...]
    touched: tuple[TouchedManifest, ...]


def validate_replacement(table: Table, replacement: Replacement, memory: CommitMemory) -> ReplacementBase:
    """Raise `CommitConflict` where the table no longer has what is replaced."""
    name, metadata = ".".join(table.name()), table.metadata
    head, start = _head_and_start(name, metadata, replacement)
    sequence_number = start.sequence_number or 0
    manifests = [
        (manifest, memory.entries(table.io, manifest))
        for manifest in read_manifests(table.io, head)
        if manifest.has_added_files() or manifest.has_existing_files()
    ]
    data = [(m, entries) for m, entries in manifests if m.content == ManifestContent.DATA]
    deletes = [(m, entries) for m, entries in manifests if m.content == ManifestContent.DELETES]

    replaced = [
        live_file(entry) for _, entries in data for entry in entries if entry.data_file.file_path in replacement.removed
    ]
    if missing := replacement.removed.keys() - {file.path for file in replaced}:
        raise CommitConflict(f"table {name}: {len(missing)} replaced files are gone, one is {min(missing)}")
    _no_new_position_deletes(name, deletes, sequence_number, replaced)
    if replacement.moved:
        _no_new_equality_deletes(name, metadata, deletes, sequence_number, replacement, replaced)

    goes = [[entry.data_file.file_path in replacement.removed for entry in entries] for _, entries in data]
    if deletes:
        remaining = _remaining_data(metadata, data, replacement, sequence_number)
        goes += [[remaining.is_dangling(live_file(entry)) for entry in entries] for _, entries in deletes]
    if not any(any(going) for going in goes):
        raise CommitConflict(f"table {name}: somebody else has done already what this commit was to do")
    return ReplacementBase(
        head,
        sequence_number,
        kept=tuple(m for (m, _), going in zip(data + deletes, goes, strict=True) if not any(going)),
        touched=tuple(
            TouchedManifest(m, entries, frozenset(position for position, gone in enumerate(going) if gone))
            for (m, entries), going in zip(data + deletes, goes, strict=True)
            if any(going)
        ),
    )


def _head_and_start(name: str, metadata: TableMetadata, replacement: Replacement) -> tuple[Snapshot, Snapshot]:
    if replacement.rows_added != replacement.rows_removed - replacement.rows_deleted:
        raise RowsDoNotMatch(
            f"table {name}: {replacement.rows_removed} rows less {replacement.rows_deleted} deleted ones would become "
            f"{replacement.rows_added}; nothing was committed. Please report this defect."
        )
    if metadata.table_uuid != replacement.table_uuid:
        raise CommitConflict(f"table {name} was replaced by another table of the same name")
    if metadata.format_version != replacement.format_version:
        raise CommitConflict(f"table {name} was upgraded to format version {metadata.format_version} since planning")
    head, start = metadata.current_snapshot(), metadata.snapshot_by_id(replacement.starting_snapshot_id)
    if head is None or start is None:
        raise CommitConflict(f"table {name}: the snapshot that was planned on is gone")
    if all(ancestor.snapshot_id != start.snapshot_id for ancestor in ancestors_of(head, metadata)):
        raise CommitConflict(f"table {name} was rolled back to before the snapshot that was planned on")
    return head, start


def _no_new_position_deletes(name: str, deletes: list[_Entries], since: int, replaced: list[LiveFile]) -> None:
    """A position delete or deletion vector that came since names rows by their place in files that go."""
    recent = [
        live_file(entry)
        for manifest, entries in deletes
        if manifest.sequence_number > since
        for entry in entries
        if (entry.sequence_number or 0) > since and entry.data_file.content == DataFileContent.POSITION_DELETES
    ]
    if not recent:
        return
    index = DeleteIndex(recent, global_specs=())
    for file in replaced:
        if found := index.of(file):
            raise CommitConflict(f"table {name}: rows of {file.path} were deleted meanwhile by {found[0].path}")


def _no_new_equality_deletes(
    name: str,
    metadata: TableMetadata,
    deletes: list[_Entries],
    since: int,
    replacement: Replacement,
    replaced: list[LiveFile],
) -> None:
    """One that came since is for the rows of a partition: of one that rows leave, or of one that they enter."""
    everywhere = global_specs(metadata)
    touched = {file.partition_key for file in replaced if file.path in replacement.moved}
    touched |= {partition_key(added.spec_id, added.partition) for added in replacement.added if added.moved}
    for manifest, entries in deletes:
        if manifest.sequence_number <= since or manifest.partition_spec_id in everywhere:
            continue
        for entry in entries:
            is_equality = entry.data_file.content == DataFileContent.EQUALITY_DELETES
            if is_equality and (entry.sequence_number or 0) > since and live_file(entry).partition_key in touched:
                raise CommitConflict(
                    f"table {name}: rows of a partition that files move from or to were deleted meanwhile by "
                    f"{entry.data_file.file_path}"
                )


def _remaining_data(
    metadata: TableMetadata, data: list[_Entries], replacement: Replacement, sequence_number: int
) -> DataIndex:
    index = DataIndex(
        (
            live_file(entry)
            for _, entries in data
            for entry in entries
            if entry.data_file.file_path not in replacement.removed
        ),
        global_specs=global_specs(metadata),
    )
    for added in replacement.added:
        index.add_new(partition_key(added.spec_id, added.partition), sequence_number)
    return index
