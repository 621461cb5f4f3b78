"""Rolls main back as planned. A commit that others made since the plan is never undone by it.

A rollback leaves no snapshot by which a restarted run would know its own work, and to plan anew then would undo what
writers have committed on top of it. So the plan is recorded beside the metadata before the commit, under the run's id,
and a run that finds its record follows that plan.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change, snapshots_still_there
from tableformat.commits.errors import CommitConflict
from tableformat.commits.head import move_main
from tableformat.inspection.ancestry import ancestry
from tableformat.maintenance.records import Records
from tableformat.maintenance.rollback.planning import (
    REMEDY,
    RollbackOptions,
    RollbackPlan,
    RollbackRefused,
    plan_rollback,
)
from tableformat.storage import FileStore, open_store

logger = logging.getLogger(__name__)

_RECORD_KIND = "rollback"
_RECORD_AGE = timedelta(days=30)  # longer than any job is restarted for


class RollbackResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    from_snapshot_id: int
    to_snapshot_id: int
    commits_undone: int


def roll_back(
    catalog: Catalog,
    identifier: Identifier,
    options: RollbackOptions,
    *,
    run_id: str,
    now: datetime,
    store: FileStore | None = None,
    sleep: Callable[[float], None] = time.sleep,
    planned: Callable[[RollbackPlan], None] = lambda _: None,
) -> RollbackResult:
    """Set main back to the target. Raises `RollbackRefused` if commits would be lost and that was not accepted."""
    table = catalog.load_table(identifier)
    run = _RunRecord(table, run_id, store or open_store(table.io))
    begun = run.read(table.metadata)
    if begun is not None:
        if _has_moved(table.metadata, begun.from_snapshot_id, begun.to_snapshot_id):
            return begun
        _require_main_at(table.metadata, begun, ".".join(identifier))
    plan = plan_rollback(".".join(identifier), table.metadata, options)
    planned(plan)
    if options.refuses(plan):
        raise RollbackRefused(f"{plan}. Nothing was changed. {REMEDY}")
    logger.info("%s", plan, extra={"table": plan.table, "run": run_id, "snapshot": plan.to_snapshot_id})
    result = RollbackResult(
        from_snapshot_id=plan.from_snapshot_id, to_snapshot_id=plan.to_snapshot_id, commits_undone=len(plan.undone)
    )
    if not plan.is_empty:
        run.write(result, now=now)
        commit_change(catalog, identifier, lambda table: _prepare(table, plan), sleep=sleep)
    return result


class _RunRecord:
    """What a run was about to do, for the same run after it died."""

    def __init__(self, table: Table, run_id: str, store: FileStore) -> None:
        self._table = table
        self._records = Records(table, _RECORD_KIND, store)
        self._name = f"{quote(run_id, safe='')}.json.z"

    def read(self, metadata: TableMetadata) -> RollbackResult | None:
        """What this run was about to do, if it had got so far."""
        content = self._records.read(f"{self._records.folder}/{self._name}") or {}
        if content.get("format") != 1 or content.get("table-uuid") != str(metadata.table_uuid):
            return None
        return RollbackResult.model_validate(content.get("result"))

    def write(self, result: RollbackResult, *, now: datetime) -> None:
        for location, written_ms in list(self._records.locations()):
            if now.timestamp() * 1000 - written_ms > _RECORD_AGE.total_seconds() * 1000:
                self._records.remove(location)
        uuid = str(self._table.metadata.table_uuid)
        self._records.write(self._name, {"format": 1, "table-uuid": uuid, "result": result.model_dump()})


def _require_main_at(metadata: TableMetadata, begun: RollbackResult, name: str) -> None:
    """To plan anew for the same run would undo what was committed since, which nobody has accepted."""
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None or main.snapshot_id != begun.from_snapshot_id:
        raise RollbackRefused(
            f"table {name}: main is no longer at snapshot {begun.from_snapshot_id}, where it was when this run was "
            "planned; nothing was changed. Start another run"
        )


def _prepare(table: Table, plan: RollbackPlan) -> Change | None:
    metadata = table.metadata
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None or main.snapshot_id != plan.from_snapshot_id:
        if _has_moved(metadata, plan.from_snapshot_id, plan.to_snapshot_id):
            return None
        raise CommitConflict(
            f"table {plan.table}: main is no longer at snapshot {plan.from_snapshot_id}; nothing was changed. "
            "Plan again"
        )
    if metadata.snapshot_by_id(plan.to_snapshot_id) is None:
        raise RollbackRefused(f"table {plan.table}: snapshot {plan.to_snapshot_id} has expired since the plan")
    move = move_main(table, plan.to_snapshot_id)
    return Change(move.updates, (*move.requirements, *snapshots_still_there(table, plan.to_snapshot_id)))


def _has_moved(metadata: TableMetadata, from_snapshot_id: int, to_snapshot_id: int) -> bool:
    """Whether main was moved, whatever came since: only then has it the one snapshot without the other, unless the
    other is what the one came from, as where a rollback is undone."""
    main = metadata.refs.get(MAIN_BRANCH)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    history = set() if main is None else {each.snapshot_id for each in ancestry(main.snapshot_id, by_id)}
    forward = any(each.snapshot_id == from_snapshot_id for each in ancestry(to_snapshot_id, by_id))
    return to_snapshot_id in history and (forward or from_snapshot_id not in history)
