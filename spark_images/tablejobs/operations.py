"""What a driver does for each operation, and how it sums it up in one line."""

from datetime import datetime

from pyiceberg.catalog import Catalog

from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.job import CompactWork, ExpireWork, JobReport, MaintenanceJob
from tableformat.maintenance.orphans import OrphanOptions, remove_orphans
from tablejobs.executor import SparkExecutor
from tablejobs.reporting import Reporter


def carry_out(
    job: MaintenanceJob, catalog: Catalog, reporter: Reporter, *, cores: int | None, now: datetime
) -> JobReport:
    """Only compaction has work for Spark: the others spend their time waiting for storage."""
    if isinstance(job.work, CompactWork):
        return _compact(job, catalog, job.work.options, reporter, cores, now)
    if isinstance(job.work, ExpireWork):
        return _expire(job, catalog, job.work.options, now)
    return _remove_orphans(job, catalog, job.work.options, now)


def _compact(
    job: MaintenanceJob,
    catalog: Catalog,
    options: CompactionOptions,
    reporter: Reporter,
    cores: int | None,
    now: datetime,
) -> JobReport:
    with SparkExecutor(cores=cores) as executor:
        result = compact(
            catalog,
            job.identifier,
            options,
            executor=executor,
            run_id=job.run_id,
            now=now,
            progress=reporter.progress,
        )
    done = f"rewrote {result.files_rewritten} files into {result.files_added}"
    return _succeeded(done if result.snapshot_id else "nothing to compact", compaction=result)


def _expire(job: MaintenanceJob, catalog: Catalog, options: ExpiryOptions, now: datetime) -> JobReport:
    result = expire_snapshots(catalog, job.identifier, options, now=now)
    done = f"expired {result.snapshots_expired} snapshots and deleted {result.files_deleted} files"
    nothing = not (result.snapshots_expired or result.files_deleted)
    return _succeeded("nothing to expire" if nothing else done, expiry=result)


def _remove_orphans(job: MaintenanceJob, catalog: Catalog, options: OrphanOptions, now: datetime) -> JobReport:
    result = remove_orphans(catalog, job.identifier, options, now=now)
    done = f"of {result.orphans} orphan files {result.files_deleted} were deleted and {result.files_marked} marked"
    return _succeeded(done if result.orphans else "no orphan files", orphans=result)


def _succeeded(message: str, **results: object) -> JobReport:
    return JobReport.model_validate({"succeeded": True, "reason": "Completed", "message": message, **results})
