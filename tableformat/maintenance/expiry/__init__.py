"""Snapshot expiry: which snapshots go, the commit, and the files that nothing leads to any more."""

from tableformat.maintenance.expiry.options import ExpiryOptions
from tableformat.maintenance.expiry.planning import ExpiryPlan, plan_expiry
from tableformat.maintenance.expiry.run import ExpiryResult, expire_snapshots

__all__ = ["ExpiryOptions", "ExpiryPlan", "ExpiryResult", "expire_snapshots", "plan_expiry"]
