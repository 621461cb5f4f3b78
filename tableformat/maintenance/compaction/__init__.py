"""Compaction: few files of a good size instead of many small ones, with the same rows."""

from tableformat.engine import RewriteResult, RewriteTask
from tableformat.maintenance.compaction.options import CompactionOptions, OrderColumn, Strategy
from tableformat.maintenance.compaction.planning import CompactionPlan, plan_compaction
from tableformat.maintenance.compaction.run import CompactionResult, Progress, compact, compacted_so_far

__all__ = [
    "CompactionOptions",
    "CompactionPlan",
    "CompactionResult",
    "OrderColumn",
    "Progress",
    "RewriteResult",
    "RewriteTask",
    "Strategy",
    "compact",
    "compacted_so_far",
    "plan_compaction",
]
