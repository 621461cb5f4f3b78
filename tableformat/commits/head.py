"""Puts a snapshot on top of main: the loop that every operation has which commits one snapshot of its own making.

The snapshot is made anew for each attempt, from the table as it is then. It carries the run's id, by which a restarted
run, or one whose answer was lost, recognises that it is done.
"""

import time
from collections.abc import Callable
from typing import cast

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
)
from pyiceberg.typedef import Identifier

from tableformat.catalogs.next_in_order import NextInOrder
from tableformat.commits.change import Change, commit_change
from tableformat.commits.runs import snapshots_of_run
from tableformat.commits.written import WrittenFiles


def commit_on_main(
    catalog: Catalog,
    identifier: Identifier,
    make: Callable[[Table, Snapshot], Snapshot | None],
    *,
    run_id: str,
    sleep: Callable[[float], None] = time.sleep,
    written: WrittenFiles | None = None,
) -> Snapshot | None:
    """What the run has committed, now or earlier; nothing if there was nothing to be made of the table and its head.

    `written` is as in `commit_change`.
    """

    def prepare(table: Table) -> Change | None:
        head = table.current_snapshot()
        if head is None or snapshots_of_run(table.metadata, run_id):
            return None
        snapshot = make(table, head)
        return None if snapshot is None else on_main(table, snapshot)

    table = commit_change(catalog, identifier, prepare, sleep=sleep, written=written)
    made = snapshots_of_run(table.metadata, run_id)
    return made[-1] if made else None


def on_main(table: Table, snapshot: Snapshot) -> Change:
    """The new snapshot becomes main's, if main is still where it was."""
    move = move_main(table, snapshot.snapshot_id)
    return Change(
        (AddSnapshotUpdate(snapshot=snapshot), *move.updates), (*move.requirements, *_next_in_order(table, snapshot))
    )


def _next_in_order(table: Table, snapshot: Snapshot) -> tuple[TableRequirement, ...]:
    """As a requirement. A REST catalog understands Iceberg's own only, and looks to this by itself."""
    if isinstance(table.catalog, RestCatalog):
        return ()
    return (cast("TableRequirement", NextInOrder.of(snapshot)),)


def move_main(table: Table, snapshot_id: int) -> Change:
    """Main at another snapshot, if it is still where it was."""
    main = table.metadata.refs.get(MAIN_BRANCH)
    return Change(
        (
            SetSnapshotRefUpdate(
                ref_name=MAIN_BRANCH,
                type=SnapshotRefType.BRANCH,
                snapshot_id=snapshot_id,
                # The branch keeps its own retention: leaving these out would erase it.
                max_ref_age_ms=main.max_ref_age_ms if main else None,
                max_snapshot_age_ms=main.max_snapshot_age_ms if main else None,
                min_snapshots_to_keep=main.min_snapshots_to_keep if main else None,
            ),
        ),
        (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=main.snapshot_id if main else None),
        ),
    )
