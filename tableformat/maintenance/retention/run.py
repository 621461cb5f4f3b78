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
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change
from tableformat.commits.file_removal import snapshot_without
from tableformat.commits.runs import snapshots_of_run
from tableformat.maintenance.guards import require_current_clock
from tableformat.maintenance.retention.planning import RetentionOptions, RetentionPlan, plan_row_retention

logger = logging.getLogger(__name__)


class RetentionResult(BaseModel):
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
    options: RetentionOptions,
    *,
    run_id: str,
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> RetentionResult:
    run = _Run(options, run_id, now)
    table = commit_change(catalog, identifier, run.prepare, sleep=sleep)
    made = snapshots_of_run(table.metadata, run_id)
    if not made:
        return RetentionResult(edge_files=run.edge_files)
    summary = made[-1].summary.additional_properties if made[-1].summary else {}
    return RetentionResult(
        files_removed=int(summary.get("deleted-data-files", "0")),
        rows_removed=int(summary.get("deleted-records", "0")),
        bytes_removed=int(summary.get("removed-files-size", "0")),
        edge_files=run.edge_files,
        snapshot_id=made[-1].snapshot_id,
    )


class _Run:
    def __init__(self, options: RetentionOptions, run_id: str, now: datetime) -> None:
        self._options = options
        self._run_id = run_id
        self._now = now
        self.edge_files = 0

    def prepare(self, table: Table) -> Change | None:
        require_current_clock(table, now=self._now)
        plan: RetentionPlan = plan_row_retention(table, self._options, now=self._now)
        self.edge_files = plan.edge_files
        logger.info("%s", plan, extra={"table": plan.table, "run": self._run_id, "snapshot": plan.snapshot_id})
        head = table.current_snapshot()
        if plan.is_empty or head is None:
            return None
        snapshot = snapshot_without(table, head, {file.path for file in plan.files}, run_id=self._run_id)
        main = table.metadata.refs[MAIN_BRANCH]
        return Change(
            (
                AddSnapshotUpdate(snapshot=snapshot),
                SetSnapshotRefUpdate(
                    ref_name=MAIN_BRANCH,
                    type=SnapshotRefType.BRANCH,
                    snapshot_id=snapshot.snapshot_id,
                    # The branch keeps its own retention: leaving these out would erase it.
                    max_ref_age_ms=main.max_ref_age_ms,
                    max_snapshot_age_ms=main.max_snapshot_age_ms,
                    min_snapshots_to_keep=main.min_snapshots_to_keep,
                ),
            ),
            (
                AssertTableUUID(uuid=table.metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id),
            ),
        )
