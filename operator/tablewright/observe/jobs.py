"""Reads a run's Job, and the report that its driver left in the termination message, into values."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tableformat.maintenance.job import JobReport, TableFigures
from tablewright.api.objects import KubernetesObject
from tablewright.api.run import RunFigures, RunPlan, RunResult
from tablewright.decide.state import DriverReport, JobObservation, JobVersion
from tablewright.observe.pods import has_begun, job_problem, newest_first

MADE_WITH_ANNOTATION = "tablewright.dev/made-with"

_OWN_REASONS = {"DeadlineExceeded"}  # of a Job that failed; the others say no more than that pods failed


def observe_job(
    job: KubernetesObject, pods: Sequence[KubernetesObject], events: Iterable[KubernetesObject] = (), *, now: datetime
) -> JobObservation:
    """`pods` are the Job's; `events` are about it, where it has no pods, or else about one that is slow to start."""
    status = job.get("status") or {}
    conditions = _conditions(job)
    failed = conditions.get("Failed")
    reason = failed.get("reason", "") if failed else ""
    newest = newest_first(pods)[:1]
    metadata = job.get("metadata") or {}
    return JobObservation(
        active=bool(status.get("active")),
        succeeded="Complete" in conditions,
        failed=failed is not None,
        failure=f"{reason}: {failed.get('message', '')}" if failed else "",
        failure_reason=reason if reason in _OWN_REASONS else "JobFailed",
        report=_last_report(pods),
        problem=None if _last_report(newest) is not None else job_problem(job, pods, events, now),
        is_settled=is_settled(job),
        has_begun=_had_pods_that_ran(job) or any(has_begun(pod) for pod in pods),
        made_with=(metadata.get("annotations") or {}).get(MADE_WITH_ANNOTATION),
        is_being_deleted="deletionTimestamp" in metadata,
        version=_version(metadata),
    )


def is_settled(job: KubernetesObject) -> bool:
    """Whether the driver runs or has ended; before that, only its pod can tell what it waits for."""
    status = job.get("status") or {}
    ended = any(each["status"] == "True" for each in status.get("conditions") or [] if each["type"] != "Suspended")
    return ended or bool(status.get("ready"))


def _conditions(job: KubernetesObject) -> dict[str, dict[str, Any]]:
    """Those that hold, by type."""
    found = (job.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in found if condition["status"] == "True"}


def _had_pods_that_ran(job: KubernetesObject) -> bool:
    """By the Job's own count, in which those that are gone are, too."""
    status = job.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).values()
    return any(status.get(each) for each in ("ready", "succeeded", "failed")) or any(uncounted)


def _version(metadata: dict[str, Any]) -> JobVersion | None:
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return JobVersion(uid, version) if uid and version else None


def is_finished(job: KubernetesObject) -> bool:
    return not {"Complete", "Failed"}.isdisjoint(_conditions(job))


def read_report(text: str) -> DriverReport | None:
    """The driver's report; None where the text is none, as after an out-of-memory kill."""
    try:
        report = JobReport.model_validate_json(text)
    except ValidationError:
        return None
    figures = report.figures()
    return DriverReport(
        succeeded=report.succeeded,
        reason=report.reason,
        message=report.message,
        result=None if figures is None else RunResult.model_validate(figures),
        plan=None if report.plan is None else RunPlan.model_validate(report.plan.model_dump()),
        before=_figures(report.before),
        after=_figures(report.after),
    )


def _figures(figures: TableFigures | None) -> RunFigures | None:
    return None if figures is None else RunFigures.model_validate(figures.model_dump())


def _last_report(pods: Sequence[KubernetesObject]) -> DriverReport | None:
    for pod in newest_first(pods):
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            terminated = (container.get("state") or {}).get("terminated") or {}
            report = read_report(terminated.get("message") or "")
            if report is not None:
                return report
    return None
