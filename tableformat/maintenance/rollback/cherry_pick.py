"""Publishes a staged snapshot on main, by the rules of Iceberg's own cherry-pick.

Where its parent is main's head, main moves to it. Otherwise an append is committed once more on top of main, with its
source recorded in the new snapshot's summary, by which a second pick is recognised. Anything else is refused: what it
removed or rewrote may have changed since.
"""

import time
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change, snapshots_still_there
from tableformat.commits.head import move_main
from tableformat.commits.runs import summary_of
from tableformat.errors import PermanentError
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.maintenance.reachability import Reachability, key_of
from tableformat.maintenance.rollback.planning import ancestry

_SOURCE = "source-snapshot-id"
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
    head = history[0].snapshot_id if history else None
    if picked.parent_snapshot_id == head:
        move = move_main(table, snapshot_id)
        return Change(move.updates, (*move.requirements, *snapshots_still_there(table, snapshot_id)))
    if picked.summary is None or picked.summary.operation != Operation.APPEND:
        raise CherryPickRefused(
            f"table {name}: snapshot {snapshot_id} is no append, and main has moved on since; write it again on top "
            "of main"
        )
    wap_id = summary_of(picked).get(_STAGED_WAP_ID)
    published = (summary_of(snapshot).get(key) for snapshot in history for key in (_PUBLISHED_WAP_ID, _STAGED_WAP_ID))
    if wap_id and wap_id in published:
        raise CherryPickRefused(f"table {name}: {_STAGED_WAP_ID} {wap_id} was published already, by another snapshot")
    return _append(table, picked, wap_id)


def _append(table: Table, picked: Snapshot, wap_id: str | None) -> Change:
    properties = {_SOURCE: str(picked.snapshot_id)} | ({_PUBLISHED_WAP_ID: wap_id} if wap_id else {})
    files = _added_files(table, picked)
    transaction = table.transaction()
    with transaction.update_snapshot(snapshot_properties=properties).fast_append() as append:
        for file in files:
            append.append_data_file(file)
    # Committed by our own retry rather than by the transaction, which knows nothing of earlier picks.
    # It also has to be there at the swap: an expiry may be about to take it, and its files with it.
    requirements = (*transaction._requirements, *snapshots_still_there(table, picked.snapshot_id))
    return Change(transaction._updates, requirements)


def _added_files(table: Table, picked: Snapshot) -> list[DataFile]:
    name = ".".join(table.name())
    files = [
        entry.data_file
        for manifest in picked.manifests(table.io)
        if manifest.added_snapshot_id == picked.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == picked.snapshot_id
    ]
    if table.metadata.format_version > 2:
        raise UnsupportedTable(
            name, "PyIceberg writes no manifests of format version 3", "Pick the snapshot with another engine."
        )
    if any(file.content != DataFileContent.DATA or file.spec_id != table.spec().spec_id for file in files):
        raise UnsupportedTable(
            name,
            f"snapshot {picked.snapshot_id} has delete files, or files of an older partition spec",
            "Pick it with another engine.",
        )
    _require_not_there(table, picked, {key_of(file.file_path) for file in files})
    return files


def _require_not_there(table: Table, picked: Snapshot, files: set[str]) -> None:
    """A file that main has already, by another way, would have its rows twice."""
    head, name = table.current_snapshot(), ".".join(table.name())
    if head is None:
        return
    reader = Reachability(name, table.io)
    for live in reader.live_files(reader.manifests([head]).values()):
        if any(file.key in files for file in live):
            raise CherryPickRefused(f"table {name}: files of snapshot {picked.snapshot_id} are in main already")
