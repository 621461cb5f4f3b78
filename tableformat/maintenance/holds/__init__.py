"""Holds: named states of a table that outlive expiry until a date."""

from tableformat.maintenance.holds.planning import Hold, HoldPlan, HoldRefusal, plan_holds
from tableformat.maintenance.holds.run import apply_holds

__all__ = ["Hold", "HoldPlan", "HoldRefusal", "apply_holds", "plan_holds"]
