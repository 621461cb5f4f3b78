"""A table's health in figures, as status and policies speak of it.

Pure arithmetic over the live files: what is healthy is the policy's business.
"""

from dataclasses import dataclass
from statistics import median_low

from pyiceberg.table import Table

from tableformat.inspection.files import SnapshotFiles, snapshot_files


@dataclass(frozen=True)
class TableHealth:
    snapshot_id: int | None
    data_files: int
    small_files: int
    data_bytes: int
    records: int
    delete_files: int
    snapshots: int
    manifests: int
    median_file_bytes: int
    partitions: int


def table_health(table: Table, *, small_file_bytes: int) -> TableHealth:
    """The figures of the table's current snapshot; a file is small below `small_file_bytes`."""
    snapshot = table.current_snapshot()
    files = SnapshotFiles((), (), ()) if snapshot is None else snapshot_files(table.io, snapshot)
    sizes = [file.size_bytes for file in files.data]
    return TableHealth(
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        data_files=len(sizes),
        small_files=sum(size < small_file_bytes for size in sizes),
        data_bytes=sum(sizes),
        records=sum(file.records for file in files.data),
        delete_files=len(files.deletes),
        snapshots=len(table.metadata.snapshots),
        manifests=len(files.manifests),
        median_file_bytes=median_low(sizes) if sizes else 0,
        partitions=len({file.partition_key for file in files.data}),
    )
