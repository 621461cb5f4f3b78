"""Rolls main back as planned. A commit that others made since the plan is never undone by it."""

import logging
import time
from collections.abc import Callable
from itertools import pairwise

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change, snapshots_still_there
from tableformat.commits.errors import CommitConflict
from tableformat.maintenance.rollback.planning import RollbackPlan, RollbackRefused, RollbackTarget, plan_rollback

logger = logging.getLogger(__name__)


class RollbackResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    from_snapshot_id: int
    to_snapshot_id: int
    commits_undone: int


def roll_back(
    catalog: Catalog,
    identifier: Identifier,
    target: RollbackTarget,
    *,
    accept_lost_commits: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> RollbackResult:
    """Set main back to the target. Raises `RollbackRefused` if commits would be lost and that was not accepted."""
    name = ".".join(identifier)
    plan = plan_rollback(name, catalog.load_table(identifier).metadata, target)
    if plan.lost and not accept_lost_commits:
        raise RollbackRefused(f"{plan}. Nothing was changed: tag what is to be kept, or accept the loss")
    logger.info("%s", plan, extra={"table": name, "snapshot": plan.to_snapshot_id})
    commit_change(catalog, identifier, lambda table: _prepare(table, plan), sleep=sleep)
    return RollbackResult(
        from_snapshot_id=plan.from_snapshot_id, to_snapshot_id=plan.to_snapshot_id, commits_undone=len(plan.undone)
    )


def _prepare(table: Table, plan: RollbackPlan) -> Change | None:
    metadata = table.metadata
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None or main.snapshot_id != plan.from_snapshot_id:
        if _went_back(metadata, plan):
            return None
        raise CommitConflict(
            f"table {plan.table}: main is no longer at snapshot {plan.from_snapshot_id}; nothing was changed. "
            "Plan again"
        )
    if plan.is_empty:
        return None
    if metadata.snapshot_by_id(plan.to_snapshot_id) is None:
        raise RollbackRefused(f"table {plan.table}: snapshot {plan.to_snapshot_id} has expired since the plan")
    return Change(
        (
            SetSnapshotRefUpdate(
                ref_name=MAIN_BRANCH,
                type=SnapshotRefType.BRANCH,
                snapshot_id=plan.to_snapshot_id,
                # The branch keeps its own retention: leaving these out would erase it.
                max_ref_age_ms=main.max_ref_age_ms,
                max_snapshot_age_ms=main.max_snapshot_age_ms,
                min_snapshots_to_keep=main.min_snapshots_to_keep,
            ),
        ),
        (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=plan.from_snapshot_id),
            *snapshots_still_there(table, plan.to_snapshot_id),
        ),
    )


def _went_back(metadata: TableMetadata, plan: RollbackPlan) -> bool:
    """Whether main went from the one snapshot to the other, whatever happened since."""
    log = [entry.snapshot_id for entry in metadata.snapshot_log]
    return (plan.from_snapshot_id, plan.to_snapshot_id) in pairwise(log)
