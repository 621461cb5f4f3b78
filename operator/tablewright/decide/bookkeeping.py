"""What is remembered of each operation on a table, in the table's status.

Runs come and go: history limits and people delete them. Schedules, backoff and triggers must not notice, so everything
that they need is taken from a run once, when it has ended, and kept here. Runs are taken in order of creation; `record`
knows which was the last. A run that vanished before its end was cancelled.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tablewright.api.run import Cause, MaintenanceRun, Operation, Phase, RunResult
from tablewright.api.table import HealthFigures, ManagedTable, OperationStatus, RunState
from tablewright.api.texts import shortened
from tablewright.decide.causes import cause_of, scheduled_for
from tablewright.decide.compaction import delete_percent
from tablewright.decide.state import StartRun

STOP_AFTER = 5  # failures in a row
FIRST_BACKOFF = timedelta(minutes=1)
LONGEST_BACKOFF = timedelta(hours=1)
COOL_DOWN = timedelta(hours=24)  # after which a stopped operation is tried once more
QUIET_AFTER_NOTHING = timedelta(hours=1)  # where a run found nothing to do, the next commit changes little
QUIET_AFTER_CANCEL = timedelta(hours=1)
SEEN_WITHIN = timedelta(minutes=1)  # a run that was just created may not be seen yet
CLOCK_TOLERANCE = timedelta(hours=1)  # what is remembered of a later time than this was written under another clock

_BY_HAND = (Cause.MANUAL, Cause.ANNOTATION)

Operations = dict[Operation, OperationStatus]


def remembered(table: ManagedTable, runs: Sequence[MaintenanceRun], health: HealthFigures, now: datetime) -> Operations:
    """What is known of every operation, with what its runs have come to meanwhile. Dry runs change nothing here."""
    known = {status.operation: status for status in table.status.operations}
    found: Operations = {}
    for operation in Operation:
        status = _under_this_clock(known.get(operation, OperationStatus(operation=operation)), now)
        status = _lowered(_resumed(status, table.metadata.generation), health)
        found[operation] = _caught_up(status, real_runs(runs, operation), table.metadata.generation, health, now)
    return found


def real_runs(runs: Sequence[MaintenanceRun], operation: Operation) -> list[MaintenanceRun]:
    """The operation's runs that are no rehearsals, oldest first."""
    mine = [run for run in runs if run.spec.operation == operation and not run.spec.dry_run]
    return sorted(mine, key=_place)


def is_in_flight(status: OperationStatus, runs: Sequence[MaintenanceRun]) -> bool:
    """Whether a run was started that nobody has seen yet."""
    return status.record.state is RunState.STARTED and all(run.metadata.name != status.last_run for run in runs)


def backoff(failures: int) -> timedelta:
    return min(FIRST_BACKOFF * (1 << min(2 * (failures - 1), 20)), LONGEST_BACKOFF)


def ready_after_failure(status: OperationStatus) -> datetime | None:
    """When the operation may be tried again, if it failed last."""
    failures, ended = status.consecutive_failures, status.record.end
    if not failures or ended is None:
        return None
    return ended + (COOL_DOWN if status.stopped else backoff(failures))


def started(status: OperationStatus, start: StartRun, now: datetime, snapshot_id: int | None) -> OperationStatus:
    """With the run that is started now."""
    return _with(
        status,
        state=RunState.STARTED,
        run_time=now,
        cause=start.cause,
        snapshot_id=snapshot_id,
        scheduled_until=status.record.scheduled_until if start.cause in _BY_HAND else now,
    ).model_copy(update={"last_run": start.name})


def forgiven(status: OperationStatus) -> OperationStatus:
    """Without its failures: a new beginning."""
    return status.model_copy(update={"consecutive_failures": 0, "stopped": False, "message": None})


def counted(status: OperationStatus, runs: Sequence[MaintenanceRun]) -> list[MaintenanceRun]:
    """Of the operation's runs, those whose outcome is in the status."""
    return [run for run in runs if run.status.is_finished and not _is_news(status, run)]


def did_nothing(result: RunResult | None) -> bool:
    """Whether a run that succeeded says that there was nothing to do."""
    if result is None:
        return False
    return result.snapshot_id is None and not (
        result.rewritten_files or result.expired_snapshots or result.deleted_files or result.marked_files
    )


def _under_this_clock(status: OperationStatus, now: datetime) -> OperationStatus:
    """A clock that was ahead and is put right must not stop schedules and retries until it comes to that time again.

    A little ahead is the API server's clock, or ours that was set back: then nothing is done twice. When a run was
    created is the server's to say, and is compared with its own times only.
    """

    def past(time: datetime | None, latest: datetime = now) -> datetime | None:
        return latest if time is not None and time > latest + CLOCK_TOLERANCE else time

    record = status.record
    times = {
        "end": past(record.end),
        "scheduled_until": past(record.scheduled_until),
        "paused_until": past(record.paused_until, now + max(QUIET_AFTER_NOTHING, QUIET_AFTER_CANCEL)),
    }
    if record.state is RunState.STARTED:
        times["run_time"] = past(record.run_time)
    if any(getattr(record, name) != time for name, time in times.items()):
        status = _with(status, **times)
    success = past(status.last_success)
    return status if success == status.last_success else status.model_copy(update={"last_success": success})


def _caught_up(
    status: OperationStatus, runs: Sequence[MaintenanceRun], generation: int, health: HealthFigures, now: datetime
) -> OperationStatus:
    if status.record.state in (RunState.STARTED, RunState.SEEN) and all(
        run.metadata.name != status.last_run for run in runs
    ):
        if status.record.state is RunState.STARTED and now < (status.record.run_time or now) + SEEN_WITHIN:
            return status
        status = _with(status, state=RunState.GONE, owed=False, paused_until=now + QUIET_AFTER_CANCEL)
    for run in [run for run in runs if _is_news(status, run) and not _is_of_another_clock(status, run, now)]:
        status = _seen(status, run)
        if not run.status.is_finished:
            break  # those behind it wait for it
        status = _ended(status, run, generation, health, now)
    return status


def _is_news(status: OperationStatus, run: MaintenanceRun) -> bool:
    if run.metadata.name == status.last_run:
        return status.record.state is not RunState.ENDED
    if status.last_run is None or status.record.run_time is None:
        return True
    created = run.metadata.creation_timestamp
    return created is not None and (created, run.metadata.name) > (status.record.run_time, status.last_run)


def _is_of_another_clock(status: OperationStatus, run: MaintenanceRun, now: datetime) -> bool:
    """Whether the server's clock was ahead when the run was created: whatever came after it would seem to be older."""
    created = run.metadata.creation_timestamp
    ended_long_ago = run.status.is_finished and run.metadata.name != status.last_run
    return ended_long_ago and created is not None and created > now + CLOCK_TOLERANCE


def _seen(status: OperationStatus, run: MaintenanceRun) -> OperationStatus:
    """The run is there, by the server's clock since when; ours and the schedule may have been ahead of it.

    A person's run stands for the scheduled ones that were due only once it has succeeded.
    """
    same, created = run.metadata.name == status.last_run, run.metadata.creation_timestamp
    made = None if cause_of(run) in _BY_HAND else created
    satisfied = [made, scheduled_for(run), status.record.scheduled_until]
    return _with(
        status,
        state=RunState.SEEN,
        run_time=created or status.record.run_time,
        cause=cause_of(run),
        snapshot_id=status.record.snapshot_id if same else None,
        scheduled_until=max((time for time in satisfied if time is not None), default=None),
    ).model_copy(update={"last_run": run.metadata.name})


def _ended(
    status: OperationStatus, run: MaintenanceRun, generation: int, health: HealthFigures, now: datetime
) -> OperationStatus:
    end = run.status.completion_time or now
    if run.status.phase == Phase.SUCCEEDED:
        idle, result = did_nothing(run.status.result), run.status.result or RunResult()
        # What a compaction leaves says nothing of the next where it did not do all that is worth doing.
        tells = status.operation is Operation.COMPACT and not (result.more_left or result.too_new)
        status = _with(
            status,
            state=RunState.ENDED,
            end=end,
            owed=False,
            scheduled_until=max(filter(None, (status.record.scheduled_until, status.record.run_time)), default=None),
            paused_until=end + QUIET_AFTER_NOTHING if idle or (result.too_new and not result.more_left) else None,
            idle_snapshot_id=status.record.snapshot_id if idle else None,
            small_files=_left_small(run, health) if tells else None,
            delete_percent=delete_percent(health) if tells else None,
        )
        return forgiven(status).model_copy(update={"last_success": end})
    progressed = run.status.result is not None and not did_nothing(run.status.result)
    failures = 1 if progressed else status.consecutive_failures + 1
    status = _with(
        status,
        state=RunState.ENDED,
        end=end,
        generation=generation,
        owed=status.record.owed or status.record.cause is Cause.SCHEDULE,
        paused_until=None,
    )
    why = f"run {run.metadata.name}: {run.status.reason or 'failed'}: {run.status.message or 'no message'}"
    return status.model_copy(
        update={"consecutive_failures": failures, "stopped": failures >= STOP_AFTER, "message": shortened(why, 1024)}
    )


def _left_small(run: MaintenanceRun, health: HealthFigures) -> int:
    """As it is now; where that is an estimate, as the run itself counted."""
    after = run.status.after
    return after.small_files if health.estimated and after is not None else health.small_files


def _resumed(status: OperationStatus, generation: int) -> OperationStatus:
    """Failures under another spec say nothing about this one."""
    if status.consecutive_failures and status.record.generation != generation:
        return forgiven(status)
    return status


def _lowered(status: OperationStatus, health: HealthFigures) -> OperationStatus:
    """Where the figures fell below what a compaction had left, growth is counted from there. That fewer small files are
    proven by an estimate than were counted does not mean that there are fewer."""
    record = status.record
    files, percent = record.small_files, record.delete_percent
    if files is not None and not health.estimated:
        files = min(files, health.small_files)
    if percent is not None:
        percent = min(percent, delete_percent(health))
    if (files, percent) == (record.small_files, record.delete_percent):
        return status
    return _with(status, small_files=files, delete_percent=percent)


def _with(status: OperationStatus, **record: object) -> OperationStatus:
    return status.model_copy(update={"record": status.record.model_copy(update=record)})


def _place(run: MaintenanceRun) -> tuple[bool, float, str]:
    created = run.metadata.creation_timestamp
    return created is None, created.timestamp() if created else 0.0, run.metadata.name
