"""When a replacement may be committed to the table as it is now: the rules that keep rows from being lost or revived.

The head must descend from the snapshot that was planned on; every replaced file must still be live; and no position
delete or deletion vector for a replaced file may have come since, because it names a row of a file that goes. Equality
deletes that came since are no conflict: new files keep the starting snapshot's sequence number, so those deletes apply
to them as well; but for rows that move to another spec they are one, both where the rows were and where they arrive,
because such deletes hold for one partition. Delete files that have nothing left to apply to go in the same commit.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from tableformat.commits.errors import CommitConflict
from tableformat.commits.memory import CommitMemory
from tableformat.commits.replacement import Replacement
from tableformat.errors import PermanentError
from tableformat.inspection import (
    AppliedDeletes,
    Booleans,
    DeleteIndex,
    Integers,
    LiveFile,
    LiveManifest,
    SnapshotFiles,
    global_specs,
    integers,
    partition_key,
)


class RowsDoNotMatch(PermanentError):
    """The new files do not have the rows of the old ones; committing them would change the table."""


@dataclass(frozen=True)
class TouchedManifest:
    """A manifest that has to be written again, because some of its files go."""

    manifest: ManifestFile
    live: int
    """How many live entries it has."""
    removed: frozenset[int]
    """The places among them of the entries whose files go."""
    files: tuple[LiveFile, ...]
    """Those files."""


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
    files = memory.files(table.io, head)
    going: Booleans = pc.is_in(files.data["path"], pa.array(list(replacement.removed), pa.large_string())).to_numpy()
    replaced = files.data_files(np.flatnonzero(going))
    if missing := replacement.removed.keys() - {file.path for file in replaced}:
        raise CommitConflict(
            f"table {name}: {len(missing)} replaced files are gone, one is {min(missing)}", files=missing
        )
    if twice := [path for path, times in Counter(file.path for file in replaced).items() if times > 1]:
        # The rows of the second would go, and nothing comes for them.
        raise CommitConflict(f"table {name}: a replaced file was added once more, {min(twice)}", files=twice)
    _no_new_position_deletes(name, files, sequence_number, replaced)
    if replacement.moved:
        _no_new_equality_deletes(name, metadata, files, sequence_number, replacement, replaced)

    touched = [
        *_touched(files.data_manifests, going, files.data_files),
        *_touched(
            files.delete_manifests, _dangling(metadata, files, going, replacement, sequence_number), files.delete_files
        ),
    ]
    if not touched:
        raise CommitConflict(f"table {name}: somebody else has done already what this commit was to do")
    written_again = {each.manifest.manifest_path for each in touched}
    return ReplacementBase(
        head,
        sequence_number,
        kept=tuple(
            each.manifest
            for each in (*files.data_manifests, *files.delete_manifests)
            if each.manifest.manifest_path not in written_again
        ),
        touched=tuple(touched),
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
    if metadata.format_version >= 3 and start.first_row_id is None and head.snapshot_id != start.snapshot_id:
        # The first commit after the upgrade numbered all rows, and those in the new files have no numbers.
        raise CommitConflict(f"table {name}: rows that had no ids when it was planned have them now")
    return head, start


def _no_new_position_deletes(name: str, files: SnapshotFiles, since: int, replaced: list[LiveFile]) -> None:
    """A position delete or deletion vector that came since names rows by their place in files that go."""
    recent = _deletes_since(files, DataFileContent.POSITION_DELETES, since)
    if not recent:
        return
    index = DeleteIndex(recent, global_specs=())
    if found := {file.path: deletes[0].path for file in replaced if (deletes := index.of(file))}:
        path, delete = next(iter(found.items()))
        raise CommitConflict(f"table {name}: rows of {path} were deleted meanwhile by {delete}", files=found)


def _no_new_equality_deletes(
    name: str,
    metadata: TableMetadata,
    files: SnapshotFiles,
    since: int,
    replacement: Replacement,
    replaced: list[LiveFile],
) -> None:
    """One that came since is for the rows of a partition: of one that rows leave, or of one that they enter."""
    everywhere = global_specs(metadata)
    deleted = {
        delete.partition_key: delete.path
        for delete in _deletes_since(files, DataFileContent.EQUALITY_DELETES, since)
        if delete.spec_id not in everywhere
    }
    moving = [(file.path, file.partition_key) for file in replaced if file.path in replacement.moved]
    moving += [(new.file.path, partition_key(new.spec_id, new.partition)) for new in replacement.added if new.moved]
    if concerned := {path: deleted[place] for path, place in moving if place in deleted}:
        delete = next(iter(concerned.values()))
        raise CommitConflict(
            f"table {name}: rows of a partition that files move from or to were deleted meanwhile by {delete}",
            files=concerned,
        )


def _deletes_since(files: SnapshotFiles, content: DataFileContent, since: int) -> list[LiveFile]:
    is_recent = integers(files.deletes, "sequence_number") > since
    return files.delete_files(np.flatnonzero(is_recent & (integers(files.deletes, "content") == content.value)))


def _dangling(
    metadata: TableMetadata, files: SnapshotFiles, going: Booleans, replacement: Replacement, sequence_number: int
) -> Booleans:
    """Whether each delete file has nothing left to apply to: no file that stays, and none that is added.

    Equality deletes can apply to added files; position deletes cannot, which name files that were there before them.
    """
    if not files.deletes.num_rows:
        return np.zeros(0, bool)
    everywhere = global_specs(metadata)
    staying = replace(files, data=files.data.filter(pa.array(~going)))
    dangling: Booleans = AppliedDeletes(staying, global_specs=everywhere).files_reached == 0
    is_equality = integers(files.deletes, "content") == DataFileContent.EQUALITY_DELETES.value
    is_later = integers(files.deletes, "sequence_number") > sequence_number
    added = {partition_key(each.spec_id, each.partition) for each in replacement.added}
    rows = np.flatnonzero(dangling & is_equality & is_later)
    for row, delete in zip(rows, files.delete_files(rows), strict=True):
        dangling[row] = not added if delete.spec_id in everywhere else delete.partition_key not in added
    return dangling


def _touched(
    manifests: Sequence[LiveManifest], going: Booleans, files_at: Callable[[Integers], list[LiveFile]]
) -> Iterator[TouchedManifest]:
    start = 0
    for each in manifests:
        places = np.flatnonzero(going[start : start + each.files])
        if len(places):
            files = tuple(files_at(start + places))
            yield TouchedManifest(each.manifest, each.files, frozenset(places.tolist()), files)
        start += each.files
