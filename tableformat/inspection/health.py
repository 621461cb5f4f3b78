"""A table's health in figures, as status and policies speak of it.

Pure arithmetic over the live files: what is healthy is the policy's business.
"""

from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from tableformat.inspection.applied_deletes import AppliedDeletes
from tableformat.inspection.partitions import global_specs, schema_of_spec
from tableformat.inspection.snapshot_files import Integers, SnapshotFiles, integers, snapshot_files

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
    delete_records: int = 0
    manifest_bytes: int = 0
    size_histogram: tuple[SizeBucket, ...] = ()
    """By powers of two, from the smallest to the largest; sizes without a file are left out."""
    worst_partitions: tuple[PartitionHealth, ...] = ()
    """Those with the most small files, which have the most to gain."""


def table_health(table: Table, *, small_file_bytes: int) -> TableHealth:
    """The figures of the table's current snapshot; a file is small below `small_file_bytes`."""
    snapshot = table.current_snapshot()
    files = snapshot_files(table.io, snapshot)
    sizes = integers(files.data, "size_bytes")
    is_equality = integers(files.deletes, "content") == DataFileContent.EQUALITY_DELETES.value
    vectors = len(files.deletes["content_offset"].drop_null())
    with_data = np.unique(integers(files.data, "partition"))
    applied = AppliedDeletes(files, global_specs=global_specs(table.metadata))
    return TableHealth(
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        data_files=len(sizes),
        small_files=int((sizes < small_file_bytes).sum()),
        data_bytes=int(sizes.sum()),
        records=int(integers(files.data, "records").sum()),
        delete_files=files.deletes.num_rows,
        snapshots=len(table.metadata.snapshots),
        manifests=len(files.manifests),
        median_file_bytes=int(np.sort(sizes)[(len(sizes) - 1) // 2]) if len(sizes) else 0,
        partitions=len(with_data),
        position_delete_files=files.deletes.num_rows - vectors - int(is_equality.sum()),
        equality_delete_files=int(is_equality.sum()),
        deletion_vectors=vectors,
        files_with_deletes=int((applied.deletes_of_file > 0).sum()),
        delete_records=int(integers(files.deletes, "records").sum()),
        manifest_bytes=sum(manifest.manifest_length for manifest in files.manifests),
        size_histogram=_histogram(sizes),
        worst_partitions=_worst_partitions(table, files, small_file_bytes),
    )


def _histogram(sizes: Integers) -> tuple[SizeBucket, ...]:
    _, exponents = np.frexp(sizes.astype(np.float64))
    found, counts = np.unique(exponents, return_counts=True)
    return tuple(
        SizeBucket(1 << exponent, count) for exponent, count in zip(found.tolist(), counts.tolist(), strict=True)
    )


def _worst_partitions(table: Table, files: SnapshotFiles, small_file_bytes: int) -> tuple[PartitionHealth, ...]:
    """Those with the most small files; of two that have as many, the one with the first name."""
    sizes, partitions = integers(files.data, "size_bytes"), integers(files.data, "partition")
    number = len(files.partitions)
    counts = np.bincount(partitions, minlength=number)
    small = np.bincount(partitions[sizes < small_file_bytes], minlength=number)
    total = np.zeros(number, np.int64)
    np.add.at(total, partitions, sizes)
    order = np.flatnonzero(counts)[np.argsort(-small[counts > 0], kind="stable")]
    least = small[order[:_WORST_PARTITIONS]].min() if len(order) else 0
    in_question = order[small[order] >= least][:_NAMED_PARTITIONS].tolist()
    named = sorted((-int(small[n]), _name(table, files, n), n) for n in in_question)
    return tuple(
        PartitionHealth(name, int(counts[n]), -minus, int(total[n])) for minus, name, n in named[:_WORST_PARTITIONS]
    )


def _name(table: Table, files: SnapshotFiles, partition: int) -> str:
    spec_id, values = int(files.partitions.spec_ids[partition]), files.partitions.record(partition)
    spec, schema = table.specs()[spec_id], schema_of_spec(table.metadata, spec_id)
    if not spec.fields:
        return ""
    return spec.partition_to_path(values, schema) if schema is not None else f"spec {spec_id}: {values}"
