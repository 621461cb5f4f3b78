"""Orphan files: what a table's folders hold and no snapshot leads to."""

from tableformat.maintenance.orphans.options import OrphanAction, OrphanOptions, PrefixMismatch
from tableformat.maintenance.orphans.planning import OrphanPlan, plan_orphans
from tableformat.maintenance.orphans.run import OrphanResult, remove_orphans

__all__ = [
    "OrphanAction",
    "OrphanOptions",
    "OrphanPlan",
    "OrphanResult",
    "PrefixMismatch",
    "plan_orphans",
    "remove_orphans",
]
