"""Row retention: rows that are too old leave the table, whole files at a time."""

from tableformat.maintenance.retention.planning import RetentionOptions, RetentionPlan, plan_row_retention
from tableformat.maintenance.retention.run import RetentionResult, remove_old_rows

__all__ = ["RetentionOptions", "RetentionPlan", "RetentionResult", "plan_row_retention", "remove_old_rows"]
