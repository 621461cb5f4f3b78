"""How a staged snapshot gets onto main, by the rules of Iceberg's own cherry-pick: planned before anything changes.

Where its parent is main's head, main moves to it. Otherwise an append is committed once more on top of main, and so is
an overwrite of whole partitions that nobody wrote to since. Anything else is refused: what it removed or rewrote may
have changed since. So is what a write-audit-publish id says was published already, by another snapshot.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from tableformat.commits.delta import Delta, NewFile
from tableformat.commits.runs import summary_of
from tableformat.errors import PermanentError
from tableformat.inspection import partition_key, read_entries, read_manifests, read_removed_entries
from tableformat.inspection.ancestry import ancestry
from tableformat.inspection.manifests import forget_first_row_id
from tableformat.maintenance.reachability import Reachability, key_of
from tableformat.plurals import plural

_SOURCE = "source-snapshot-id"
_REPLACE_PARTITIONS = "replace-partitions"
_STAGED_WAP_ID, _PUBLISHED_WAP_ID = "wap.id", "published-wap-id"


class CherryPickRefused(PermanentError):
    """The snapshot cannot be published on what main is now. Nothing was changed."""


class PickWay(StrEnum):
    NONE = "it is published already"
    FAST_FORWARD = "main moves to it"
    APPEND = "its files are appended once more"
    REPLACE = "its files replace those of their partitions once more"
    REFUSED = "refused"


@dataclass(frozen=True)
class CherryPickPlan:
    table: str
    snapshot_id: int
    way: PickWay
    files: int = 0
    """That the snapshot adds."""
    rows: int = 0
    bytes: int = 0
    replaced_files: int = 0
    published_as: int | None = None
    """The snapshot by which it is on main already."""
    refusal: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.way in (PickWay.NONE, PickWay.REFUSED)

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"cherry-pick refused: {self.refusal}"
        start = f"cherry-pick of snapshot {self.snapshot_id} of {self.table}: {self.way}"
        if self.way is PickWay.NONE:
            return f"{start}, as snapshot {self.published_as}"
        replaced = f", {plural(self.replaced_files, 'file')} replaced" if self.replaced_files else ""
        added = f"{plural(self.files, 'file')} with {plural(self.rows, 'row')} and {plural(self.bytes, 'byte')}"
        return f"{start}; {added} added{replaced}"


@dataclass(frozen=True)
class Pick:
    """A plan, and what it changes on main if it is to be committed anew."""

    plan: CherryPickPlan
    delta: Delta | None = None


def plan_cherry_pick(table: Table, snapshot_id: int) -> CherryPickPlan:
    """The way that the run would go on the table as it is, or why it would not."""
    try:
        return pick_of(table, snapshot_id).plan
    except CherryPickRefused as refused:
        return CherryPickPlan(".".join(table.name()), snapshot_id, PickWay.REFUSED, refusal=str(refused))


def pick_of(table: Table, snapshot_id: int) -> Pick:
    """Raises `CherryPickRefused` if there is no way."""
    published = published_as(table, snapshot_id)
    if published is not None:
        return Pick(CherryPickPlan(".".join(table.name()), snapshot_id, PickWay.NONE, published_as=published))
    picked = table.metadata.snapshot_by_id(snapshot_id)
    if picked is None:
        raise CherryPickRefused(f"table {'.'.join(table.name())} has no snapshot {snapshot_id}; it may have expired")
    return _Picking(table, picked, _main_history(table)).pick()


def published_as(table: Table, snapshot_id: int) -> int | None:
    """The snapshot of main's history that is this one, or was made from it."""
    return next(
        (
            snapshot.snapshot_id
            for snapshot in _main_history(table)
            if snapshot.snapshot_id == snapshot_id or summary_of(snapshot).get(_SOURCE) == str(snapshot_id)
        ),
        None,
    )


def _main_history(table: Table) -> list[Snapshot]:
    main = table.metadata.refs.get(MAIN_BRANCH)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    return [] if main is None else list(ancestry(main.snapshot_id, by_id))


class _Picking:
    def __init__(self, table: Table, picked: Snapshot, history: list[Snapshot]) -> None:
        self._table = table
        self._name = ".".join(table.name())
        self._picked = picked
        self._history = history

    def pick(self) -> Pick:
        way = self._way_if_applied_again()
        summary = {_SOURCE: str(self._picked.snapshot_id)}
        if way is not None and (wap_id := self._unpublished_wap_id()):
            summary[_PUBLISHED_WAP_ID] = wap_id
        files = _added_by(self._table, self._picked)
        head = self._history[0].snapshot_id if self._history else None
        if self._picked.parent_snapshot_id == head:
            return Pick(self._plan(PickWay.FAST_FORWARD, files, len(_removed_by(self._table, self._picked))))
        if way is None:
            raise CherryPickRefused(
                f"table {self._name}: snapshot {self._picked.snapshot_id} neither appends nor replaces partitions, and "
                "main has moved on since; write it again on top of main"
            )
        removed = self._files_to_replace() if way is PickWay.REPLACE else {}
        added = tuple(NewFile(file) for file in self._to_be_added(files))
        return Pick(self._plan(way, files, len(removed)), Delta(removed=removed, added=added, summary=summary))

    def _plan(self, way: PickWay, files: list[DataFile], replaced: int) -> CherryPickPlan:
        return CherryPickPlan(
            self._name,
            self._picked.snapshot_id,
            way,
            files=len(files),
            rows=sum(file.record_count for file in files if file.content == DataFileContent.DATA),
            bytes=sum(file.file_size_in_bytes for file in files),
            replaced_files=replaced,
        )

    def _way_if_applied_again(self) -> PickWay | None:
        operation = self._picked.summary.operation if self._picked.summary is not None else None
        if operation == Operation.APPEND:
            return PickWay.APPEND
        replaces_partitions = summary_of(self._picked).get(_REPLACE_PARTITIONS, "false").lower() == "true"
        return PickWay.REPLACE if operation == Operation.OVERWRITE and replaces_partitions else None

    def _unpublished_wap_id(self) -> str | None:
        wap_id = summary_of(self._picked).get(_STAGED_WAP_ID)
        published = {summary_of(each).get(key) for each in self._history for key in (_PUBLISHED_WAP_ID, _STAGED_WAP_ID)}
        if wap_id and wap_id in published:
            raise CherryPickRefused(
                f"table {self._name}: {_STAGED_WAP_ID} {wap_id} was published already, by another snapshot"
            )
        return wap_id

    def _to_be_added(self, files: list[DataFile]) -> list[DataFile]:
        """As they are to be added again: they get sequence numbers and row ids anew."""
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
                f"table {self._name}: missing {plural(len(missing), 'file')} that snapshot {number} replaces, such as "
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
        for entry in read_removed_entries(table.io, manifest)
        if entry.snapshot_id == snapshot.snapshot_id
    }


def _partition_of(file: DataFile) -> tuple[Hashable, ...]:
    return partition_key(file.spec_id, file.partition)
