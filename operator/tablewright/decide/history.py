"""What a table's past runs say: how often an operation failed in a row, and when it may be tried again."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from tablewright.api.run import MaintenanceRun, Operation, Phase
from tablewright.api.table import ManagedTable

FIRST_BACKOFF = timedelta(minutes=1)
LONGEST_BACKOFF = timedelta(hours=1)


def in_order(runs: Sequence[MaintenanceRun], operation: Operation) -> list[MaintenanceRun]:
    """The operation's runs, oldest first."""
    mine = [run for run in runs if run.spec.operation == operation]
    return sorted(mine, key=lambda run: (run.metadata.creation_timestamp is None, run.metadata.creation_timestamp))


def consecutive_failures(runs: Sequence[MaintenanceRun], operation: Operation) -> int:
    failures = 0
    for run in reversed(in_order(runs, operation)):
        if run.status.phase == Phase.SUCCEEDED:
            break
        if run.status.phase == Phase.FAILED:
            failures += 1
    return failures


def backoff(failures: int) -> timedelta:
    return min(FIRST_BACKOFF * (1 << min(failures - 1, 10)), LONGEST_BACKOFF)


def ready_after_failure(runs: Sequence[MaintenanceRun], operation: Operation) -> datetime | None:
    """When the operation may be tried again, if it failed last."""
    failures = consecutive_failures(runs, operation)
    ends = [run.status.completion_time for run in in_order(runs, operation) if run.status.completion_time is not None]
    return ends[-1] + backoff(failures) if failures and ends else None


def last_start(runs: Sequence[MaintenanceRun], operation: Operation) -> datetime | None:
    starts = (run.metadata.creation_timestamp for run in in_order(runs, operation))
    return max((start for start in starts if start is not None), default=None)


def run_name(table: ManagedTable, operation: Operation, cause: str) -> str:
    """The same cause gives the same name: starting a run twice is then creating one object twice."""
    digest = hashlib.sha256(f"{table.metadata.uid}/{operation}/{cause}".encode()).hexdigest()[:10]
    return f"{table.metadata.name[:40].rstrip('-.')}-{operation.lower()}-{digest}"
