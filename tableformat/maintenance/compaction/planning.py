"""Decides which files a compaction rewrites, and together with which others.

Pure over the snapshot's files: the same snapshot and options give the same plan. Files meet only files of their own
partition and spec. A group is planned only if fewer, better files come out of it than go in, so that a second plan on
a quiet table is empty.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tableformat.engine import RewriteTask, SourceFile
from tableformat.engine.sizing import files_for
from tableformat.inspection import LiveFile, schema_of_spec, snapshot_files
from tableformat.maintenance.compaction.eligibility import require_rewritable, require_rewritable_file
from tableformat.maintenance.compaction.options import CompactionOptions


@dataclass(frozen=True)
class CompactionPlan:
    """What would be rewritten, as of one snapshot."""

    table: str
    snapshot_id: int | None
    tasks: tuple[RewriteTask, ...] = ()
    expected_files: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.tasks

    @property
    def source_files(self) -> int:
        return sum(len(task.sources) for task in self.tasks)

    @property
    def source_bytes(self) -> int:
        return sum(task.source_bytes for task in self.tasks)

    @property
    def source_records(self) -> int:
        return sum(task.source_records for task in self.tasks)

    def __str__(self) -> str:
        if self.is_empty:
            return f"compaction of {self.table}: nothing to do"
        partitions = len({(task.spec.spec_id, task.partition_path) for task in self.tasks})
        return (
            f"compaction of {self.table} at snapshot {self.snapshot_id}: {self.source_files} files "
            f"({self.source_bytes} bytes, {self.source_records} rows) in {partitions} partitions become about "
            f"{self.expected_files}, in {len(self.tasks)} tasks"
        )


@dataclass(frozen=True)
class _Group:
    files: tuple[LiveFile, ...]
    expected_files: int

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def files_saved(self) -> int:
        return len(self.files) - self.expected_files


def plan_compaction(table: Table, options: CompactionOptions, *, now: datetime) -> CompactionPlan:  # noqa: ARG001
    """The plan for the table's current snapshot. Raises `UnsupportedTable` where a rewrite could not be exact."""
    name, snapshot = ".".join(table.name()), table.current_snapshot()
    if snapshot is None:
        return CompactionPlan(name, None)
    files = snapshot_files(table.io, snapshot)
    require_rewritable(table, files)
    groups = _within(options.max_bytes_per_run, sorted(_groups(files.data, options), key=_benefit))
    for group in groups:
        for file in group.files:
            require_rewritable_file(table, file)
    return CompactionPlan(
        name,
        snapshot.snapshot_id,
        tasks=tuple(_task(table, group, number, options) for number, group in enumerate(groups)),
        expected_files=sum(group.expected_files for group in groups),
    )


def _groups(files: Iterable[LiveFile], options: CompactionOptions) -> list[_Group]:
    partitions: dict[tuple[Hashable, ...], list[LiveFile]] = defaultdict(list)
    for file in files:
        if not options.small_below <= file.size_bytes <= options.large_above:
            partitions[file.partition_key].append(file)
    groups = []
    for candidates in partitions.values():
        # Files that were written one after the other stay neighbours: their columns compress well together.
        candidates.sort(key=lambda file: (file.sequence_number, file.path))
        groups += [group for group in _bins(candidates, options) if _worthwhile(group, options)]
    return groups


def _bins(files: Sequence[LiveFile], options: CompactionOptions) -> list[_Group]:
    """Divide a partition's candidates into tasks of equal weight, so that no small remainder is left at the end."""
    total = sum(file.size_bytes for file in files)
    count = max(1, -(-total // options.task_bytes))
    bins: list[list[LiveFile]] = [[] for _ in range(count)]
    seen = 0
    for file in files:
        bins[min(count - 1, seen * count // max(total, 1))].append(file)
        seen += file.size_bytes
    return [
        _Group(tuple(files), files_for(sum(file.size_bytes for file in files), options.target_file_bytes))
        for files in bins
        if files
    ]


def _worthwhile(group: _Group, options: CompactionOptions) -> bool:
    if any(file.size_bytes > options.large_above for file in group.files):
        return group.expected_files != len(group.files)
    enough = len(group.files) >= options.min_input_files or group.size_bytes >= options.target_file_bytes
    return group.files_saved > 0 and enough


def _benefit(group: _Group) -> tuple[int, int, str]:
    """Most files saved first, then the least to rewrite for it; the path makes the order certain."""
    return -group.files_saved, group.size_bytes, group.files[0].path


def _within(max_bytes: int | None, groups: list[_Group]) -> list[_Group]:
    """The first groups that fit; a first group that is too large alone is taken, or nothing would ever be done."""
    if max_bytes is None:
        return groups
    taken: list[_Group] = []
    total = 0
    for group in groups:
        if not taken or total + group.size_bytes <= max_bytes:
            taken.append(group)
            total += group.size_bytes
    return taken


def _task(table: Table, group: _Group, number: int, options: CompactionOptions) -> RewriteTask:
    first, metadata = group.files[0], table.metadata
    spec, partition = metadata.specs()[first.spec_id], first.partition
    partition_schema = schema_of_spec(metadata, first.spec_id)
    partition_path = ""
    if partition_schema is not None and spec.fields:
        partition_path = spec.partition_to_path(partition, partition_schema)
    return RewriteTask(
        task_id=f"{number:05d}",
        table=".".join(table.name()),
        sources=tuple(
            SourceFile(file.path, file.file_format.value, file.size_bytes, file.records) for file in group.files
        ),
        schema=metadata.schema(),
        spec=spec,
        partition=partition,
        partition_path=partition_path,
        identity_values={
            field.source_id: partition[position]
            for position, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform) and partition[position] is not None
        },
        table_location=metadata.location,
        table_properties=dict(metadata.properties),
        target_file_bytes=options.target_file_bytes,
        io_properties=dict(table.io.properties),
    )
