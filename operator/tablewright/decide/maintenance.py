"""Which maintenance starts next: one run a table at a time, in a fixed order of precedence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tablewright.api.run import MaintenanceRun, Operation
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.compaction import is_past_policy, is_worthwhile, was_fruitless_until
from tablewright.decide.history import consecutive_failures, last_start, ready_after_failure, run_name
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.schedules import is_due, next_opening, next_time
from tablewright.decide.state import StartRun

# Compaction first: what it replaces can then expire, and what expiry leaves behind is no orphan.
PRECEDENCE = (Operation.COMPACT, Operation.EXPIRE_SNAPSHOTS, Operation.REMOVE_ORPHAN_FILES)


@dataclass(frozen=True)
class MaintenanceDecision:
    start: StartRun | None = None
    wait_until: datetime | None = None


@dataclass(frozen=True)
class _Situation:
    """Everything that a decision about maintenance is made from."""

    table: ManagedTable
    policy: EffectivePolicy
    health: HealthFigures
    snapshot_id: int
    runs: Sequence[MaintenanceRun]
    now: datetime


def decide_maintenance(
    table: ManagedTable,
    policy: EffectivePolicy,
    health: HealthFigures,
    snapshot_id: int | None,
    runs: Sequence[MaintenanceRun],
    now: datetime,
) -> MaintenanceDecision:
    if policy.suspend or snapshot_id is None:
        return MaintenanceDecision()
    if any(not run.status.is_finished for run in runs):
        return MaintenanceDecision()  # its end is an event
    situation = _Situation(table, policy, health, snapshot_id, runs, now)
    decisions = [_decide(operation, situation) for operation in PRECEDENCE]
    starts = [decision.start for decision in decisions if decision.start is not None]
    if starts:
        return MaintenanceDecision(start=starts[0])
    waits = [decision.wait_until for decision in decisions if decision.wait_until is not None]
    return MaintenanceDecision(wait_until=min(waits, default=None))


def _decide(operation: Operation, situation: _Situation) -> MaintenanceDecision:
    """A run is due when a trigger holds, or when a scheduled time has come and there is something to do."""
    policy, now = situation.policy, situation.now
    schedule = policy.schedules.get(operation)
    triggered = operation is Operation.COMPACT and is_past_policy(policy, situation.health)
    scheduled = schedule is not None and _is_scheduled(operation, schedule, situation)
    if not triggered and not scheduled:
        return MaintenanceDecision(wait_until=next_time(schedule, now, policy.time_zone) if schedule else None)
    name = run_name(situation.table, operation, _cause(operation, situation))
    if any(run.metadata.name == name for run in situation.runs):
        return MaintenanceDecision()  # what could be done for this cause was done
    ready = ready_after_failure(situation.runs, operation)
    if operation is Operation.COMPACT:
        ready = ready or was_fruitless_until(situation.runs)
    if ready is not None and now < ready:
        return MaintenanceDecision(wait_until=ready)
    opening = next_opening(policy.windows, now)
    if opening is not None:
        return MaintenanceDecision(wait_until=opening)
    return MaintenanceDecision(start=StartRun(name, operation))


def _is_scheduled(operation: Operation, schedule: str, situation: _Situation) -> bool:
    """Counted from the last run, or from the object's creation: times missed since then are made up once."""
    if not _has_something_to_do(operation, situation):
        return False
    since = last_start(situation.runs, operation) or situation.table.metadata.creation_timestamp
    return since is not None and is_due(schedule, since, situation.now, situation.policy.time_zone)


def _has_something_to_do(operation: Operation, situation: _Situation) -> bool:
    """As far as the cheap look can tell; the driver's plan has the last word."""
    match operation:
        case Operation.COMPACT:
            return is_worthwhile(situation.policy, situation.health)
        case Operation.EXPIRE_SNAPSHOTS:
            return situation.health.snapshots > situation.policy.snapshot_min_count
        case _:
            return True


def _cause(operation: Operation, situation: _Situation) -> str:
    """What the run is for: this snapshot, or what came after the last run."""
    compacts = operation is Operation.COMPACT
    what = situation.snapshot_id if compacts else last_start(situation.runs, operation)
    return f"{what}/{consecutive_failures(situation.runs, operation)}"
