"""Which maintenance starts next: one run a table at a time, in a fixed order of precedence."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tableformat.maintenance.errors import UnreadableSetting
from tableformat.maintenance.expiry import ExpiryOptions
from tableformat.maintenance.expiry.retention import plan_retention
from tableformat.maintenance.manifests.planning import manifest_target_bytes
from tablewright.api.run import Cause, MaintenanceRun, Operation
from tablewright.api.table import ManagedTable, OperationRecord, OperationStatus
from tablewright.decide.bookkeeping import SEEN_WITHIN, Operations, is_in_flight, ready_after_failure, started
from tablewright.decide.causes import run_name
from tablewright.decide.compaction import is_triggered, is_worthwhile
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.schedules import earliest, may_start, next_opening, next_time
from tablewright.decide.state import StartRun, TablePresent

# Rows go before their files are rewritten; what is replaced can then expire; what expiry leaves behind is no orphan.
PRECEDENCE = (
    Operation.DELETE_EXPIRED_ROWS,
    Operation.COMPACT,
    Operation.REWRITE_MANIFESTS,
    Operation.EXPIRE_SNAPSHOTS,
    Operation.REMOVE_ORPHAN_FILES,
)
_BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class MaintenanceDecision:
    operations: Operations
    start: StartRun | None = None
    wait_until: datetime | None = None
    due: tuple[StartRun, ...] = ()
    """Everything that could start now, in the order in which it would; `start` is the first."""


@dataclass(frozen=True)
class _Situation:
    """Everything that a decision about maintenance is made from."""

    table: ManagedTable
    policy: EffectivePolicy
    observed: TablePresent
    now: datetime


@dataclass(frozen=True)
class _Verdict:
    """What is to be said of one operation: whether it is due, and since when or from when on."""

    status: OperationStatus
    start: StartRun | None = None
    wait_until: datetime | None = None


def decide_maintenance(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TablePresent,
    runs: Sequence[MaintenanceRun],
    operations: Operations,
    now: datetime,
    *,
    not_possible: Collection[Operation] = (),
) -> MaintenanceDecision:
    """`not_possible`: what is not started, because every run of it would fail."""
    situation = _Situation(table, policy, observed, now)
    if policy.suspend:
        return MaintenanceDecision(_with_next(operations, {}))
    unseen = [status for status in operations.values() if is_in_flight(status, runs)]
    if unseen:
        return MaintenanceDecision(operations, wait_until=now + SEEN_WITHIN)
    if any(not run.status.is_finished for run in runs):
        return MaintenanceDecision(operations)  # its end is an event
    verdicts = {name: _judge(operations[name], situation) for name in PRECEDENCE if name not in not_possible}
    operations |= {name: verdict.status for name, verdict in verdicts.items()}
    due = [verdict.start for verdict in verdicts.values() if verdict.start is not None]
    waits = {name: verdict.wait_until for name, verdict in verdicts.items() if verdict.wait_until is not None}
    operations = _with_next(operations, waits)
    if not due:
        return MaintenanceDecision(operations, wait_until=min(waits.values(), default=None))
    due = _in_order(due, operations, situation)
    start = due[0]
    snapshot_id = observed.metadata.current_snapshot_id
    operations[start.operation] = started(operations[start.operation], start, now, snapshot_id)
    return MaintenanceDecision(operations, start=start, due=tuple(due))


def _in_order(due: Sequence[StartRun], operations: Operations, situation: _Situation) -> list[StartRun]:
    """By precedence; but what ran while another waited lets that one go first, or busy ones would starve the rest."""
    waits = {start.operation: _waits_since(start, operations[start.operation], situation) for start in due}

    def lets_another_go_first(start: StartRun) -> bool:
        ran = operations[start.operation].record.run_time
        others = (since for operation, since in waits.items() if operation is not start.operation)
        return ran is not None and any(since < ran for since in others)

    return sorted(due, key=lambda start: (lets_another_go_first(start), PRECEDENCE.index(start.operation)))


def _waits_since(start: StartRun, status: OperationStatus, situation: _Situation) -> datetime:
    """Its scheduled time; of a trigger or a repeated run its last run, since nobody knows when they were due."""
    schedule = situation.policy.schedules.get(start.operation)
    if start.cause is Cause.SCHEDULE and schedule is not None:
        slot = _slot(schedule, status, situation)
        if slot <= situation.now:
            return slot
    return status.record.run_time or _BEGINNING


def _judge(status: OperationStatus, situation: _Situation) -> _Verdict:
    policy, now = situation.policy, situation.now
    schedule = policy.schedules.get(status.operation)
    coming = next_time(schedule, now, policy.time_zone) if schedule else None
    due = _due(status, schedule, situation)
    if due is None:
        if schedule and _slot(schedule, status, situation) <= now:  # its time has come, and there is nothing to do
            status = _satisfied(status, now)
        return _Verdict(status, wait_until=may_start(policy.windows, earliest(coming, _pause_ends(status, situation))))
    ready = ready_after_failure(status)
    if ready is not None and now < ready:
        return _Verdict(status, wait_until=may_start(policy.windows, ready))
    opening = next_opening(policy.windows, now)
    if opening is not None:
        return _Verdict(status, wait_until=opening)
    return _Verdict(status, start=due)


def _due(status: OperationStatus, schedule: str | None, situation: _Situation) -> StartRun | None:
    """A trigger that holds; a scheduled time that has come where there is something to do; one whose run failed."""
    operation, now = status.operation, situation.now
    if operation is Operation.DELETE_EXPIRED_ROWS and situation.policy.row_retention is None:
        return None
    snapshot_id = situation.observed.metadata.current_snapshot_id
    if _is_triggered(status, situation) and _pause_ends(status, situation) is None:
        cause, scheduled_for, detail = Cause.TRIGGER, None, str(snapshot_id)
    elif schedule is None:
        return None
    else:
        slot = _slot(schedule, status, situation)
        if not status.record.owed and not (slot <= now and _has_something_to_do(status, situation)):
            return None
        cause, scheduled_for, detail = Cause.SCHEDULE, now, slot.isoformat()
    name = run_name(situation.table, operation, f"{cause}/{detail}/{status.last_run}")
    return StartRun(name, operation, cause, scheduled_for)


def _is_triggered(status: OperationStatus, situation: _Situation) -> bool:
    return (
        status.operation is Operation.COMPACT
        and not _is_idle(status, situation)
        and is_triggered(situation.policy, situation.observed.health, _telling(status, situation))
    )


def _telling(status: OperationStatus, situation: _Situation) -> OperationRecord:
    """What the last compaction left, unless it did nothing because it came too early."""
    record = status.record
    if _cools_down_at(status, situation) is None:
        return record
    return record.model_copy(update={"small_files": None, "delete_percent": None})


def _pause_ends(status: OperationStatus, situation: _Situation) -> datetime | None:
    """Until when triggers rest, if they would start something and do rest."""
    ends = status.record.paused_until
    if ends is not None and status.record.idle_snapshot_id == situation.observed.metadata.current_snapshot_id:
        ends = earliest(ends, _cools_down_at(status, situation))
    return ends if ends is not None and situation.now < ends and _is_triggered(status, situation) else None


def _slot(schedule: str, status: OperationStatus, situation: _Situation) -> datetime:
    """The first scheduled time that is not dealt with. However many were missed, one run makes up for all."""
    since = status.record.scheduled_until or situation.table.metadata.creation_timestamp or situation.now
    return next_time(schedule, since, situation.policy.time_zone)


def _has_something_to_do(status: OperationStatus, situation: _Situation) -> bool:
    """As far as the cheap look can tell; the driver's plan has the last word."""
    policy, observed = situation.policy, situation.observed
    if observed.metadata.current_snapshot_id is None:
        return False
    match status.operation:
        case Operation.COMPACT:
            return is_worthwhile(policy, observed.health) and not _is_idle(status, situation)
        case Operation.REWRITE_MANIFESTS:
            return _has_manifests_to_merge(observed) and not _is_idle(status, situation)
        case Operation.DELETE_EXPIRED_ROWS:
            return observed.health.data_files > 0
        case Operation.EXPIRE_SNAPSHOTS:
            return _has_snapshots_to_expire(situation)
        case _:
            return True


def _has_snapshots_to_expire(situation: _Situation) -> bool:
    metadata, options = situation.observed.metadata, expiry_options(situation.policy)
    try:
        return not plan_retention(metadata, options, now=situation.now).is_empty
    except UnreadableSetting:
        return True  # the run refuses, and tells the reason where people look for it


def expiry_options(policy: EffectivePolicy) -> ExpiryOptions:
    """What no level says is left to the table's own properties."""
    age = policy.snapshot_max_age
    return ExpiryOptions(
        max_snapshot_age_ms=None if age is None else int(age / timedelta(milliseconds=1)),
        min_snapshots_to_keep=policy.snapshot_min_count,
    )


def _has_manifests_to_merge(observed: TablePresent) -> bool:
    """Whether there are more manifests than their bytes ask for, in each spec and kind one more or less."""
    health, metadata = observed.health, observed.metadata
    groups = len(metadata.partition_specs) * (2 if health.delete_files else 1)
    return health.manifests > math.ceil(health.manifest_bytes / manifest_target_bytes(metadata.properties)) + groups - 1


def _is_idle(status: OperationStatus, situation: _Situation) -> bool:
    """Whether the last run found nothing to do in this very snapshot, with nothing of it left out for being new."""
    idle, current = status.record.idle_snapshot_id, situation.observed.metadata.current_snapshot_id
    if idle is None or idle != current or status.record.end is None:
        return False
    return _cools_down_at(status, situation) is None


def _cools_down_at(status: OperationStatus, situation: _Situation) -> datetime | None:
    """When what the last run found too new has cooled down, if it found nothing else."""
    idle, end = status.record.idle_snapshot_id, status.record.end
    snapshot = None if idle is None else situation.observed.metadata.snapshot_by_id(idle)
    if snapshot is None or end is None:
        return None
    cool = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC) + situation.policy.cool_down
    return cool if end < cool else None


def with_schedules(operations: Operations, table: ManagedTable, policy: EffectivePolicy, now: datetime) -> Operations:
    """A schedule that is new for a table that we know begins now; it does not make up for the table's past."""
    is_known, found = table.status.observed_generation >= 0, dict(operations)
    for operation, status in operations.items():
        schedule = policy.schedules.get(operation)
        if status.record.schedule != schedule:
            status = _satisfied(status, now) if is_known and schedule is not None else status
            record = status.record.model_copy(update={"schedule": schedule})
            found[operation] = status.model_copy(update={"record": record})
    return found


def _satisfied(status: OperationStatus, now: datetime) -> OperationStatus:
    return status.model_copy(update={"record": status.record.model_copy(update={"scheduled_until": now})})


def _with_next(operations: Operations, waits: dict[Operation, datetime]) -> Operations:
    return {
        name: status if status.next_run == waits.get(name) else status.model_copy(update={"next_run": waits.get(name)})
        for name, status in operations.items()
    }
