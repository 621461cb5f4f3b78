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

from tableformat.engine import RewriteTask
from tableformat.engine.sizing import files_for
from tableformat.inspection import (
    DataIndex,
    LiveFile,
    SnapshotFiles,
    global_specs,
    snapshot_files,
)
from tableformat.maintenance.compaction.candidates import Candidate, find_candidates
from tableformat.maintenance.compaction.eligibility import (
    require_rewritable,
    require_rewritable_file,
)
from tableformat.maintenance.compaction.options import CompactionOptions, Strategy
from tableformat.maintenance.compaction.ordering import row_order
from tableformat.maintenance.compaction.tasks import rewrite_task


@dataclass(frozen=True)
class CompactionPlan:
    """What would be rewritten, as of one snapshot."""

    table: str
    snapshot_id: int | None
    tasks: tuple[RewriteTask, ...] = ()
    expected_files: int = 0
    dangling_deletes: int = 0
    """Delete files that apply to no data file as it is; they go with the commit."""

    @property
    def is_empty(self) -> bool:
        return not self.tasks and not self.dangling_deletes

    @property
    def starting_snapshot_id(self) -> int:
        """What a commit of this plan starts from; an empty plan has nothing to commit."""
        if self.snapshot_id is None:
            raise ValueError(f"the plan for {self.table} has no snapshot")
        return self.snapshot_id

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
        if not self.tasks:
            return f"compaction of {self.table}: {self.dangling_deletes} delete files apply to nothing any more, and go"
        partitions = len({(task.spec.spec_id, task.partition_path) for task in self.tasks})
        return (
            f"compaction of {self.table} at snapshot {self.snapshot_id}: {self.source_files} files "
            f"({self.source_bytes} bytes, {self.source_records} rows) in {partitions} partitions become about "
            f"{self.expected_files}, in {len(self.tasks)} tasks"
        )


@dataclass(frozen=True)
class _Group:
    candidates: tuple[Candidate, ...]
    expected_files: int

    @property
    def size_bytes(self) -> int:
        return sum(candidate.file.size_bytes for candidate in self.candidates)

    @property
    def files_saved(self) -> int:
        return len(self.candidates) - self.expected_files

    @property
    def deletes(self) -> list[LiveFile]:
        """Each delete file once, in a certain order."""
        found = {(file.path, file.content_range): file for candidate in self.candidates for file in candidate.deletes}
        return sorted(found.values(), key=lambda file: (file.sequence_number, file.path, file.content_range or (0, 0)))


def plan_compaction(table: Table, options: CompactionOptions, *, now: datetime) -> CompactionPlan:
    """The plan for the table's current snapshot. Raises `UnsupportedTable` where a rewrite could not be exact."""
    name, snapshot = ".".join(table.name()), table.current_snapshot()
    if snapshot is None:
        return CompactionPlan(name, None)
    files = snapshot_files(table.io, snapshot)
    require_rewritable(table, files)
    order = row_order(table, options)
    candidates = find_candidates(table, files, options, order, now=now)
    groups = _within(options.max_bytes_per_run, sorted(_groups(candidates, options), key=_benefit))
    for group in groups:
        for file in (*(candidate.file for candidate in group.candidates), *group.deletes):
            require_rewritable_file(table, file)
    return CompactionPlan(
        name,
        snapshot.snapshot_id,
        tasks=tuple(
            rewrite_task(
                table,
                f"{number:05d}",
                [candidate.file for candidate in group.candidates],
                group.deletes,
                options,
                order,
            )
            for number, group in enumerate(groups)
        ),
        expected_files=sum(group.expected_files for group in groups),
        dangling_deletes=_dangling(table, files),
    )


def _dangling(table: Table, files: SnapshotFiles) -> int:
    if not files.deletes:
        return 0
    index = DataIndex(files.data, global_specs=global_specs(table.metadata))
    return sum(index.is_dangling(file) for file in files.deletes)


def _groups(files: Iterable[Candidate], options: CompactionOptions) -> list[_Group]:
    partitions: dict[tuple[Hashable, ...], list[Candidate]] = defaultdict(list)
    for candidate in files:
        partitions[candidate.file.partition_key].append(candidate)
    groups = []
    for candidates in partitions.values():
        # Files that were written one after the other stay neighbours: their columns compress well together.
        candidates.sort(key=lambda candidate: (candidate.file.sequence_number, candidate.file.path))
        groups += [group for group in _bins(candidates, options) if _worthwhile(group, options)]
    return groups


def _bins(candidates: Sequence[Candidate], options: CompactionOptions) -> list[_Group]:
    """Divide a partition's candidates into tasks of equal weight, so that no small remainder is left at the end."""
    total = sum(candidate.file.size_bytes for candidate in candidates)
    # Rows that are to be in order have to come together; bin-packing is the same work in many small tasks.
    count = max(1, -(-total // options.task_bytes)) if options.strategy == Strategy.BIN_PACK else 1
    bins: list[list[Candidate]] = [[] for _ in range(count)]
    seen = 0
    for candidate in candidates:
        bins[min(count - 1, seen * count // max(total, 1))].append(candidate)
        seen += candidate.file.size_bytes
    return [
        _Group(
            tuple(members),
            files_for(sum(candidate.live_bytes for candidate in members), options.target_file_bytes),
        )
        for members in bins
        if members
    ]


def _worthwhile(group: _Group, options: CompactionOptions) -> bool:
    if any(candidate.must for candidate in group.candidates):
        return True
    if any(candidate.file.size_bytes > options.large_above for candidate in group.candidates):
        return group.expected_files != len(group.candidates)
    enough = len(group.candidates) >= options.min_input_files or group.size_bytes >= options.target_file_bytes
    return group.files_saved > 0 and enough


def _benefit(group: _Group) -> tuple[float, int, str]:
    """Most files and deletes saved first, then the least to rewrite; the path makes the order certain."""
    return -(group.files_saved + len(group.deletes)), group.size_bytes, group.candidates[0].file.path


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
