"""Runs a compaction: plan, rewrite, verify, commit; and again from the plan when the table moved too far meanwhile.

Safe to kill at any point and to start again with the same run id: what was committed is recognised, and what was only
written is invisible. Files are removed here only when no commit can refer to them.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits import (
    AddedFile,
    CommitConflict,
    Replacement,
    commit_replacement,
    snapshots_of_run,
)
from tableformat.commits.errors import MAY_HAVE_LANDED
from tableformat.engine import RewriteResult, discard
from tableformat.errors import PermanentError, TransientError
from tableformat.maintenance.compaction.options import CompactionOptions
from tableformat.maintenance.compaction.planning import CompactionPlan, plan_compaction
from tableformat.maintenance.executor import Executor, FailedTask

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
    commits: int = 0
    tasks: int = 0
    replans: int = 0
    more_left: bool = False
    """Whether the next run could go on at once, beyond what one run may take."""
    too_new: bool = False
    """Whether files were left alone for being new."""


class CompactionFailed(TransientError):
    """The table kept changing under the run. What was committed on the way stays, and the rest is as it was."""


def compact(
    catalog: Catalog,
    identifier: Identifier,
    options: CompactionOptions,
    *,
    executor: Executor,
    run_id: str,
    run_name: str = "",
    now: datetime,
    progress: Callable[[Progress], None] = lambda _: None,
) -> CompactionResult:
    """Compact the table's main branch and say what was done; a table in good shape is left as it is.

    Raises `UnsupportedTable` before anything is written if the table cannot be rewritten exactly.
    """
    for replans in range(_MAX_REPLANS + 1):
        table = catalog.load_table(identifier)
        earlier = snapshots_of_run(table.metadata, run_id)
        if earlier and options.commit_every_tasks is None:
            return _done(earlier, replans)
        plan = plan_compaction(table, options, now=now)
        logger.info("%s", plan, extra={"table": plan.table, "run": run_id, "snapshot": plan.snapshot_id})
        for reason in plan.left_alone:
            logger.warning("%s", reason, extra={"table": plan.table, "run": run_id})
        if plan.is_empty:
            return _done(earlier, replans, plan=plan)
        run = _Run(catalog, identifier, table, plan, run_id, run_name, options.commit_every_tasks)
        run.carry_out(executor, progress)
        if run.is_complete:
            return _done([*earlier, *run.snapshots], replans, plan=plan)
    raise CompactionFailed(
        f"table {'.'.join(identifier)} changed under the run {_MAX_REPLANS + 1} times; it will be tried again. A "
        "smaller max_bytes_per_run makes a run shorter, and commit_every_tasks keeps what is done"
    )


def compacted_so_far(catalog: Catalog, identifier: Identifier, run_id: str) -> CompactionResult | None:
    """What a run has committed, whatever became of it since; None if it has not committed anything."""
    snapshots = snapshots_of_run(catalog.load_table(identifier).metadata, run_id)
    return _done(snapshots, 0) if snapshots else None


class _Run:
    """One plan being carried out: results are gathered, committed together, and removed if they cannot be."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        table: Table,
        plan: CompactionPlan,
        run_id: str,
        run_name: str,
        commit_every: int | None,
    ) -> None:
        self.snapshots: list[Snapshot] = []
        self.is_complete = True
        self._catalog = catalog
        self._identifier = identifier
        self._table = table
        self._plan = plan
        self._run_id = run_id
        self._run_name = run_name
        self._commit_every = commit_every
        self._tasks = {task.task_id: task for task in plan.tasks}
        self._pending: dict[str, RewriteResult] = {}

    def carry_out(self, executor: Executor, progress: Callable[[Progress], None]) -> None:
        """Run every task and commit. If a task fails, what is not committed is removed and the error goes on.

        With partial progress, a task that cannot be done fails the run only when all others are done: it would keep
        them from being done in the next run as well. Two in a row that may get better by themselves end the run: it is
        storage then, rather than a file.
        """
        plan, done = self._plan, set[str]()
        failures: list[Exception] = []
        is_passing = False
        files = size = 0
        progress(Progress(0, len(plan.tasks), 0, plan.source_files, 0, plan.source_bytes))
        try:
            with closing(executor.run(plan.tasks)) as outcomes:
                for outcome in outcomes:
                    done.add(outcome.task_id)
                    if isinstance(outcome, FailedTask):
                        was_passing, is_passing = is_passing, not isinstance(outcome.error, PermanentError)
                        if self._commit_every is None or (was_passing and is_passing):
                            raise outcome.error
                        logger.warning("%s", outcome.error, extra={"table": plan.table, "run": self._run_id})
                        failures.append(outcome.error)
                        continue
                    is_passing = False
                    self._pending[outcome.task_id] = outcome
                    task = self._tasks[outcome.task_id]
                    files, size = files + len(task.sources), size + task.source_bytes
                    progress(Progress(len(done), len(plan.tasks), files, plan.source_files, size, plan.source_bytes))
                    if self._commit_every is not None and len(self._pending) >= self._commit_every:
                        self._commit()
            if failures:
                raise failures[0]
            if missing := self._tasks.keys() - done:
                raise CompactionFailed(f"table {plan.table}: the executor gave no result for tasks {sorted(missing)}")
        except MAY_HAVE_LANDED:
            raise
        except Exception:
            if self._commit_every is not None:
                self._commit()
            self._discard(self._pending)
            raise
        self._commit()

    def _commit(self) -> None:
        """Commit what is done. What other writers have overtaken meanwhile is left out, and is planned again."""
        only_deletes_go = not self._plan.tasks and self._plan.dangling_deletes > 0
        while self._pending or only_deletes_go:
            only_deletes_go = False
            try:
                self.snapshots.append(commit_replacement(self._catalog, self._identifier, self._replacement()))
                self._pending = {}
            except CommitConflict as conflict:
                logger.info("planning again: %s", conflict, extra={"table": self._plan.table, "run": self._run_id})
                self.is_complete = False
                self._discard(self._concerned(conflict) or self._pending)  # the last: never the same commit again
            except MAY_HAVE_LANDED:
                raise
            except Exception:
                self._discard(self._pending)
                raise

    def _replacement(self) -> Replacement:
        tasks = [self._tasks[task_id] for task_id in self._pending]
        return Replacement(
            table_uuid=self._table.metadata.table_uuid,
            format_version=self._table.metadata.format_version,
            starting_snapshot_id=self._plan.starting_snapshot_id,
            removed={source.path: source.records for task in tasks for source in task.sources},
            added=tuple(
                AddedFile(file.spec_id, file.partition, file, moved=task.output_spec is not None)
                for task in tasks
                for file in self._pending[task.task_id].files
            ),
            rows_deleted=sum(result.rows_deleted for result in self._pending.values()),
            run_id=self._run_id,
            run_name=self._run_name,
            moved=frozenset(source.path for task in tasks if task.output_spec is not None for source in task.sources),
        )

    def _concerned(self, conflict: CommitConflict) -> list[str]:
        """The tasks that a conflict is about; without partial progress it is about the one commit, and so about all."""
        if self._commit_every is None or not conflict.files:
            return list(self._pending)
        return [
            task_id
            for task_id, result in self._pending.items()
            if not conflict.files.isdisjoint(source.path for source in self._tasks[task_id].sources)
            or not conflict.files.isdisjoint(file.path for file in result.files)
        ]

    def _discard(self, task_ids: Iterable[str]) -> None:
        for task_id in list(task_ids):
            discard(self._tasks[task_id], self._pending.pop(task_id))


def _done(snapshots: Sequence[Snapshot], replans: int, *, plan: CompactionPlan | None = None) -> CompactionResult:
    """What the run's commits did, as their summaries tell it: they are all that counts after an interruption too."""

    def total(key: str) -> int:
        return sum(
            int(snapshot.summary.additional_properties.get(key, "0")) for snapshot in snapshots if snapshot.summary
        )

    rows = total("added-records")
    return CompactionResult(
        files_rewritten=total("deleted-data-files"),
        files_added=total("added-data-files"),
        bytes_rewritten=total("removed-files-size"),
        bytes_added=total("added-files-size"),
        rows=rows,
        rows_deleted=total("deleted-records") - rows,
        delete_files_removed=total("removed-delete-files"),
        snapshot_id=snapshots[-1].snapshot_id if snapshots else None,
        commits=len(snapshots),
        tasks=0 if plan is None else len(plan.tasks),
        replans=replans,
        more_left=plan is not None and plan.more_left,
        too_new=plan is not None and plan.too_new,
    )
