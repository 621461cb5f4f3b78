"""A table's health in figures, as status, people and policies speak of it.

Pure arithmetic over the live files: what is healthy is the policy's business. What compaction would save is an estimate
that costs no plan: every partition's small files become files of the target size, and deletes are applied.
"""

from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.applied_deletes import AppliedDeletes
from tableformat.inspection.partitions import global_specs, partition_path, schema_of_spec
from tableformat.inspection.snapshot_files import Integers, SnapshotFiles, integers, snapshot_files
from tableformat.inspection.targets import target_of

_WORST_PARTITIONS = 10
_NAMED_PARTITIONS = 1000  # partitions that are as bad as each other are sorted by name, unless they are too many


@dataclass(frozen=True)
class SizeBucket:
    """Data files of fewer than `below_bytes`, and of at least half as many."""

    below_bytes: int
    files: int


@dataclass(frozen=True)
class PartitionHealth:
    partition: str
    data_files: int
    small_files: int
    data_bytes: int
    files_saved: int = 0
    """How many data files fewer there would be after a compaction."""
    files_with_deletes: int = 0


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
    position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    files_with_deletes: int = 0
    """Data files whose readers have to look into delete files."""
    records_with_deletes: int = 0
    """The rows of those data files, deleted or not."""
    deleted_records: int = 0
    """About how many of the rows are deleted: no delete file says of how many files it deletes rows."""
    delete_records: int = 0
    old_spec_files: int = 0
    """Data files in partitions of a spec that is not the current one."""
    manifest_bytes: int = 0
    metadata_bytes: int = 0
    """Of the metadata file and the manifest list, if they were asked for."""
    read_amplification: float = 1.0
    """Files that a full scan opens, a delete file for each data file that needs it, for each file that it would open
    after a compaction."""
    requests_saved: int = 0
    """Files that a full scan would not have to open any more after a compaction."""
    bytes_saved: int = 0
    """About how many bytes a full scan would not have to read any more: deleted rows, and delete files each time."""
    size_histogram: tuple[SizeBucket, ...] = ()
    """By powers of two, from the smallest to the largest; sizes without a file are left out."""
    worst_partitions: tuple[PartitionHealth, ...] = ()
    """Those with the most to gain from a compaction."""


def table_health(table: Table, *, small_file_bytes: int, with_metadata_bytes: bool = False) -> TableHealth:
    """The figures of the table's current snapshot; a file is small below `small_file_bytes`, which is three quarters of
    the size that it should have. The size of the metadata costs two requests more."""
    snapshot = table.current_snapshot()
    files = snapshot_files(table.io, snapshot)
    sizes, records = integers(files.data, "size_bytes"), integers(files.data, "records")
    applied = AppliedDeletes(files, global_specs=global_specs(table.metadata))
    burdened = applied.deletes_of_file > 0
    is_equality = integers(files.deletes, "content") == DataFileContent.EQUALITY_DELETES.value
    vectors = len(files.deletes["content_offset"].drop_null())
    partitions = _Partitions(files, applied, small_file_bytes)
    saved, opened = int(partitions.files_saved.sum()), int(applied.deletes_of_file.sum())
    deleted = np.minimum(applied.deleted_rows, records)
    dead_bytes = float((sizes * deleted / np.maximum(1, records)).sum())
    delete_bytes = int((integers(files.deletes, "size_bytes") * applied.files_reached).sum())
    return TableHealth(
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        data_files=len(sizes),
        small_files=int((sizes < small_file_bytes).sum()),
        data_bytes=int(sizes.sum()),
        records=int(records.sum()),
        delete_files=files.deletes.num_rows,
        snapshots=len(table.metadata.snapshots),
        manifests=len(files.manifests),
        median_file_bytes=int(np.sort(sizes)[(len(sizes) - 1) // 2]) if len(sizes) else 0,
        partitions=int((partitions.data_files > 0).sum()),
        position_delete_files=files.deletes.num_rows - vectors - int(is_equality.sum()),
        equality_delete_files=int(is_equality.sum()),
        deletion_vectors=vectors,
        files_with_deletes=int(burdened.sum()),
        records_with_deletes=int(records[burdened].sum()),
        deleted_records=round(float(deleted.sum())),
        delete_records=int(integers(files.deletes, "records").sum()),
        old_spec_files=_files_of_old_specs(table, files),
        manifest_bytes=sum(manifest.manifest_length for manifest in files.manifests),
        metadata_bytes=_metadata_bytes(table, snapshot) if with_metadata_bytes else 0,
        read_amplification=round((len(sizes) + opened) / (len(sizes) - saved), 2) if len(sizes) else 1.0,
        requests_saved=saved + opened,
        bytes_saved=round(dead_bytes) + delete_bytes,
        size_histogram=_histogram(sizes),
        worst_partitions=partitions.worst(table, files),
    )


def _files_of_old_specs(table: Table, files: SnapshotFiles) -> int:
    is_old = np.asarray(files.partitions.spec_ids) != table.metadata.default_spec_id
    return int(is_old[integers(files.data, "partition")].sum()) if len(is_old) else 0


def _metadata_bytes(table: Table, snapshot: Snapshot | None) -> int:
    of_list = 0 if snapshot is None else len(table.io.new_input(snapshot.manifest_list))
    return len(table.io.new_input(table.metadata_location)) + of_list


def _histogram(sizes: Integers) -> tuple[SizeBucket, ...]:
    _, exponents = np.frexp(sizes.astype(np.float64))
    found, counts = np.unique(exponents, return_counts=True)
    return tuple(
        SizeBucket(1 << exponent, count) for exponent, count in zip(found.tolist(), counts.tolist(), strict=True)
    )


class _Partitions:
    """A figure for each partition, by its number. Those that have nothing but deletes have no data files."""

    def __init__(self, files: SnapshotFiles, applied: AppliedDeletes, small_file_bytes: int) -> None:
        sizes, partitions = integers(files.data, "size_bytes"), integers(files.data, "partition")
        number, is_small = len(files.partitions), sizes < small_file_bytes
        self.data_files = np.bincount(partitions, minlength=number)
        self.small_files = np.bincount(partitions[is_small], minlength=number)
        self.data_bytes = np.bincount(partitions, sizes, minlength=number)
        self.with_deletes = np.bincount(partitions[applied.deletes_of_file > 0], minlength=number)
        small_bytes = np.bincount(partitions[is_small], sizes[is_small], minlength=number)
        remaining = np.maximum(1, np.round(small_bytes / max(1.0, target_of(small_file_bytes)))).astype(np.int64)
        self.files_saved = np.maximum(0, self.small_files - remaining)

    def worst(self, table: Table, files: SnapshotFiles) -> tuple[PartitionHealth, ...]:
        gain = self.files_saved + self.with_deletes
        order = np.flatnonzero(self.data_files)
        order = order[np.lexsort((-self.small_files[order], -gain[order]))]
        # Of those that would gain as much, the first by name; names are made for as few as need be.
        least = int(gain[order[:_WORST_PARTITIONS]].min()) if len(order) else 0
        found = [
            (-int(gain[number]), -int(self.small_files[number]), _name(table, files, number), number)
            for number in order[gain[order] >= least][:_NAMED_PARTITIONS].tolist()
        ]
        return tuple(
            PartitionHealth(
                name,
                int(self.data_files[number]),
                int(self.small_files[number]),
                int(self.data_bytes[number]),
                int(self.files_saved[number]),
                int(self.with_deletes[number]),
            )
            for _, _, name, number in sorted(found)[:_WORST_PARTITIONS]
        )


def _name(table: Table, files: SnapshotFiles, partition: int) -> str:
    spec_id, values = int(files.partitions.spec_ids[partition]), files.partitions.record(partition)
    spec, schema = table.specs()[spec_id], schema_of_spec(table.metadata, spec_id)
    if not spec.fields:
        return ""
    return partition_path(spec, values, schema) if schema is not None else f"spec {spec_id}: {values}"
