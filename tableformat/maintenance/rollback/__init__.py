"""Going back to an earlier state of a table, and publishing a staged one."""

from tableformat.maintenance.rollback.cherry_pick import CherryPickResult, cherry_pick
from tableformat.maintenance.rollback.cherry_pick_planning import (
    CherryPickPlan,
    CherryPickRefused,
    PickWay,
    plan_cherry_pick,
)
from tableformat.maintenance.rollback.planning import (
    LostCommit,
    RollbackOptions,
    RollbackPlan,
    RollbackRefused,
    plan_rollback,
)
from tableformat.maintenance.rollback.run import RollbackResult, roll_back

__all__ = [
    "CherryPickPlan",
    "CherryPickRefused",
    "CherryPickResult",
    "LostCommit",
    "PickWay",
    "RollbackOptions",
    "RollbackPlan",
    "RollbackRefused",
    "RollbackResult",
    "cherry_pick",
    "plan_cherry_pick",
    "plan_rollback",
    "roll_back",
]
