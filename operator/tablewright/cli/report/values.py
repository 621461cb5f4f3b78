"""What a report tells of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tableformat.inspection.history import HistoryEntry
from tablewright.api.conditions import Condition
from tablewright.api.run import MaintenanceRun, Operation, RunFigures
from tablewright.cli.examination import Examination


@dataclass(frozen=True)
class ReportedTable:
    name: str
    examination: Examination | None
    """None where the table is not there, or cannot be read; `problem` says why."""
    problem: str = ""
    conditions: tuple[Condition, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    runs: tuple[MaintenanceRun, ...] = ()
    """The newest first."""


@dataclass(frozen=True)
class Maintained:
    """A table before the first of its runs that are remembered, and after the last; and what they freed."""

    before: RunFigures
    after: RunFigures
    since: datetime
    until: datetime
    runs: int
    deleted_files: int
    deleted_bytes: int

    @property
    def requests_saved(self) -> int:
        """That a full scan does not make any more: one a file."""
        before, after = (figures.data_files + figures.delete_files for figures in (self.before, self.after))
        return before - after


def maintained(runs: Sequence[MaintenanceRun]) -> Maintained | None:
    """None where no run is remembered that changed something, or might have, and took the table's figures.

    To go back, or to publish a snapshot, is no maintenance.
    """
    runs = [run for run in runs if run.spec.operation not in (Operation.ROLLBACK, Operation.CHERRY_PICK)]
    known = sorted(
        (
            (status.start_time, status.completion_time, status.before, status.after)
            for status in (run.status for run in runs)
            if status.start_time and status.completion_time and status.before and status.after
        ),
        key=lambda each: each[0],
    )
    if not known:
        return None
    results = [run.status.result for run in runs if run.status.result is not None]
    return Maintained(
        before=known[0][2],
        after=known[-1][3],
        since=known[0][0],
        until=known[-1][1],
        runs=len(known),
        deleted_files=sum(result.deleted_files for result in results),
        deleted_bytes=sum(result.deleted_bytes for result in results),
    )
