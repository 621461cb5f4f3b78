"""Compaction: few files of a good size instead of many small ones, with the same rows."""

from tableformat.engine import RewriteResult, RewriteTask
from tableformat.maintenance.compaction.options import CompactionOptions
from tableformat.maintenance.compaction.planning import CompactionPlan, plan_compaction
from tableformat.maintenance.compaction.run import CompactionResult, Progress, compact

__all__ = [
    "CompactionOptions",
    "CompactionPlan",
    "CompactionResult",
    "Progress",
    "RewriteResult",
    "RewriteTask",
    "compact",
    "plan_compaction",
]
