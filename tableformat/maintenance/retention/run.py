"""Removes rows that are too old from a table's main branch, whole files at a time, in one commit.

Nothing is deleted from storage: older snapshots, tags and holds keep what they show until they expire. Run again, or
after a lost answer, it finds nothing left to do.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits.file_removal import snapshot_without
from tableformat.commits.head import commit_on_main
from tableformat.commits.runs import summary_of
from tableformat.maintenance.guards import require_current_clock
from tableformat.maintenance.retention.planning import RowRetentionOptions, RowRetentionPlan, plan_row_retention

logger = logging.getLogger(__name__)


class RowRetentionResult(BaseModel):
    """What a run did; JSON on the way to whoever asked for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files_removed: int = 0
    rows_removed: int = 0
    bytes_removed: int = 0
    edge_files: int = 0
    snapshot_id: int | None = None


def remove_old_rows(
    catalog: Catalog,
    identifier: Identifier,
    options: RowRetentionOptions,
    *,
    run_id: str,
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
    planned: Callable[[RowRetentionPlan], None] = lambda _: None,
) -> RowRetentionResult:
    plans: list[RowRetentionPlan] = []

    def snapshot(table: Table, head: Snapshot) -> Snapshot | None:
        require_current_clock(table, now=now)
        plan = plan_row_retention(table, options, now=now)
        plans.append(plan)
        planned(plan)
        logger.info("%s", plan, extra={"table": plan.table, "run": run_id, "snapshot": plan.snapshot_id})
        if plan.is_empty:
            return None
        return snapshot_without(table, head, {file.path for file in plan.files}, run_id=run_id)

    made = commit_on_main(catalog, identifier, snapshot, run_id=run_id, sleep=sleep)
    edge_files = plans[-1].edge_files if plans else 0
    if made is None:
        return RowRetentionResult(edge_files=edge_files)
    summary = summary_of(made)
    return RowRetentionResult(
        files_removed=int(summary.get("deleted-data-files", "0")),
        rows_removed=int(summary.get("deleted-records", "0")),
        bytes_removed=int(summary.get("removed-files-size", "0")),
        edge_files=edge_files,
        snapshot_id=made.snapshot_id,
    )
