"""Rewrites manifests: plan, write, commit. A commit that took none of the planned manifests away is no conflict.

Killed at any point and run again with the same run id, it ends in the same state. A run that fails removes what it
wrote; what a killed one wrote is left to the removal of orphans.
"""

import logging
import time
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits.head import commit_on_main
from tableformat.commits.manifest_rewrite import (
    MergedManifests,
    RewrittenManifests,
    rewrite_manifests_of,
    snapshot_with,
)
from tableformat.commits.runs import summary_of, summary_of_run
from tableformat.commits.written import WrittenFiles
from tableformat.inspection import manifest_first_row_id, read_manifests
from tableformat.maintenance.guards import reading
from tableformat.maintenance.manifests.planning import ManifestOptions, ManifestPlan, plan_manifests

logger = logging.getLogger(__name__)


class ManifestResult(BaseModel):
    """What a run did; JSON on the way to whoever asked for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    manifests_replaced: int = 0
    manifests_written: int = 0
    entries: int = 0
    snapshot_id: int | None = None


def rewrite_manifests(
    catalog: Catalog,
    identifier: Identifier,
    options: ManifestOptions,
    *,
    run_id: str,
    run_name: str = "",
    sleep: Callable[[float], None] = time.sleep,
    planned: Callable[[ManifestPlan], None] = lambda _: None,
) -> ManifestResult:
    """Rewrite the manifests of the table's main branch; a table in good shape is left as it is."""
    run = _Run(options, run_id, run_name, planned)
    made = commit_on_main(catalog, identifier, run.snapshot, run_id=run_id, sleep=sleep, written=run.written)
    if made is None:
        return ManifestResult()
    summary = summary_of(made)
    return ManifestResult(
        manifests_replaced=int(summary.get("manifests-replaced", "0")),
        manifests_written=int(summary.get("manifests-created", "0")),
        entries=int(summary.get("entries-processed", "0")),
        snapshot_id=made.snapshot_id,
    )


class _Run:
    def __init__(
        self, options: ManifestOptions, run_id: str, run_name: str, planned: Callable[[ManifestPlan], None]
    ) -> None:
        self._options = options
        self._run_id = run_id
        self._of_run = summary_of_run(run_id, run_name)
        self._planned = planned
        self.written = WrittenFiles()
        self._rewritten: RewrittenManifests | None = None

    def snapshot(self, table: Table, head: Snapshot) -> Snapshot | None:
        """The next one; manifests that an earlier attempt wrote serve again if those that they replace are there."""
        with reading(table):
            return self._snapshot(table, head)

    def _snapshot(self, table: Table, head: Snapshot) -> Snapshot | None:
        current = read_manifests(table.io, head)
        there = {manifest.manifest_path: manifest_first_row_id(manifest) for manifest in current}
        if self._rewritten is None or not self._rewritten.replaced.items() <= there.items():
            plan = plan_manifests(table, self._options)
            logger.info("%s", plan, extra={"table": plan.table, "run": self._run_id, "snapshot": plan.snapshot_id})
            self._planned(plan)
            if plan.is_empty:
                return None
            groups = [
                MergedManifests(group.spec_id, group.content, group.manifests, group.target_bytes)
                for group in plan.groups
            ]
            self._rewritten = rewrite_manifests_of(table, groups, self.written)
        return snapshot_with(table, head, current, self._rewritten, self.written, of_run=self._of_run)
