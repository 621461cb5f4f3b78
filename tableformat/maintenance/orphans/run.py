"""Removes orphan files as the action says: report, mark and delete at a later finding, or delete.

Right before anything is deleted the table is looked at once more, and what was committed meanwhile is read: a file
that a commit took up after all stays. Killed at any point and run again, it ends in the same state.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.maintenance.errors import DeletionIncomplete
from tableformat.maintenance.guards import read_again_if_changed, reading
from tableformat.maintenance.orphans.marks import MarkList
from tableformat.maintenance.orphans.options import OrphanAction, OrphanOptions
from tableformat.maintenance.orphans.planning import OrphanPlan, ReadLivePaths, plan_orphans
from tableformat.maintenance.reachability import FileKind, Reachability, TableFile
from tableformat.storage import Deleted, FileStore, StoredFile, open_store

logger = logging.getLogger(__name__)

_DELETED_AT_A_TIME = 10_000


class OrphanResult(BaseModel):
    """What a run found and did; JSON on the way to whoever asked for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files_listed: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    files_marked: int = 0
    """Waiting for their grace period to end."""
    files_deleted: int = 0
    bytes_deleted: int = 0


def remove_orphans(
    catalog: Catalog,
    identifier: Identifier,
    options: OrphanOptions,
    *,
    now: datetime,
    store: FileStore | None = None,
    read: ReadLivePaths | None = None,
    planned: Callable[[OrphanPlan], None] = lambda _: None,
) -> OrphanResult:
    """Raises before any deletion where orphans cannot be told for certain, and `DeletionIncomplete` after it."""
    opened = store or open_store(catalog.load_table(identifier).io)
    return read_again_if_changed(lambda: _remove(catalog, identifier, options, now, opened, read, planned))


def _remove(
    catalog: Catalog,
    identifier: Identifier,
    options: OrphanOptions,
    now: datetime,
    store: FileStore,
    read: ReadLivePaths | None,
    planned: Callable[[OrphanPlan], None],
) -> OrphanResult:
    table, plan = plan_orphans(catalog, identifier, options, now=now, store=store, read=read)
    logger.info("%s", plan, extra={"table": plan.table})
    planned(plan)
    now_ms = int(now.timestamp() * 1000)
    result = OrphanResult(files_listed=plan.files_listed, orphans=len(plan.orphans), orphan_bytes=plan.bytes)
    if options.action is OrphanAction.REPORT:
        return result
    deleted, outcome = _delete(table, plan, plan.going, store)
    if options.action is OrphanAction.DELETE:
        _require_all_deleted(plan, outcome)
        return _with(result, deleted)
    marks = MarkList(table, store)
    waiting = [file for file in plan.orphans if file not in deleted]
    marks.write(marks.read().carried_over(waiting, now_ms=now_ms))
    _require_all_deleted(plan, outcome)  # after the marks: a file that never goes must not keep all others from going
    return _with(result, deleted, waiting=len(waiting))


def _delete(
    table: Table, plan: OrphanPlan, files: tuple[StoredFile, ...], store: FileStore
) -> tuple[set[StoredFile], Deleted]:
    """The files that are gone, and what the storage said."""
    if not files:
        return set(), Deleted()
    table.refresh()
    candidates = [(file, TableFile(file.location, FileKind.DATA, file.size_bytes)) for file in files]
    with reading(table):
        dead = Reachability(plan.table, table.io).without_live(
            {candidate.key: candidate for _, candidate in candidates},
            table.metadata,
            table.metadata_location,
            known=plan.known,
        )
    going = {file.location: file for file, candidate in candidates if candidate.key in dead}
    locations = list(going)
    outcome = Deleted.merged(
        store.delete(locations[start : start + _DELETED_AT_A_TIME])
        for start in range(0, len(locations), _DELETED_AT_A_TIME)
    )
    return {going[location] for location in (*outcome.deleted, *outcome.missing)}, outcome


def _require_all_deleted(plan: OrphanPlan, outcome: Deleted) -> None:
    if outcome.failed:
        raise DeletionIncomplete(plan.table, len(outcome.deleted), outcome.failed)


def _with(result: OrphanResult, deleted: set[StoredFile], waiting: int = 0) -> OrphanResult:
    return result.model_copy(
        update={
            "files_marked": waiting,
            "files_deleted": len(deleted),
            "bytes_deleted": sum(file.size_bytes for file in deleted),
        }
    )
