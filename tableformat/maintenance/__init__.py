"""Maintenance of tables: each operation plans first, into values that can be printed, and then runs its plan."""

from tableformat.maintenance.errors import UnsupportedTable
from tableformat.maintenance.executor import Executor, FailedTask, InProcessExecutor, Outcome, Outcomes, attempt

__all__ = ["Executor", "FailedTask", "InProcessExecutor", "Outcome", "Outcomes", "UnsupportedTable", "attempt"]
