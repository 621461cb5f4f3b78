"""What a report tells of a table."""

from dataclasses import dataclass

from tableformat.inspection.history import HistoryEntry
from tablewright.api.conditions import Condition
from tablewright.api.run import MaintenanceRun
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
