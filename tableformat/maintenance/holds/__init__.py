"""Holds: named states of a table that outlive expiry until a date."""

from tableformat.maintenance.holds.planning import Hold, HoldPlan, HoldRefusal, plan_holds
from tableformat.maintenance.holds.run import HoldRefused, apply_holds, place_hold, release_hold

__all__ = ["Hold", "HoldPlan", "HoldRefusal", "HoldRefused", "apply_holds", "place_hold", "plan_holds", "release_hold"]
