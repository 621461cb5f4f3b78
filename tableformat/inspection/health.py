"""A table's health in figures, as status and policies speak of it.

Pure arithmetic over the live files: what is healthy is the policy's business.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import median_low

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from tableformat.inspection.deletes import DeleteIndex
from tableformat.inspection.files import LiveFile, SnapshotFiles, snapshot_files
from tableformat.inspection.partitions import global_specs, schema_of_spec

_WORST_PARTITIONS = 10


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
    files = SnapshotFiles((), (), ()) if snapshot is None else snapshot_files(table.io, snapshot)
    sizes = [file.size_bytes for file in files.data]
    partitions = _partitions(table, files.data, small_file_bytes)
    vectors = [file for file in files.deletes if file.content_range is not None]
    equality = [file for file in files.deletes if file.content == DataFileContent.EQUALITY_DELETES]
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
        partitions=len(partitions),
        position_delete_files=len(files.deletes) - len(vectors) - len(equality),
        equality_delete_files=len(equality),
        deletion_vectors=len(vectors),
        files_with_deletes=_files_with_deletes(table, files),
        delete_records=sum(file.records for file in files.deletes),
        manifest_bytes=sum(manifest.manifest_length for manifest in files.manifests),
        size_histogram=_histogram(sizes),
        worst_partitions=tuple(partitions[:_WORST_PARTITIONS]),
    )


def _files_with_deletes(table: Table, files: SnapshotFiles) -> int:
    if not files.deletes:
        return 0
    index = DeleteIndex(files.deletes, global_specs=global_specs(table.metadata))
    return sum(bool(index.of(file)) for file in files.data)


def _histogram(sizes: Sequence[int]) -> tuple[SizeBucket, ...]:
    counts: dict[int, int] = defaultdict(int)
    for size in sizes:
        counts[1 << size.bit_length()] += 1
    return tuple(SizeBucket(below, counts[below]) for below in sorted(counts))


def _partitions(table: Table, data: Sequence[LiveFile], small_file_bytes: int) -> list[PartitionHealth]:
    """Every partition, the one with the most small files first."""
    members: dict[tuple[Hashable, ...], list[LiveFile]] = defaultdict(list)
    for file in data:
        members[file.partition_key].append(file)
    found = [
        (sum(file.size_bytes < small_file_bytes for file in files), _name(table, files[0]), files)
        for files in members.values()
    ]
    return [
        PartitionHealth(name, len(files), small, sum(file.size_bytes for file in files))
        for small, name, files in sorted(found, key=lambda entry: (-entry[0], entry[1]))
    ]


def _name(table: Table, file: LiveFile) -> str:
    spec, schema = table.specs()[file.spec_id], schema_of_spec(table.metadata, file.spec_id)
    if not spec.fields:
        return ""
    return (
        spec.partition_to_path(file.partition, schema)
        if schema is not None
        else f"spec {spec.spec_id}: {file.partition}"
    )
