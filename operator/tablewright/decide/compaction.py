"""When a table is compacted: here and nowhere else."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tablewright.api.run import MaintenanceRun, Operation, Phase
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.schedules import is_due, next_opening, next_time
from tablewright.decide.state import StartRun

FIRST_BACKOFF = timedelta(minutes=1)
LONGEST_BACKOFF = timedelta(hours=1)
FRUITLESS_PAUSE = timedelta(hours=1)  # where a run found nothing worth a rewrite, the next commit changes little


@dataclass(frozen=True)
class CompactionDecision:
    start: StartRun | None = None
    wait_until: datetime | None = None


def is_past_policy(policy: EffectivePolicy, health: HealthFigures) -> bool:
    """Whether the table's files are past what its policy tolerates."""
    return policy.small_files is not None and health.small_files >= policy.small_files


def decide_compaction(
    table: ManagedTable,
    policy: EffectivePolicy,
    health: HealthFigures,
    snapshot_id: int | None,
    runs: Sequence[MaintenanceRun],
    now: datetime,
) -> CompactionDecision:
    """Starts a run when one is due, none is under way, and the same snapshot has not been compacted already.

    A run is due when a trigger holds, or when a scheduled time has come and there is enough to do.
    """
    if policy.suspend or snapshot_id is None:
        return CompactionDecision()
    if any(not run.status.is_finished for run in runs):
        return CompactionDecision()  # one run a table at a time; its end is an event
    scheduled = _scheduled(table, policy, runs, now)
    worthwhile = health.small_files >= policy.min_input_files
    if not is_past_policy(policy, health) and not (scheduled.is_due and worthwhile):
        return CompactionDecision(wait_until=scheduled.next if worthwhile else None)
    opening = next_opening(policy.windows, now)
    if opening is not None:
        return CompactionDecision(wait_until=opening)
    failures = consecutive_failures(runs, Operation.COMPACT)
    name = run_name(table, Operation.COMPACT, snapshot_id, failures)
    if any(run.metadata.name == name for run in runs):
        return CompactionDecision()  # it did what could be done to this snapshot
    ready = _ready_again(runs, failures)
    if ready is not None and now < ready:
        return CompactionDecision(wait_until=ready)
    return CompactionDecision(start=StartRun(name, Operation.COMPACT))


def run_name(table: ManagedTable, operation: Operation, snapshot_id: int, failures: int) -> str:
    """The same cause gives the same name: starting a run twice is then creating one object twice."""
    cause = f"{table.metadata.uid}/{operation}/{snapshot_id}/{failures}"
    digest = hashlib.sha256(cause.encode()).hexdigest()[:10]
    return f"{table.metadata.name[:40].rstrip('-.')}-{operation.lower()}-{digest}"


def consecutive_failures(runs: Sequence[MaintenanceRun], operation: Operation) -> int:
    failures = 0
    for run in reversed(in_order(runs, operation)):
        if run.status.phase == Phase.SUCCEEDED:
            break
        if run.status.phase == Phase.FAILED:
            failures += 1
    return failures


def in_order(runs: Sequence[MaintenanceRun], operation: Operation) -> list[MaintenanceRun]:
    """The operation's runs, oldest first."""
    mine = [run for run in runs if run.spec.operation == operation]
    return sorted(mine, key=lambda run: (run.metadata.creation_timestamp is None, run.metadata.creation_timestamp))


def backoff(failures: int) -> timedelta:
    return min(FIRST_BACKOFF * (1 << min(failures - 1, 10)), LONGEST_BACKOFF)


@dataclass(frozen=True)
class _Scheduled:
    is_due: bool
    next: datetime | None


def _scheduled(
    table: ManagedTable, policy: EffectivePolicy, runs: Sequence[MaintenanceRun], now: datetime
) -> _Scheduled:
    """Counted from the last run, or from the object's creation: times missed since then are made up once."""
    if policy.schedule is None:
        return _Scheduled(is_due=False, next=None)
    starts = [run.metadata.creation_timestamp for run in in_order(runs, Operation.COMPACT)]
    since = max((start for start in (*starts, table.metadata.creation_timestamp) if start is not None), default=now)
    due = is_due(policy.schedule, since, now, policy.time_zone)
    return _Scheduled(due, next_time(policy.schedule, now, policy.time_zone))


def _ready_again(runs: Sequence[MaintenanceRun], failures: int) -> datetime | None:
    """When the next run may start after the last one ended without success, or without anything to show for it."""
    ended = [run for run in in_order(runs, Operation.COMPACT) if run.status.completion_time is not None]
    if not ended or ended[-1].status.completion_time is None:
        return None
    if failures:
        return ended[-1].status.completion_time + backoff(failures)
    result = ended[-1].status.result
    fruitless = result is not None and result.rewritten_files == 0
    return ended[-1].status.completion_time + FRUITLESS_PAUSE if fruitless else None
