"""Removes rows that are too old from a table's main branch, in one commit: whole files, and rows of files on the edge.

Every attempt plans on the table as it is then, so a compaction that rewrote a file on the edge meanwhile, or a writer
that deleted rows of it, leads to a new look at that file and never to a commit on an old one. Nothing is deleted from
storage: older snapshots, tags and holds keep what they show until they expire. Run again, or after a lost answer, it
finds nothing left to do.
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

from tableformat.commits.delta import Delta, snapshot_with_delta
from tableformat.commits.errors import MAY_HAVE_LANDED
from tableformat.commits.head import commit_on_main
from tableformat.commits.memory import CommitMemory
from tableformat.commits.runs import summary_of, summary_of_run
from tableformat.commits.written import WrittenFiles
from tableformat.maintenance.compaction.run import Progress
from tableformat.maintenance.executor import Executor, InProcessExecutor
from tableformat.maintenance.guards import reading, require_current_clock
from tableformat.maintenance.retention.edges import EdgeOutcome, EdgeWork
from tableformat.maintenance.retention.planning import (
    ManifestScans,
    RowRetentionOptions,
    RowRetentionPlan,
    plan_row_retention,
)

logger = logging.getLogger(__name__)

_ROWS = "tablewright.rows-removed"
"""In a snapshot's summary, where Iceberg's own counts cannot tell new deletes from those that a vector took over."""


class RowRetentionResult(BaseModel):
    """What a run did; JSON on the way to whoever asked for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files_removed: int = 0
    """Data files that are no longer part of the table, those that were written anew among them."""
    files_added: int = 0
    delete_files_added: int = 0
    rows_removed: int = 0
    bytes_removed: int = 0
    files_left_alone: int = 0
    """Files on the edge that cannot be read or written exactly."""
    snapshot_id: int | None = None


def remove_old_rows(
    catalog: Catalog,
    identifier: Identifier,
    options: RowRetentionOptions,
    *,
    run_id: str,
    run_name: str = "",
    now: datetime,
    executor: Executor | None = None,
    sleep: Callable[[float], None] = time.sleep,
    planned: Callable[[RowRetentionPlan], None] = lambda _: None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> RowRetentionResult:
    """Raises `UnsupportedTable` before anything is written if no row has an age by that column."""
    run = _Run(options, run_id, run_name, now, executor or InProcessExecutor(), planned, progress)
    try:
        made = commit_on_main(catalog, identifier, run.snapshot, run_id=run_id, sleep=sleep, written=run.written)
    except MAY_HAVE_LANDED:
        raise
    except Exception:
        run.discard()
        raise
    if made is None:
        return RowRetentionResult(files_left_alone=run.left_alone)
    summary = summary_of(made)
    return RowRetentionResult(
        files_removed=int(summary.get("deleted-data-files", "0")),
        files_added=int(summary.get("added-data-files", "0")),
        delete_files_added=int(summary.get("added-delete-files", "0")),
        rows_removed=int(summary.get(_ROWS, "0")),
        bytes_removed=int(summary.get("removed-files-size", "0")),
        files_left_alone=run.left_alone,
        snapshot_id=made.snapshot_id,
    )


class _Run:
    def __init__(
        self,
        options: RowRetentionOptions,
        run_id: str,
        run_name: str,
        now: datetime,
        executor: Executor,
        planned: Callable[[RowRetentionPlan], None],
        progress: Callable[[Progress], None],
    ) -> None:
        self._options = options
        self._run_id = run_id
        self._of_run = summary_of_run(run_id, run_name)
        self._now = now
        self._executor = executor
        self._planned = planned
        self._progress = progress
        self.written = WrittenFiles()
        self._memory: CommitMemory | None = None
        self._scans = ManifestScans()
        self._edges: EdgeWork | None = None
        self.left_alone = 0

    def snapshot(self, table: Table, head: Snapshot) -> Snapshot | None:
        require_current_clock(table, now=self._now)
        with reading(table):
            return self._snapshot(table, head)

    def _snapshot(self, table: Table, head: Snapshot) -> Snapshot | None:
        memory = self._memory = self._memory or CommitMemory(table.metadata.new_snapshot_id(), self.written)
        plan = plan_row_retention(table, self._options, now=self._now, scans=self._scans)
        logger.info("%s", plan, extra={"table": plan.table, "run": self._run_id, "snapshot": plan.snapshot_id})
        for reason in plan.left_alone:
            logger.warning("%s", reason, extra={"table": plan.table, "run": self._run_id})
        self.left_alone = len(plan.left_alone)
        self._planned(plan)
        self._edges = self._edges or EdgeWork(table, plan.limit, self._executor, self._progress)
        delta = self._delta(plan, self._edges.outcomes(table, plan.edges))
        return None if delta is None else snapshot_with_delta(table, head, delta, memory)

    def discard(self) -> None:
        if self._edges is not None:
            self._edges.discard()

    def _delta(self, plan: RowRetentionPlan, outcomes: list[EdgeOutcome]) -> Delta | None:
        done = [(edge, outcome) for edge, outcome in zip(plan.edges, outcomes, strict=True) if outcome.rows]
        if not plan.files and not done:
            return None
        removed = {file.path: file.manifest_path for file in plan.files}
        removed |= {edge.file.path: edge.manifest_path for edge, outcome in done if outcome.removes_file}
        rows = plan.records + sum(outcome.rows for _, outcome in done)
        return Delta(
            removed=removed,
            superseded={edge.file.path for edge, outcome in done if outcome.takes_over_deletes},
            added=tuple(new for _, outcome in done for new in outcome.added),
            summary={**self._of_run, _ROWS: str(rows)},
        )
