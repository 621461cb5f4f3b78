"""Runs a compaction: plan, rewrite, verify, commit; and again from the plan when the table moved too far meanwhile.

Safe to kill at any point and to start again with the same run id: what was committed is recognised, and what was only
written is invisible. Files are removed here only when no commit can refer to them.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits import AddedFile, CommitConflict, Replacement, commit_replacement, snapshots_of_run
from tableformat.engine import RewriteResult, discard
from tableformat.errors import PermanentError, TransientError
from tableformat.maintenance.compaction.options import CompactionOptions
from tableformat.maintenance.compaction.planning import CompactionPlan, plan_compaction
from tableformat.maintenance.executor import Executor

logger = logging.getLogger(__name__)

_MAX_REPLANS = 3


@dataclass(frozen=True)
class Progress:
    """How far a run is, in units that a person can follow."""

    tasks_done: int
    tasks: int
    files_rewritten: int
    files: int
    bytes_rewritten: int
    bytes: int


class CompactionResult(BaseModel):
    """What a run did to the table; JSON on the way to whoever asked for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files_rewritten: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_added: int = 0
    rows: int = 0
    rows_deleted: int = 0
    """Rows that deletes had marked and that are not in the new files."""
    delete_files_removed: int = 0
    snapshot_id: int | None = None
    tasks: int = 0
    replans: int = 0


class CompactionFailed(TransientError):
    """The table kept changing under the run; nothing of it was committed."""


def compact(
    catalog: Catalog,
    identifier: Identifier,
    options: CompactionOptions,
    *,
    executor: Executor,
    run_id: str,
    now: datetime,
    progress: Callable[[Progress], None] = lambda _: None,
) -> CompactionResult:
    """Compact the table's main branch and say what was done; a table in good shape is left as it is.

    Raises `UnsupportedTable` before anything is written if the table cannot be rewritten exactly.
    """
    for replans in range(_MAX_REPLANS + 1):
        table = catalog.load_table(identifier)
        if earlier := snapshots_of_run(table.metadata, run_id):
            return _recognised(earlier[-1])
        plan = plan_compaction(table, options, now=now)
        logger.info("%s", plan, extra={"table": plan.table, "run": run_id, "snapshot": plan.snapshot_id})
        if plan.is_empty or plan.snapshot_id is None:
            return CompactionResult(replans=replans)
        results = _rewrite(plan, executor, progress)
        try:
            snapshot = commit_replacement(catalog, identifier, _replacement(table, plan, results, run_id))
        except CommitConflict as conflict:
            logger.info("planning again: %s", conflict, extra={"table": plan.table, "run": run_id})
            _discard(plan, results)
            continue
        except PermanentError:
            _discard(plan, results)
            raise
        return _result(plan, results, snapshot, replans)
    raise CompactionFailed(
        f"table {'.'.join(identifier)} changed under the run {_MAX_REPLANS + 1} times; it will be tried again. A "
        "smaller max_bytes_per_run makes a run shorter"
    )


def _rewrite(
    plan: CompactionPlan, executor: Executor, progress: Callable[[Progress], None]
) -> dict[str, RewriteResult]:
    """The result of every task. If one fails, what the others wrote is removed and its error goes on."""
    results: dict[str, RewriteResult] = {}
    tasks = {task.task_id: task for task in plan.tasks}
    files = size = 0
    progress(Progress(0, len(tasks), 0, plan.source_files, 0, plan.source_bytes))
    try:
        for result in executor.run(plan.tasks):
            results[result.task_id] = result
            task = tasks[result.task_id]
            files, size = files + len(task.sources), size + task.source_bytes
            progress(Progress(len(results), len(tasks), files, plan.source_files, size, plan.source_bytes))
        if missing := tasks.keys() - results.keys():
            raise CompactionFailed(f"table {plan.table}: the executor gave no result for tasks {sorted(missing)}")
    except Exception:
        _discard(plan, results)
        raise
    return results


def _replacement(table: Table, plan: CompactionPlan, results: dict[str, RewriteResult], run_id: str) -> Replacement:
    if plan.snapshot_id is None:
        raise ValueError("an empty plan replaces nothing")
    return Replacement(
        table_uuid=table.metadata.table_uuid,
        format_version=table.metadata.format_version,
        starting_snapshot_id=plan.snapshot_id,
        removed={source.path: source.records for task in plan.tasks for source in task.sources},
        added=tuple(
            AddedFile(task.spec.spec_id, task.partition, file)
            for task in plan.tasks
            for file in results[task.task_id].files
        ),
        rows_deleted=sum(result.rows_deleted for result in results.values()),
        run_id=run_id,
    )


def _discard(plan: CompactionPlan, results: dict[str, RewriteResult]) -> None:
    for task in plan.tasks:
        if task.task_id in results:
            discard(task, results[task.task_id])


def _result(
    plan: CompactionPlan, results: dict[str, RewriteResult], snapshot: Snapshot, replans: int
) -> CompactionResult:
    return CompactionResult(
        files_rewritten=plan.source_files,
        files_added=sum(len(result.files) for result in results.values()),
        bytes_rewritten=plan.source_bytes,
        bytes_added=sum(result.bytes_written for result in results.values()),
        rows=sum(result.rows_written for result in results.values()),
        rows_deleted=sum(result.rows_deleted for result in results.values()),
        delete_files_removed=_number(snapshot, "removed-delete-files"),
        snapshot_id=snapshot.snapshot_id,
        tasks=len(plan.tasks),
        replans=replans,
    )


def _recognised(snapshot: Snapshot) -> CompactionResult:
    """The result of a commit that this run made before it was interrupted, as the snapshot's summary tells it."""
    rows = _number(snapshot, "added-records")
    return CompactionResult(
        files_rewritten=_number(snapshot, "deleted-data-files"),
        files_added=_number(snapshot, "added-data-files"),
        bytes_rewritten=_number(snapshot, "removed-files-size"),
        bytes_added=_number(snapshot, "added-files-size"),
        rows=rows,
        rows_deleted=_number(snapshot, "deleted-records") - rows,
        delete_files_removed=_number(snapshot, "removed-delete-files"),
        snapshot_id=snapshot.snapshot_id,
    )


def _number(snapshot: Snapshot, key: str) -> int:
    return int(snapshot.summary.additional_properties.get(key, "0")) if snapshot.summary else 0
