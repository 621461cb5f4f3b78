"""Rewrites manifests: plan, write, commit. A commit that took none of the planned manifests away is no conflict.

Killed at any point and run again with the same run id, it ends in the same state; what it had written without being
committed is left to the removal of orphans.
"""

import logging
import time
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change
from tableformat.commits.manifest_rewrite import RewrittenManifests, rewrite_manifests_of, snapshot_with
from tableformat.commits.runs import snapshots_of_run
from tableformat.inspection import read_manifests
from tableformat.maintenance.manifests.planning import ManifestOptions, plan_manifests

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
    sleep: Callable[[float], None] = time.sleep,
) -> ManifestResult:
    """Rewrite the manifests of the table's main branch; a table in good shape is left as it is."""
    run = _Run(options, run_id)
    table = commit_change(catalog, identifier, run.prepare, sleep=sleep)
    made = snapshots_of_run(table.metadata, run_id)
    if not made:
        return ManifestResult()
    summary = made[-1].summary.additional_properties if made[-1].summary else {}
    return ManifestResult(
        manifests_replaced=int(summary.get("manifests-replaced", "0")),
        manifests_written=int(summary.get("manifests-created", "0")),
        entries=int(summary.get("entries-processed", "0")),
        snapshot_id=made[-1].snapshot_id,
    )


class _Run:
    def __init__(self, options: ManifestOptions, run_id: str) -> None:
        self._options = options
        self._run_id = run_id
        self._rewritten: RewrittenManifests | None = None

    def prepare(self, table: Table) -> Change | None:
        head = table.current_snapshot()
        if head is None or snapshots_of_run(table.metadata, self._run_id):
            return None
        current = read_manifests(table.io, head)
        there = {manifest.manifest_path for manifest in current}
        if self._rewritten is None or not self._rewritten.replaced <= there:
            plan = plan_manifests(table, self._options)
            logger.info("%s", plan, extra={"table": plan.table, "run": self._run_id, "snapshot": plan.snapshot_id})
            if plan.is_empty:
                return None
            groups = [(group.spec_id, group.content, group.manifests, group.expected) for group in plan.groups]
            self._rewritten = rewrite_manifests_of(table, groups)
        snapshot = snapshot_with(table, head, current, self._rewritten, run_id=self._run_id)
        main = table.metadata.refs[MAIN_BRANCH]
        return Change(
            (
                AddSnapshotUpdate(snapshot=snapshot),
                SetSnapshotRefUpdate(
                    ref_name=MAIN_BRANCH,
                    type=SnapshotRefType.BRANCH,
                    snapshot_id=snapshot.snapshot_id,
                    # The branch keeps its own retention: leaving these out would erase it.
                    max_ref_age_ms=main.max_ref_age_ms,
                    max_snapshot_age_ms=main.max_snapshot_age_ms,
                    min_snapshots_to_keep=main.min_snapshots_to_keep,
                ),
            ),
            (
                AssertTableUUID(uuid=table.metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id),
            ),
        )
