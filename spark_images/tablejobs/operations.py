"""What a driver does for each operation, and how it sums it up in one line.

A dry run asks the planner that the run itself would ask, and ends there. Spark rewrites data files, for compaction and
for row retention, and reads the manifests of large tables in an orphan scan; the other operations spend their time
waiting for storage.
"""

import logging
from dataclasses import dataclass, field
from datetime import datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tableformat.inspection import table_health
from tableformat.maintenance.compaction import (
    CompactionOptions,
    CompactionResult,
    Progress,
    compact,
    compacted_so_far,
    plan_compaction,
)
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots, plan_expiry
from tableformat.maintenance.figures import small_below, take_figures
from tableformat.maintenance.job import (
    CherryPickWork,
    CompactWork,
    ExpireWork,
    InspectWork,
    JobReport,
    MaintenanceJob,
    ManifestWork,
    OrphanWork,
    RollbackWork,
    RowRetentionWork,
)
from tableformat.maintenance.manifests import ManifestOptions, plan_manifests, rewrite_manifests
from tableformat.maintenance.orphans import OrphanOptions, plan_orphans, remove_orphans
from tableformat.maintenance.retention import RowRetentionOptions, plan_row_retention, remove_old_rows
from tableformat.maintenance.rollback import (
    RollbackOptions,
    RollbackRefused,
    cherry_pick,
    plan_cherry_pick,
    plan_rollback,
    roll_back,
)
from tableformat.maintenance.rollback.planning import REMEDY
from tableformat.maintenance.summaries import PlanSummary, summarize
from tableformat.plurals import plural
from tableformat.storage import open_store
from tablejobs.attempt import Attempt
from tablejobs.executor import SharedBy, SparkExecutor
from tablejobs.live_paths import SparkLivePaths
from tablejobs.pods import DriverPod
from tablejobs.reporting import Reporter

logger = logging.getLogger("tablejobs")


def carry_out(
    job: MaintenanceJob, catalog: Catalog, reporter: Reporter, attempt: Attempt, *, now: datetime
) -> JobReport:
    before = take_figures(job, catalog)
    if job.dry_run:
        return _dry_run(job, catalog, now=now).model_copy(update={"before": before})
    run = _Run(job, catalog, reporter, attempt, now)
    report = run.carry_out()
    after = before if isinstance(job.work, InspectWork) else take_figures(job, catalog)
    return report.model_copy(update={"plan": run.plan, "before": before, "after": after})


def done_so_far(job: MaintenanceJob, catalog: Catalog) -> CompactionResult | None:
    """What a run that does not come to its end has done all the same: compactions alone commit as they go."""
    if not isinstance(job.work, CompactWork) or job.dry_run:
        return None
    try:
        return compacted_so_far(catalog, job.identifier, job.run_id)
    except Exception as error:  # what ended the run is the news
        logger.warning("what is done of the run was not looked up: %s", error)
        return None


def _dry_run(job: MaintenanceJob, catalog: Catalog, *, now: datetime) -> JobReport:
    table = catalog.load_table(job.identifier)
    match job.work:
        case InspectWork():
            return _inspect(job, table)
        case CompactWork(options=options):
            plan: object = plan_compaction(table, options, now=now)
        case ExpireWork(options=options):
            plan = plan_expiry(table, options, now=now)
        case OrphanWork(options=options):
            _, plan = plan_orphans(catalog, job.identifier, options, now=now, store=open_store(table.io))
        case ManifestWork(options=options):
            plan = plan_manifests(table, options)
        case RowRetentionWork(options=options):
            plan = plan_row_retention(table, options, now=now)
        case RollbackWork(options=options):
            back = plan_rollback(".".join(job.identifier), table.metadata, options)
            if options.refuses(back):
                message = f"dry run: {back}. The run would be refused. {REMEDY}"
                return JobReport(
                    succeeded=False, reason=RollbackRefused.__name__, message=message, plan=summarize(back)
                )
            plan = back
        case CherryPickWork(snapshot_id=snapshot_id):
            plan = plan_cherry_pick(table, snapshot_id)
    return _completed(f"dry run: {plan}", plan=summarize(plan))


def _inspect(job: MaintenanceJob, table: Table) -> JobReport:
    health = table_health(table, small_file_bytes=small_below(job, table), with_metadata_bytes=True)
    files = plural(health.data_files, "data file")
    message = f"{files}, {health.small_files:,} of them small, {plural(health.delete_files, 'delete file')}"
    return _completed(message, inspection=health)


@dataclass
class _Run:
    """One run; the plan that it ends up following is noted on the way."""

    job: MaintenanceJob
    catalog: Catalog
    reporter: Reporter
    attempt: Attempt
    now: datetime
    plan: PlanSummary | None = field(default=None, init=False)

    def carry_out(self) -> JobReport:
        match self.job.work:
            case CompactWork(options=options):
                return self._compact(options)
            case ExpireWork(options=options):
                return self._expire(options)
            case OrphanWork(options=options):
                return self._remove_orphans(options)
            case ManifestWork(options=options):
                return self._rewrite_manifests(options)
            case RowRetentionWork(options=options):
                return self._remove_old_rows(options)
            case RollbackWork(options=options):
                return self._roll_back(options)
            case CherryPickWork(snapshot_id=snapshot_id):
                return self._cherry_pick(snapshot_id)
            case InspectWork():
                return _inspect(self.job, self.catalog.load_table(self.job.identifier))

    def _executor(self, driver: DriverPod | None = None) -> SparkExecutor:
        shared = None if self.attempt.spark is None else SharedBy(self.attempt.spark, self.job.run_id)
        return SparkExecutor(self.attempt.size, driver, tell=self.reporter.held_up, shared=shared)

    def _compact(self, options: CompactionOptions) -> JobReport:
        with self._executor(self.attempt.driver) as executor:
            result = compact(
                self.catalog,
                self.job.identifier,
                options,
                executor=executor,
                run_id=self.job.run_id,
                run_name=self.job.run_name,
                now=self.now,
                progress=self._progress,
            )
        done = f"rewrote {plural(result.files_rewritten, 'file')} into {result.files_added:,}"
        return _completed(_with_note(done, executor) if result.snapshot_id else "nothing to compact", compaction=result)

    def _expire(self, options: ExpiryOptions) -> JobReport:
        result = expire_snapshots(self.catalog, self.job.identifier, options, now=self.now, planned=self._planned)
        snapshots, files = plural(result.snapshots_expired, "snapshot"), plural(result.files_deleted, "file")
        done = f"expired {snapshots} and deleted {files}"
        nothing = not (result.snapshots_expired or result.files_deleted)
        return _completed("nothing to expire" if nothing else done, expiry=result)

    def _remove_orphans(self, options: OrphanOptions) -> JobReport:
        with self._executor() as executor:
            result = remove_orphans(
                self.catalog,
                self.job.identifier,
                options,
                now=self.now,
                read=SparkLivePaths(self.catalog.load_table(self.job.identifier), executor.context),
                planned=self._planned,
            )
        orphans = plural(result.orphans, "orphan file")
        done = f"deleted {result.files_deleted:,} of {orphans} ({result.files_marked:,} marked)"
        return _completed(done if result.orphans else "no orphan files", orphans=result)

    def _rewrite_manifests(self, options: ManifestOptions) -> JobReport:
        result = rewrite_manifests(
            self.catalog,
            self.job.identifier,
            options,
            run_id=self.job.run_id,
            run_name=self.job.run_name,
            planned=self._planned,
        )
        done = f"rewrote {plural(result.manifests_replaced, 'manifest')} into {result.manifests_written:,}"
        return _completed(done if result.snapshot_id else "no manifests to rewrite", manifests=result)

    def _remove_old_rows(self, options: RowRetentionOptions) -> JobReport:
        with self._executor(self.attempt.driver) as executor:
            result = remove_old_rows(
                self.catalog,
                self.job.identifier,
                options,
                run_id=self.job.run_id,
                run_name=self.job.run_name,
                now=self.now,
                executor=executor,
                planned=self._planned,
                progress=self.reporter.progress,
            )
        done = f"removed {plural(result.rows_removed, 'row')}"
        return _completed(_with_note(done, executor) if result.snapshot_id else "no rows are too old", rows=result)

    def _roll_back(self, options: RollbackOptions) -> JobReport:
        result = roll_back(
            self.catalog, self.job.identifier, options, run_id=self.job.run_id, now=self.now, planned=self._planned
        )
        undone = f"rolled back {plural(result.commits_undone, 'commit')}: " if result.commits_undone else ""
        done = f"{undone}main moved from snapshot {result.from_snapshot_id} to {result.to_snapshot_id}"
        moved = result.from_snapshot_id != result.to_snapshot_id
        return _completed(done if moved else "main is there already", rollback=result)

    def _cherry_pick(self, snapshot_id: int) -> JobReport:
        result = cherry_pick(
            self.catalog,
            self.job.identifier,
            snapshot_id,
            run_id=self.job.run_id,
            run_name=self.job.run_name,
            planned=self._planned,
        )
        again = "" if result.fast_forward else f" as snapshot {result.snapshot_id}"
        return _completed(f"snapshot {snapshot_id} is on main{again}", cherry_pick=result)

    def _planned(self, plan: object) -> None:
        self.plan = summarize(plan)

    def _progress(self, progress: Progress) -> None:
        if progress.tasks_done == 0:
            self.plan = PlanSummary(files=progress.files, bytes=progress.bytes)
        self.reporter.progress(progress)


def _with_note(done: str, executor: SparkExecutor) -> str:
    return f"{done} ({executor.size.note})" if executor.size is not None and executor.size.note else done


def _completed(message: str, **results: object) -> JobReport:
    return JobReport.model_validate({"succeeded": True, "reason": "Completed", "message": message, **results})
