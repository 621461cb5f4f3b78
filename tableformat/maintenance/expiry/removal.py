"""How snapshots leave a table's metadata, as Iceberg's specification has it, and in linear time.

PyIceberg applies the same update in quadratic time, forgets partition statistics, and leaves gaps in the snapshot log:
with an entry missing in the middle, time travel would answer for that time with the snapshot before it, with rows that
were not the table's. By the specification, every entry before a removed snapshot's goes as well. This update is
PyIceberg's own to everybody else, a REST catalog included.
"""

from collections.abc import Set
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import RemoveSnapshotsUpdate, _apply_table_update, _TableMetadataUpdateContext


class RemoveSnapshots(RemoveSnapshotsUpdate):
    """Applied by the function below."""


@_apply_table_update.register(RemoveSnapshots)
def _(update: RemoveSnapshots, base_metadata: TableMetadata, context: _TableMetadataUpdateContext) -> TableMetadata:
    gone = frozenset(update.snapshot_ids)
    there = {snapshot.snapshot_id for snapshot in base_metadata.snapshots}
    if unknown := gone - there:
        raise ValueError(f"Snapshots to remove do not exist: {sorted(unknown)}")
    context.add_update(update)
    refs = {name: ref for name, ref in base_metadata.refs.items() if ref.snapshot_id not in gone}
    changes: dict[str, Any] = {
        "snapshots": [each for each in base_metadata.snapshots if each.snapshot_id not in gone],
        "snapshot_log": _log_without(base_metadata.snapshot_log, there - gone),
        "statistics": [each for each in base_metadata.statistics if each.snapshot_id not in gone],
        "partition_statistics": [each for each in base_metadata.partition_statistics if each.snapshot_id not in gone],
        "refs": refs,
        "current_snapshot_id": base_metadata.current_snapshot_id if MAIN_BRANCH in refs else None,
    }
    return base_metadata.model_copy(update=changes)


def _log_without(entries: list[SnapshotLogEntry], there: Set[int]) -> list[SnapshotLogEntry]:
    log: list[SnapshotLogEntry] = []
    for entry in entries:
        if entry.snapshot_id in there:
            log.append(entry)
        else:
            log.clear()
    return log
