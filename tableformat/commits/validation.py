"""When a replacement may be committed to the table as it is now: the rules that keep rows from being lost or revived.

The head must descend from the snapshot that was planned on; every replaced file must still be live; and no position
delete for a replaced file may have come since, because it names a row of a file that goes. Equality deletes that came
since are no conflict: new files keep the starting snapshot's sequence number, so those deletes apply to them as well.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from tableformat.commits.errors import CommitConflict
from tableformat.commits.replacement import Replacement
from tableformat.errors import PermanentError
from tableformat.inspection import partition_key

_PATH_FIELD_ID = 2147483546


class RowsDoNotMatch(PermanentError):
    """The new files do not have the rows of the old ones; committing them would change the table."""


@dataclass(frozen=True)
class ReplacementBase:
    """What a replacement is built on: the head, and which of its manifests have files that go."""

    head: Snapshot
    starting_sequence_number: int
    kept: tuple[ManifestFile, ...]
    touched: tuple[tuple[ManifestFile, tuple[ManifestEntry, ...]], ...]


def validate_replacement(table: Table, replacement: Replacement) -> ReplacementBase:
    """Raise `CommitConflict` where the table no longer has what is replaced."""
    name, metadata = ".".join(table.name()), table.metadata
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

    kept: list[ManifestFile] = []
    touched: list[tuple[ManifestFile, tuple[ManifestEntry, ...]]] = []
    replaced: dict[str, DataFile] = {}
    manifests = head.manifests(table.io)
    for manifest in manifests:
        entries = _entries_to_search(manifest, table.io)
        found = {
            file.file_path: file for file in (e.data_file for e in entries) if file.file_path in replacement.removed
        }
        replaced |= found
        if found:
            touched.append((manifest, entries))
        elif manifest.has_added_files() or manifest.has_existing_files():
            kept.append(manifest)
    if missing := replacement.removed.keys() - replaced.keys():
        raise CommitConflict(f"table {name}: {len(missing)} replaced files are gone, one is {min(missing)}")
    sequence_number = start.sequence_number or 0
    _no_new_position_deletes(name, table.io, manifests, sequence_number, replaced)
    return ReplacementBase(head, sequence_number, tuple(kept), tuple(touched))


def _entries_to_search(manifest: ManifestFile, io: FileIO) -> tuple[ManifestEntry, ...]:
    if manifest.content == ManifestContent.DELETES:
        return ()
    return tuple(manifest.fetch_manifest_entry(io))


def _no_new_position_deletes(
    name: str, io: FileIO, manifests: list[ManifestFile], since: int, replaced: dict[str, DataFile]
) -> None:
    partitions: set[tuple[Hashable, ...]] = {partition_key(file.spec_id, file.partition) for file in replaced.values()}
    for manifest in manifests:
        if manifest.content != ManifestContent.DELETES or manifest.sequence_number <= since:
            continue
        for entry in manifest.fetch_manifest_entry(io):
            deletes = entry.data_file
            if (entry.sequence_number or 0) <= since or deletes.content != DataFileContent.POSITION_DELETES:
                continue
            if partition_key(deletes.spec_id, deletes.partition) in partitions and _may_name(deletes, replaced):
                raise CommitConflict(
                    f"table {name}: rows of replaced files were deleted meanwhile ({deletes.file_path})"
                )


def _may_name(deletes: DataFile, replaced: dict[str, DataFile]) -> bool:
    """Whether a position delete file can name one of the files, by the bounds of the paths in it."""
    lower = (deletes.lower_bounds or {}).get(_PATH_FIELD_ID)
    upper = (deletes.upper_bounds or {}).get(_PATH_FIELD_ID)
    if lower is None or upper is None:
        return True
    # Bounds may be truncated: a lower one is then a prefix, and an upper one was raised.
    return any(lower <= path.encode() <= upper for path in replaced)
