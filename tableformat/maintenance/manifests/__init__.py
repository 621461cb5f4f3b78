"""Few manifests of a good size, ordered by partition, in the place of many small ones."""

from tableformat.maintenance.manifests.planning import ManifestGroup, ManifestOptions, ManifestPlan, plan_manifests
from tableformat.maintenance.manifests.run import ManifestResult, rewrite_manifests

__all__ = ["ManifestGroup", "ManifestOptions", "ManifestPlan", "ManifestResult", "plan_manifests", "rewrite_manifests"]
