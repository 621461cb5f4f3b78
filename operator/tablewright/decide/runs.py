"""The decision about one MaintenanceRun: whether it needs its Job, and what its status says."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus, Phase
from tablewright.decide.state import CreateJob, JobObservation, RunDecision


def waits_for(run: MaintenanceRun, others: Iterable[MaintenanceRun]) -> MaintenanceRun | None:
    """The run of the same table that has to end first: one a table at a time, whoever made them."""
    ahead = [
        other
        for other in others
        if other.metadata.uid != run.metadata.uid
        and other.key[0] == run.key[0]
        and other.spec.table_ref == run.spec.table_ref
        and not other.status.is_finished
        and _place(other) < _place(run)
    ]
    return min(ahead, key=_place, default=None)


def decide_run(
    run: MaintenanceRun,
    refusal: str | None,
    job: JobObservation | None,
    now: datetime,
    *,
    ahead: MaintenanceRun | None = None,
    broken_policies: Sequence[str] = (),
) -> RunDecision:
    """`refusal` says why the run cannot be carried out at all (its table or catalog is not there), if that is so."""
    if run.status.is_finished:
        return RunDecision(run.status)
    if job is None:
        if refusal is not None:
            return RunDecision(_failed(run, "Refused", refusal, now))
        if run.status.job_name is not None:
            message = f"Job {run.status.job_name} was deleted before it ended"
            return RunDecision(_failed(run, "JobDeleted", message, now))
        if ahead is not None:
            return RunDecision(_with(run, phase=Phase.PENDING, message=f"waits for run {ahead.metadata.name}"))
        if broken_policies:  # its options would be others than the policy's author meant
            message = f"waits until this is corrected: {'; '.join(broken_policies)}"
            return RunDecision(_with(run, phase=Phase.PENDING, message=message))
        return RunDecision(_with(run, phase=Phase.PENDING, message=None, job_name=run.metadata.name), CreateJob())
    return RunDecision(_from_job(run, job, now))


def _from_job(run: MaintenanceRun, job: JobObservation, now: datetime) -> MaintenanceRunStatus:
    report = job.report
    if job.succeeded:
        result = report.result if report else None
        message = report.message if report else "the Job completed"
        return _with(
            run,
            phase=Phase.SUCCEEDED,
            message=message,
            result=result or run.status.result,
            job_name=run.metadata.name,
            completion_time=now,
        )
    if job.failed:
        if report is not None and not report.succeeded:
            return _failed(run, report.reason, report.message, now)
        return _failed(run, "JobFailed", job.failure or "the Job failed", now)
    phase = Phase.RUNNING if job.active else Phase.PENDING
    started = run.status.start_time or (now if job.active else None)
    return _with(run, phase=phase, job_name=run.metadata.name, start_time=started)


def _failed(run: MaintenanceRun, reason: str, message: str, now: datetime) -> MaintenanceRunStatus:
    return _with(run, phase=Phase.FAILED, reason=reason, message=message, completion_time=now)


def _with(run: MaintenanceRun, **changes: object) -> MaintenanceRunStatus:
    update = {"observed_generation": run.metadata.generation, **changes}
    return run.status.model_copy(update=update)


def _place(run: MaintenanceRun) -> tuple[bool, str, str]:
    """In line: first who is under way, then by age; the server's times are whole seconds, so then by name."""
    created = run.metadata.creation_timestamp
    return run.status.job_name is None, created.isoformat() if created else "", run.metadata.name
