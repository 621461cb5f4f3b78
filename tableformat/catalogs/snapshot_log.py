"""The log of a table's current snapshots, by which engines travel in time, after snapshots were removed.

By Iceberg's specification, every entry before a removed snapshot's goes as well: with a gap in the middle, a question
for that time would be answered by the snapshot before it, with rows that were not the table's. PyIceberg leaves gaps.
"""

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import SnapshotLogEntry


def log_without_gaps(before: TableMetadata, after: TableMetadata) -> list[SnapshotLogEntry]:
    """The log of `after`, which was made from `before` by removing snapshots, among other things."""
    there = {snapshot.snapshot_id for snapshot in after.snapshots}
    old = {(entry.snapshot_id, entry.timestamp_ms) for entry in before.snapshot_log}
    log: list[SnapshotLogEntry] = []
    added = [entry for entry in after.snapshot_log if (entry.snapshot_id, entry.timestamp_ms) not in old]
    for entry in (*before.snapshot_log, *added):
        if entry.snapshot_id in there:
            log.append(entry)
        else:
            log.clear()
    return log
