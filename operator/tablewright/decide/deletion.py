"""What happens to a table whose object is being deleted. The finalizer must never hold the object for ever."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tablewright.api.run import MaintenanceRun
from tablewright.api.table import DeletionPolicy, ManagedTable, ManagementPolicy
from tablewright.decide.claims import claimant
from tablewright.decide.state import CatalogUnusable, TableObservation, TablePresent, TableUnreadable

FINALIZER = "tablewright.dev/table"
LONGEST_HOLD = timedelta(minutes=15)  # after that the object goes, and the table stays: nothing is lost by that
RETRY = timedelta(seconds=5)


@dataclass(frozen=True)
class DropTable:
    """Remove the pointer, and the files too if `purge`."""

    purge: bool
    uuid: str  # of the table that is meant: another one may have its name by the time it goes
    left_at: str | None = None  # the metadata file of a table that is dropped already, and not purged to its end


@dataclass(frozen=True)
class DeletionDecision:
    stop_runs: tuple[str, ...] = ()
    drop: DropTable | None = None
    release: bool = False  # let the object go
    note: str = ""  # for the log and the event
    look_again_at: datetime | None = None


def wants_finalizer(table: ManagedTable) -> bool:
    """Whether the object's deletion has anything to do with the table."""
    observes = table.spec.management_policy is ManagementPolicy.OBSERVE_ONLY  # which changes nothing
    return not observes and table.spec.deletion_policy is not DeletionPolicy.RETAIN


def decide_deletion(
    table: ManagedTable,
    observed: TableObservation,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    *,
    waits_since: datetime | None = None,
    claimed_by: ManagedTable | None = None,
) -> DeletionDecision:
    """`waits_since` is when it was first found to have to wait, if it was. `claimed_by` is an older object that has the
    same table: it must not lose it to this one's deletion."""
    identity = table.status.identity
    if claimed_by is not None:
        rival = claimant(claimed_by, seen_from=table)
        return DeletionDecision(release=True, note=f"the table is the older ManagedTable {rival}'s; it is left alone")
    if not wants_finalizer(table) or identity is None:
        return DeletionDecision(release=True, note="the table is retained")
    if isinstance(observed, CatalogUnusable) and observed.reason == "CatalogNotFound":
        return DeletionDecision(release=True, note=f"{observed.message}; the table is left as it is")
    if isinstance(observed, CatalogUnusable | TableUnreadable):
        return deletion_waits(observed.message, waits_since, now)
    purge = table.spec.deletion_policy is DeletionPolicy.PURGE
    if isinstance(observed, TablePresent):
        if str(observed.metadata.table_uuid) != identity.uuid:
            note = "the catalog has another table under this name; it is left alone"
            return DeletionDecision(release=True, note=note)
        drop = DropTable(purge, identity.uuid)
    elif purge and table.status.purging is not None:
        drop = DropTable(purge, identity.uuid, left_at=table.status.purging)
    else:
        return DeletionDecision(release=True, note="the table is no longer in the catalog")
    unfinished = tuple(run.metadata.name for run in runs if not run.status.is_finished)
    if unfinished:
        return _stopping(unfinished, waits_since, now)
    return DeletionDecision(drop=drop, release=True)


def _stopping(runs: tuple[str, ...], since: datetime | None, now: datetime) -> DeletionDecision:
    """Somebody else's finalizer may keep a run that was stopped, and must not keep the table's object with it."""
    waits = deletion_waits(f"still there, though stopped: {', '.join(runs)}", since, now)
    return waits if waits.release else DeletionDecision(stop_runs=runs, look_again_at=waits.look_again_at)


def deletion_waits(obstacle: str, since: datetime | None, now: datetime) -> DeletionDecision:
    """The table cannot be looked at or dropped: that is tried again for a while, and not for ever.

    The while does not begin with the object's deletion: nobody may have been there to try, and to delete the files of
    a large table may take longer by itself.
    """
    if since is not None and now - since > LONGEST_HOLD:
        return DeletionDecision(release=True, note=f"{obstacle}; given up, what is left of the table stays")
    return DeletionDecision(note=obstacle, look_again_at=now + RETRY)
