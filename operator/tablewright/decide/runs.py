"""The decision about one MaintenanceRun: whether it needs its Job, and what its status says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from tableformat.maintenance.job import OUT_OF_MEMORY
from tablewright.api.conditions import SUCCEEDED, Condition, condition, merged
from tablewright.api.run import Cause, MaintenanceRun, MaintenanceRunStatus, Phase, Progress
from tablewright.api.texts import shortened
from tablewright.decide.causes import cause_of
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.progress import reconciling, stalled
from tablewright.decide.schedules import next_opening
from tablewright.decide.state import CreateJob, DeleteJob, JobObservation, RunDecision

POD_INTERVAL = timedelta(seconds=15)  # no event of the Job's tells why its pod does not start
LONGEST_MESSAGE = 1024
REPLACED = "JobReplaced"


@dataclass(frozen=True)
class Waiting:
    """What a run waits for; until when, if only time has to pass; and one word for it, where people should be told."""

    message: str
    until: datetime | None = None
    reason: str | None = None


def waits_for(
    run: MaintenanceRun, others: Iterable[MaintenanceRun], policy: EffectivePolicy, now: datetime
) -> MaintenanceRun | None:
    """The run of the same table that has to end first: one a table at a time, whoever made them.

    One that may not start yet lets others go first: a person's run must not wait for next week's window with it. Nor
    for one that was cancelled while it waited, and that somebody's finalizer keeps.
    """
    ahead = [
        other
        for other in others
        if other.metadata.uid != run.metadata.uid
        and other.key[0] == run.key[0]
        and other.spec.table_ref == run.spec.table_ref
        and not other.status.is_finished
        and _place(other) < _place(run)
        and (other.status.job_name is not None or _may_start(other, policy, now))
    ]
    return min(ahead, key=_place, default=None)


def why_it_waits(
    run: MaintenanceRun,
    ahead: MaintenanceRun | None,
    policy: EffectivePolicy,
    broken_policies: Sequence[str],
    now: datetime,
) -> Waiting | None:
    """What has to happen before the run may stand in line with those of other tables."""
    if ahead is not None:
        return Waiting(f"waits for run {ahead.metadata.name}")
    if broken_policies:  # its options would be others than the policy's author meant
        return Waiting(f"waits until this is corrected: {'; '.join(broken_policies)}")
    return _may_not_start(run, policy, now)


def _may_start(run: MaintenanceRun, policy: EffectivePolicy, now: datetime) -> bool:
    return run.metadata.deletion_timestamp is None and _may_not_start(run, policy, now) is None


def _may_not_start(run: MaintenanceRun, policy: EffectivePolicy, now: datetime) -> Waiting | None:
    """Windows and suspension hold up what the operator started by itself; a person who asks for a run means now."""
    if cause_of(run) not in (Cause.SCHEDULE, Cause.TRIGGER):
        return None
    if policy.suspended_by is not None:
        return Waiting(f"waits while maintenance is suspended by {policy.suspended_by}")
    opening = next_opening(policy.windows, now)
    return None if opening is None else Waiting(f"waits for the next window, at {opening:%Y-%m-%dT%H:%M:%SZ}", opening)


def decide_run(
    run: MaintenanceRun,
    refusal: str | None,
    job: JobObservation | None,
    now: datetime,
    *,
    waiting: Waiting | None = None,
    made_with: str | None = None,
    undeletable: str | None = None,
) -> RunDecision:
    """`refusal` says why the run cannot be carried out at all, `waiting` why not yet; None where it can. `made_with` is
    the fingerprint of the Job that would be made now, where one could be; `undeletable` why the old one stays."""
    if run.status.is_finished:
        return RunDecision(run.status)
    if job is None:
        if refusal is not None:
            return RunDecision(_failed(run, "Refused", refusal, now))
        if run.status.job_name is not None:
            message = f"Job {run.status.job_name} was deleted before it ended"
            return RunDecision(_failed(run, "JobDeleted", message, now))
        if waiting is not None:
            status = _with(run, now, phase=Phase.PENDING, reason=waiting.reason, message=waiting.message)
            return RunDecision(status, look_again_at=waiting.until)
        status = _with(run, now, phase=Phase.PENDING, reason=None, message=None, job_name=run.metadata.name)
        return RunDecision(status, CreateJob())
    if _is_replaced(run, job, made_with):
        return _replace(run, job, undeletable, now)
    return RunDecision(_from_job(run, job, now), look_again_at=None if job.is_settled else now + POD_INTERVAL)


def _is_replaced(run: MaintenanceRun, job: JobObservation, made_with: str | None) -> bool:
    """Whether the Job, whose pod does not start, waits for what has been corrected since it was made."""
    if job.succeeded or job.failed:
        return False
    if job.is_being_deleted:
        return run.status.reason == REPLACED
    never_began = not job.has_begun and run.status.progress is None
    outdated = made_with is not None and job.made_with is not None and job.made_with != made_with
    return job.problem is not None and never_began and outdated


def _replace(run: MaintenanceRun, job: JobObservation, undeletable: str | None, now: datetime) -> RunDecision:
    """First the status says so, and the next pass deletes the Job: who finds it gone must know that it was us. The run
    keeps its Job's name until that is gone with its pod, so no other run of the table begins meanwhile."""
    message = f"Job {run.metadata.name}, whose pod never started, is made anew: what it was made with has changed since"
    if undeletable is not None:
        message = shortened(f"{message}; but it cannot be deleted: {undeletable}", LONGEST_MESSAGE)
    status = _with(
        run, now, phase=Phase.PENDING, reason=REPLACED, message=message, job_name=run.metadata.name, start_time=None
    )
    is_told = run.status.reason == REPLACED
    delete = DeleteJob(job.version) if is_told and job.version is not None and not job.is_being_deleted else None
    return RunDecision(status, delete_job=delete, look_again_at=now + POD_INTERVAL)


def without_replaced_job(run: MaintenanceRun) -> MaintenanceRun:
    """The run, once the Job is gone that was to be replaced: as one that has none yet."""
    if run.status.reason != REPLACED:
        return run
    return run.model_copy(update={"status": run.status.model_copy(update={"job_name": None})})


def runs_out_of_memory(run: MaintenanceRun, others: Iterable[MaintenanceRun]) -> int:
    """How many runs of the same operation in a row ended for want of memory, up to the last one before this."""
    earlier = [
        other
        for other in others
        if other.spec.operation == run.spec.operation and not other.spec.dry_run and other.status.is_finished
    ]
    earlier.sort(key=_end, reverse=True)
    return len(list(takewhile(lambda other: other.status.reason == OUT_OF_MEMORY, earlier)))


def _end(run: MaintenanceRun) -> tuple[str, str]:
    end = run.status.completion_time
    return end.isoformat() if end else "", run.metadata.name


def _from_job(run: MaintenanceRun, job: JobObservation, now: datetime) -> MaintenanceRunStatus:
    report = job.report
    if job.succeeded or job.failed:
        found = {} if report is None else {"plan": report.plan, "before": report.before, "after": report.after}
        told = {field: value for field, value in found.items() if value is not None}
        result = (report.result if report else None) or run.status.result
        if job.succeeded:
            return _with(
                run,
                now,
                phase=Phase.SUCCEEDED,
                reason=None,
                message=report.message if report else "the Job completed",
                result=result,
                job_name=run.metadata.name,
                completion_time=now,
                **told,
            )
        if job.problem is not None and job.failure_reason == "JobFailed":  # of the last pod; the report is older
            return _failed(run, job.problem.reason, job.problem.message, now, result=result)
        last = report if report is not None and not report.succeeded else None
        if last is not None and (job.failure_reason == "JobFailed" or last.reason == OUT_OF_MEMORY):
            return _failed(run, last.reason, last.message, now, result=result, **told)
        # That the Job took too long holds over what an attempt before its last one was ended by. Want of memory alone
        # is kept, because the next run goes by it.
        earlier = f"; an earlier attempt ended by {last.reason}: {last.message}" if last else ""
        return _failed(run, job.failure_reason, (job.failure or "the Job failed") + earlier, now, result=result, **told)
    if job.problem is not None:
        message = shortened(job.problem.message, LONGEST_MESSAGE)
        return _with(
            run, now, phase=Phase.PENDING, reason=job.problem.reason, message=message, job_name=run.metadata.name
        )
    phase = Phase.RUNNING if job.active else Phase.PENDING
    started = run.status.start_time or (now if job.active else None)
    held_up = (run.status.progress if job.active else None) or Progress()  # by the driver's own word
    return _with(
        run,
        now,
        phase=phase,
        reason=held_up.reason,
        message=held_up.message,
        job_name=run.metadata.name,
        start_time=started,
    )


def _failed(run: MaintenanceRun, reason: str, message: str, now: datetime, **told: object) -> MaintenanceRunStatus:
    return _with(run, now, phase=Phase.FAILED, reason=reason, message=message, completion_time=now, **told)


def _with(run: MaintenanceRun, now: datetime, **changes: object) -> MaintenanceRunStatus:
    is_held_up = changes.get("phase") is Phase.PENDING and changes.get("reason") is not None
    since = (run.status.held_up_since or now) if is_held_up else None
    told = {"observed_generation": run.metadata.generation, "cause": cause_of(run), "held_up_since": since}
    update = {**told, **changes}
    status = run.status.model_copy(update=update)
    decided = _with_progress(_outcome(status), status)
    conditions = merged(decided, status.conditions, generation=run.metadata.generation, now=now)
    return status.model_copy(update={"conditions": conditions})


def _with_progress(outcome: Condition, status: MaintenanceRunStatus) -> list[Condition]:
    if status.phase == Phase.SUCCEEDED:
        return [outcome]
    tell = stalled if status.phase == Phase.FAILED else reconciling
    return [outcome, tell(outcome.reason, outcome.message)]


def _outcome(status: MaintenanceRunStatus) -> Condition:
    match status.phase:
        case Phase.SUCCEEDED:
            return condition(SUCCEEDED, True, "Completed", status.message or "")
        case Phase.FAILED:
            return condition(SUCCEEDED, False, status.reason or "Failed", status.message or "")
        case Phase.RUNNING:
            return condition(SUCCEEDED, None, status.reason or "Running", status.message or "the run is under way")
        case _:
            return condition(
                SUCCEEDED, None, status.reason or "Waiting", status.message or "waits for its pod to start"
            )


def _place(run: MaintenanceRun) -> tuple[bool, str, str]:
    """In line: first who is under way, then by age; the server's times are whole seconds, so then by name."""
    created = run.metadata.creation_timestamp
    return run.status.job_name is None, created.isoformat() if created else "", run.metadata.name
