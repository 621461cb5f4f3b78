"""Row retention: rows that are too old leave the table, whole files at a time."""

from tableformat.maintenance.retention.planning import RowRetentionOptions, RowRetentionPlan, plan_row_retention
from tableformat.maintenance.retention.run import RowRetentionResult, remove_old_rows

__all__ = ["RowRetentionOptions", "RowRetentionPlan", "RowRetentionResult", "plan_row_retention", "remove_old_rows"]
