"""When a table is compacted: here and nowhere else."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tablewright.api.run import MaintenanceRun, Operation, Phase
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.state import StartRun

FIRST_BACKOFF = timedelta(minutes=1)
LONGEST_BACKOFF = timedelta(hours=1)


@dataclass(frozen=True)
class CompactionDecision:
    start: StartRun | None = None
    wait_until: datetime | None = None


def is_due(table: ManagedTable, health: HealthFigures) -> bool:
    """Whether the table's files are past what its policy tolerates."""
    trigger = table.spec.compaction.triggers.small_files
    return trigger is not None and health.small_files >= trigger


def decide_compaction(
    table: ManagedTable,
    health: HealthFigures,
    snapshot_id: int | None,
    runs: Sequence[MaintenanceRun],
    now: datetime,
) -> CompactionDecision:
    """Starts a run when one is due, none is under way, and the same snapshot has not been compacted already."""
    if table.spec.suspend or snapshot_id is None or not is_due(table, health):
        return CompactionDecision()
    if any(not run.status.is_finished for run in runs):
        return CompactionDecision()  # one run a table at a time
    failures = consecutive_failures(runs, Operation.COMPACT)
    name = run_name(table, Operation.COMPACT, snapshot_id, failures)
    if any(run.metadata.name == name for run in runs):
        return CompactionDecision()  # it did what could be done to this snapshot
    if failures:
        ready = _last_completion(runs) + backoff(failures)
        if now < ready:
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


def _last_completion(runs: Sequence[MaintenanceRun]) -> datetime:
    return max(run.status.completion_time for run in runs if run.status.completion_time is not None)
