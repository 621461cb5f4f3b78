"""Where a table's main branch was, and when: what its snapshot log tells.

The log has an entry for every move of main. It goes back as far as its snapshots: an expiry cuts what is older than the
youngest snapshot that it removes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.ancestry import ancestry


@dataclass(frozen=True)
class Period:
    """For how long a snapshot was the current one."""

    since: datetime
    until: datetime | None
    """None where it still is."""


@dataclass(frozen=True)
class RolledBack:
    """A move of main to a state that it had before, away from a snapshot that its history does not have afterwards."""

    time: datetime
    from_snapshot_id: int
    to_snapshot_id: int


def current_periods(metadata: TableMetadata) -> dict[int, tuple[Period, ...]]:
    """For each snapshot that was ever current, oldest first."""
    log = metadata.snapshot_log
    found: dict[int, tuple[Period, ...]] = {}
    for entry, following in zip_longest(log, log[1:]):
        until = None if following is None else _time(following.timestamp_ms)
        period = Period(_time(entry.timestamp_ms), until)
        found[entry.snapshot_id] = (*found.get(entry.snapshot_id, ()), period)
    return found


def rollbacks(metadata: TableMetadata) -> tuple[RolledBack, ...]:
    """Newest first."""
    return tuple(reversed(list(_rollbacks(metadata))))


def was_on_main(metadata: TableMetadata, snapshot_id: int) -> bool:
    """Whether the snapshot, or one that came from it, was ever current."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    seen: set[int] = set()
    for entry in metadata.snapshot_log:
        for snapshot in ancestry(entry.snapshot_id, by_id):
            if snapshot.snapshot_id in seen:
                break
            seen.add(snapshot.snapshot_id)
    return snapshot_id in seen


def _rollbacks(metadata: TableMetadata) -> Iterator[RolledBack]:
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    before: Snapshot | None = None
    seen: set[int] = set()
    for entry in metadata.snapshot_log:
        now = by_id.get(entry.snapshot_id)
        if before is not None and now is not None and now.parent_snapshot_id != before.snapshot_id:
            is_back = now.snapshot_id in seen or _place(now) < _place(before)
            if is_back and before not in ancestry(now.snapshot_id, by_id):
                yield RolledBack(_time(entry.timestamp_ms), before.snapshot_id, now.snapshot_id)
        seen.add(entry.snapshot_id)
        before = now


def _place(snapshot: Snapshot) -> tuple[int, int]:
    """In the order of commits; in format version 1 only times tell it."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
