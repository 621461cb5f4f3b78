"""Reads a run's Job, and the report that its driver left in the termination message, into values."""

from collections.abc import Sequence

from pydantic import ValidationError

from tableformat.maintenance.job import JobReport
from tablewright.api.objects import KubernetesObject
from tablewright.api.run import RunResult
from tablewright.decide.state import DriverReport, JobObservation


def observe_job(job: KubernetesObject, pods: Sequence[KubernetesObject]) -> JobObservation:
    status = job.get("status") or {}
    conditions = {
        condition["type"]: condition for condition in status.get("conditions") or [] if condition["status"] == "True"
    }
    failed = conditions.get("Failed")
    return JobObservation(
        active=bool(status.get("active")),
        succeeded="Complete" in conditions,
        failed=failed is not None,
        failure=f"{failed.get('reason', '')}: {failed.get('message', '')}" if failed else "",
        report=_last_report(pods),
    )


def is_finished(job: KubernetesObject) -> bool:
    observed = observe_job(job, ())
    return observed.succeeded or observed.failed


def read_report(text: str) -> DriverReport | None:
    """The driver's report; None where the text is none, as after an out-of-memory kill."""
    try:
        report = JobReport.model_validate_json(text)
    except ValidationError:
        return None
    return DriverReport(report.succeeded, report.reason, report.message, _result(report))


def _result(report: JobReport) -> RunResult | None:
    if report.compaction is not None:
        done = report.compaction
        return RunResult(
            snapshot_id=done.snapshot_id,
            rewritten_files=done.files_rewritten,
            added_files=done.files_added,
            rewritten_bytes=done.bytes_rewritten,
            added_bytes=done.bytes_added,
            records=done.rows,
        )
    if report.expiry is not None:
        return RunResult(
            expired_snapshots=report.expiry.snapshots_expired,
            deleted_files=report.expiry.files_deleted,
            deleted_bytes=report.expiry.bytes_deleted,
        )
    if report.orphans is not None:
        return RunResult(
            deleted_files=report.orphans.files_deleted,
            deleted_bytes=report.orphans.bytes_deleted,
            marked_files=report.orphans.files_marked,
        )
    return None


def _last_report(pods: Sequence[KubernetesObject]) -> DriverReport | None:
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True):
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            terminated = (container.get("state") or {}).get("terminated") or {}
            report = read_report(terminated.get("message") or "")
            if report is not None:
                return report
    return None
