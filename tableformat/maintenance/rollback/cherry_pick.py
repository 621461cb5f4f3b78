"""Publishes a staged snapshot on main, by the rules of Iceberg's own cherry-pick.

Where its parent is main's head, main moves to it. Otherwise an append is committed once more on top of main, and so is
an overwrite of whole partitions that nobody wrote to since. The source is recorded in the new snapshot's summary, by
which a second pick is recognised. Anything else is refused: what it removed or rewrote may have changed since.
"""

import time
from collections.abc import Callable, Hashable

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change, snapshots_still_there
from tableformat.commits.delta import Delta, NewFile, snapshot_with_delta
from tableformat.commits.head import move_main, on_main
from tableformat.commits.memory import CommitMemory
from tableformat.commits.runs import summary_of
from tableformat.errors import PermanentError
from tableformat.inspection import partition_key, read_entries, read_manifests
from tableformat.inspection.manifests import forget_first_row_id
from tableformat.maintenance.reachability import Reachability, key_of
from tableformat.maintenance.rollback.planning import ancestry

_SOURCE = "source-snapshot-id"
_REPLACE_PARTITIONS = "replace-partitions"
_STAGED_WAP_ID, _PUBLISHED_WAP_ID = "wap.id", "published-wap-id"


class CherryPickRefused(PermanentError):
    """The snapshot cannot be published on what main is now. Nothing was changed."""


class CherryPickResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source_snapshot_id: int
    snapshot_id: int
    fast_forward: bool


def cherry_pick(
    catalog: Catalog,
    identifier: Identifier,
    snapshot_id: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> CherryPickResult:
    """Publish the snapshot. Publishing it again says what was done before."""
    table = commit_change(catalog, identifier, lambda table: _prepare(table, snapshot_id), sleep=sleep)
    published = _published(table, snapshot_id)
    if published is None:
        raise CherryPickRefused(f"table {'.'.join(identifier)}: snapshot {snapshot_id} was published and is gone again")
    return CherryPickResult(
        source_snapshot_id=snapshot_id,
        snapshot_id=published.snapshot_id,
        fast_forward=published.snapshot_id == snapshot_id,
    )


def _main_history(table: Table) -> list[Snapshot]:
    main = table.metadata.refs.get(MAIN_BRANCH)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    return [] if main is None else list(ancestry(main.snapshot_id, by_id))


def _published(table: Table, snapshot_id: int) -> Snapshot | None:
    return next(
        (
            snapshot
            for snapshot in _main_history(table)
            if snapshot.snapshot_id == snapshot_id or summary_of(snapshot).get(_SOURCE) == str(snapshot_id)
        ),
        None,
    )


def _prepare(table: Table, snapshot_id: int) -> Change | None:
    name = ".".join(table.name())
    if _published(table, snapshot_id) is not None:
        return None
    picked = table.metadata.snapshot_by_id(snapshot_id)
    if picked is None:
        raise CherryPickRefused(f"table {name} has no snapshot {snapshot_id}; it may have expired")
    history = _main_history(table)
    head = history[0] if history else None
    # It also has to be there at the swap: an expiry may be about to take it, and its files with it.
    still_there = snapshots_still_there(table, snapshot_id)
    if picked.parent_snapshot_id == (head.snapshot_id if head else None):
        change = move_main(table, snapshot_id)
    else:
        delta = _Pick(table, picked, history).delta()
        memory = CommitMemory(table.metadata.new_snapshot_id())
        change = on_main(table, snapshot_with_delta(table, head, delta, memory))
    return Change(change.updates, (*change.requirements, *still_there))


class _Pick:
    """A snapshot that is to be applied once more, on a main that has moved on."""

    def __init__(self, table: Table, picked: Snapshot, history: list[Snapshot]) -> None:
        self._table = table
        self._name = ".".join(table.name())
        self._picked = picked
        self._history = history

    def delta(self) -> Delta:
        operation = self._picked.summary.operation if self._picked.summary is not None else None
        replaces_partitions = summary_of(self._picked).get(_REPLACE_PARTITIONS, "false").lower() == "true"
        if operation == Operation.APPEND:
            removed: dict[str, str] = {}
        elif operation == Operation.OVERWRITE and replaces_partitions:
            removed = self._files_to_replace()
        else:
            raise CherryPickRefused(
                f"table {self._name}: snapshot {self._picked.snapshot_id} neither appends nor replaces partitions, and "
                "main has moved on since; write it again on top of main"
            )
        summary = {_SOURCE: str(self._picked.snapshot_id)}
        if wap_id := self._unpublished_wap_id():
            summary[_PUBLISHED_WAP_ID] = wap_id
        return Delta(removed=removed, added=tuple(NewFile(file) for file in self._added_files()), summary=summary)

    def _unpublished_wap_id(self) -> str | None:
        wap_id = summary_of(self._picked).get(_STAGED_WAP_ID)
        published = {summary_of(each).get(key) for each in self._history for key in (_PUBLISHED_WAP_ID, _STAGED_WAP_ID)}
        if wap_id and wap_id in published:
            raise CherryPickRefused(
                f"table {self._name}: {_STAGED_WAP_ID} {wap_id} was published already, by another snapshot"
            )
        return wap_id

    def _added_files(self) -> list[DataFile]:
        """As they are to be added again: they get sequence numbers and row ids anew."""
        files = _added_by(self._table, self._picked)
        if any(file.content != DataFileContent.DATA for file in files):
            raise CherryPickRefused(
                f"table {self._name}: snapshot {self._picked.snapshot_id} has deletes as well, which name rows of the "
                "table as it was; write it again on top of main"
            )
        self._require_not_there({key_of(file.file_path) for file in files})
        for file in files:
            forget_first_row_id(file)
        return files

    def _files_to_replace(self) -> dict[str, str]:
        """The files that it removed, each with its manifest now, if nobody wrote to those partitions since."""
        parent, number = self._picked.parent_snapshot_id, self._picked.snapshot_id
        if parent is not None and all(each.snapshot_id != parent for each in self._history):
            raise CherryPickRefused(
                f"table {self._name}: snapshot {number} replaces partitions of a history that main does not have"
            )
        partitions = {_partition_of(file) for file in _added_by(self._table, self._picked)}
        for snapshot in self._history:
            if snapshot.snapshot_id == parent:
                break
            if any(_partition_of(file) in partitions for file in _added_by(self._table, snapshot)):
                raise CherryPickRefused(
                    f"table {self._name}: partitions that snapshot {number} replaces were written to by snapshot "
                    f"{snapshot.snapshot_id} since; write it again on top of main"
                )
        going = _removed_by(self._table, self._picked)
        there = self._manifests_of(going)
        if missing := going - there.keys():
            raise CherryPickRefused(
                f"table {self._name}: {len(missing)} files that snapshot {number} replaces are gone, one is "
                f"{min(missing)}; write it again on top of main"
            )
        return there

    def _manifests_of(self, files: set[str]) -> dict[str, str]:
        if not files or not self._history:
            return {}
        return {
            entry.data_file.file_path: manifest.manifest_path
            for manifest in read_manifests(self._table.io, self._history[0])
            if manifest.content == ManifestContent.DATA
            for entry in read_entries(self._table.io, manifest)
            if entry.data_file.file_path in files
        }

    def _require_not_there(self, files: set[str]) -> None:
        """A file that main has already, by another way, would have its rows twice."""
        if not self._history:
            return
        reader = Reachability(self._name, self._table.io)
        for live in reader.live_files(reader.manifests(self._history[:1]).values()):
            if any(file.key in files for file in live):
                raise CherryPickRefused(
                    f"table {self._name}: files of snapshot {self._picked.snapshot_id} are in main already"
                )


def _added_by(table: Table, snapshot: Snapshot) -> list[DataFile]:
    return [
        entry.data_file
        for manifest in read_manifests(table.io, snapshot)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in read_entries(table.io, manifest)
        if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
    ]


def _removed_by(table: Table, snapshot: Snapshot) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in read_manifests(table.io, snapshot)
        if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id == snapshot.snapshot_id
    }


def _partition_of(file: DataFile) -> tuple[Hashable, ...]:
    return partition_key(file.spec_id, file.partition)
