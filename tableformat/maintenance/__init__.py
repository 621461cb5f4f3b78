"""Maintenance of tables: each operation plans first, into values that can be printed, and then runs its plan."""

from tableformat.maintenance.errors import UnsupportedTable
from tableformat.maintenance.executor import Executor, InProcessExecutor

__all__ = ["Executor", "InProcessExecutor", "UnsupportedTable"]
