"""The decision about one MaintenanceRun: whether it needs its Job, and what its status says."""

from datetime import datetime

from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus, Phase
from tablewright.decide.state import CreateJob, JobObservation, RunDecision


def decide_run(run: MaintenanceRun, refusal: str | None, job: JobObservation | None, now: datetime) -> RunDecision:
    """`refusal` says why the run cannot be carried out at all (its table or catalog is not there), if that is so."""
    if run.status.is_finished:
        return RunDecision(run.status)
    if job is None:
        if refusal is not None:
            return RunDecision(_failed(run, "Refused", refusal, now))
        if run.status.job_name is not None:
            message = f"Job {run.status.job_name} was deleted before it ended"
            return RunDecision(_failed(run, "JobDeleted", message, now))
        return RunDecision(_with(run, phase=Phase.PENDING, job_name=run.metadata.name), CreateJob())
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
