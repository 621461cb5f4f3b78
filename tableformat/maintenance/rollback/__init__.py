"""Going back to an earlier state of a table, and publishing a staged one."""

from tableformat.maintenance.rollback.cherry_pick import CherryPickRefused, CherryPickResult, cherry_pick
from tableformat.maintenance.rollback.planning import (
    LostCommit,
    RollbackPlan,
    RollbackRefused,
    RollbackTarget,
    plan_rollback,
)
from tableformat.maintenance.rollback.run import RollbackResult, roll_back

__all__ = [
    "CherryPickRefused",
    "CherryPickResult",
    "LostCommit",
    "RollbackPlan",
    "RollbackRefused",
    "RollbackResult",
    "RollbackTarget",
    "cherry_pick",
    "plan_rollback",
    "roll_back",
]
