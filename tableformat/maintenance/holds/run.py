"""Brings a table's holds to what is wanted, in one commit. Run again, it does nothing.

What is placed or released by name touches that one tag, whatever others do at the same time.
"""

import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from tableformat.commits.change import Change, commit_change, snapshots_still_there
from tableformat.errors import PermanentError
from tableformat.maintenance.holds.planning import Hold, HoldPlan, plan_holds


class HoldRefused(PermanentError):
    """The state cannot be held. Nothing was changed."""


def apply_holds(
    catalog: Catalog,
    identifier: Identifier,
    holds: Sequence[Hold],
    *,
    placed: Collection[str] = (),
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> HoldPlan:
    """What was done; holds that had to be refused are in it, and do not keep the others from being set.

    Of the names in `placed`, which whoever asks has set before, those that are not wanted any more are released.
    """
    done: list[HoldPlan] = []

    def prepare(table: Table) -> Change | None:
        plan = plan_holds(".".join(identifier), table.metadata, holds, placed=placed, now=now)
        if plan.is_empty and done:
            return None  # landed, though its answer was lost: what it did is known already
        done[:] = [plan]
        return None if plan.is_empty else _change(table, plan)

    commit_change(catalog, identifier, prepare, sleep=sleep)
    return done[0]


def place_hold(
    catalog: Catalog,
    identifier: Identifier,
    hold: Hold,
    *,
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """The snapshot that is held. Raises `HoldRefused` if it cannot be, now or at all."""
    done = apply_holds(catalog, identifier, [hold], now=now, sleep=sleep)
    name = ".".join(identifier)
    for refusal in done.refusals:
        raise HoldRefused(f"table {name}: {refusal.hold}: {refusal.reason}")
    ref = catalog.load_table(identifier).metadata.refs.get(hold.tag)
    if done.pending or hold.until <= now or ref is None:
        reason = "its time is still to come" if done.pending else "it is over already"
        raise HoldRefused(f"table {name}: {hold.name}: {reason}, and nothing is held")
    return ref.snapshot_id


def release_hold(
    catalog: Catalog,
    identifier: Identifier,
    name: str,
    *,
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Whether there was such a hold."""
    return not apply_holds(catalog, identifier, [], placed=[name], now=now, sleep=sleep).is_empty


def _change(table: Table, plan: HoldPlan) -> Change:
    refs = table.metadata.refs
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=tag) for tag in plan.to_release]
    updates += [
        SetSnapshotRefUpdate(
            ref_name=held.tag,
            type=SnapshotRefType.TAG,
            snapshot_id=held.snapshot_id,
            max_ref_age_ms=held.max_ref_age_ms,
            max_snapshot_age_ms=None,
            min_snapshots_to_keep=None,
        )
        for held in plan.to_set
    ]
    touched = (*plan.to_release, *(held.tag for held in plan.to_set))
    return Change(
        tuple(updates),
        (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            *snapshots_still_there(table, *(held.snapshot_id for held in plan.to_set)),
            *(
                AssertRefSnapshotId(ref=tag, snapshot_id=refs[tag].snapshot_id if tag in refs else None)
                for tag in touched
            ),
        ),
    )
