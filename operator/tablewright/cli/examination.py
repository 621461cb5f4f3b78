"""Everything that `inspect` and `report` tell of a table: its health, its refs, and what each operation would save.

The plans are the operations' own, so what is promised here is what a run would do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef

from tableformat.errors import PermanentError
from tableformat.inspection import TableHealth, table_health
from tableformat.maintenance.compaction import CompactionOptions, plan_compaction
from tableformat.maintenance.expiry import ExpiryOptions, plan_expiry
from tableformat.maintenance.manifests import ManifestOptions, plan_manifests
from tableformat.maintenance.orphans import OrphanOptions, plan_orphans
from tableformat.maintenance.summaries import PlanSummary, summarize
from tableformat.storage import open_store
from tablewright.cli.catalogs import AddressedTable
from tablewright.cli.running import declared_work, options_of, target_bytes


@dataclass(frozen=True)
class Saving:
    operation: str
    plan: PlanSummary | None
    note: str
    """Why there is no plan, if there is none."""

    @property
    def told(self) -> str:
        """The note, or that there is nothing to do."""
        idle = self.plan is not None and not (self.plan.files or self.plan.snapshots)
        return "nothing to do" if idle else self.note


@dataclass(frozen=True)
class Examination:
    name: str
    location: str
    format_version: int
    target_file_bytes: int
    small_below: int
    """Of how many bytes: what has fewer counts as a small file."""
    health: TableHealth
    refs: dict[str, SnapshotRef]
    savings: tuple[Saving, ...]


def examine(found: AddressedTable, *, now: datetime, orphans: bool = False) -> Examination:
    """`orphans` lists the table's folders as well, which takes long where they are large."""
    table = found.load()
    known = {"target_file_bytes": target_bytes(table), **declared_work(found, "Compact")}
    compaction = options_of(CompactionOptions, known, {})
    expiry = options_of(ExpiryOptions, declared_work(found, "ExpireSnapshots"), {})
    plans: dict[str, Callable[[], Any]] = {
        "Compact": lambda: plan_compaction(table, compaction, now=now),
        "ExpireSnapshots": lambda: plan_expiry(table, expiry, now=now),
        "RewriteManifests": lambda: plan_manifests(table, ManifestOptions()),
    }
    if orphans:
        options = options_of(OrphanOptions, declared_work(found, "RemoveOrphanFiles"), {})
        store = open_store(table.io)
        plans["RemoveOrphanFiles"] = lambda: plan_orphans(
            found.catalog, found.identifier, options, now=now, store=store
        )[1]
    return Examination(
        name=found.name,
        location=table.location(),
        format_version=int(table.metadata.format_version),
        target_file_bytes=compaction.target_file_bytes,
        small_below=compaction.small_below,
        health=table_health(table, small_file_bytes=compaction.small_below, with_metadata_bytes=True),
        refs=dict(sorted(table.metadata.refs.items())),
        savings=tuple(_saving(table, operation, plan) for operation, plan in plans.items()),
    )


def _saving(table: Table, operation: str, plan: Callable[[], Any]) -> Saving:
    if table.current_snapshot() is None:
        return Saving(operation, None, "the table is empty")
    try:
        return Saving(operation, summarize(plan()), "")
    except PermanentError as error:
        return Saving(operation, None, str(error))
