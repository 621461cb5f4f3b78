"""The plan of a compaction: which files are rewritten, together with which others, as a value that can be printed.

Pure over the snapshot's files: the same snapshot and options give the same plan. Objects are made only for files that
are in it, and what tasks have in common is there once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from tableformat.engine import RewriteTask, RowOrder
from tableformat.inspection import AppliedDeletes, Booleans, Integers, SnapshotFiles, global_specs, snapshot_files
from tableformat.maintenance.compaction.candidates import find_candidates
from tableformat.maintenance.compaction.disputed import disputed_files
from tableformat.maintenance.compaction.eligibility import require_rewritable, require_rewritable_files
from tableformat.maintenance.compaction.grouping import Group, worthwhile_groups
from tableformat.maintenance.compaction.moves import Move, files_after
from tableformat.maintenance.compaction.options import CompactionOptions
from tableformat.maintenance.compaction.ordering import row_order
from tableformat.maintenance.compaction.shredded import shredded_files
from tableformat.maintenance.compaction.sources import SourceFiles
from tableformat.maintenance.compaction.tasks import TaskMaking
from tableformat.plurals import plural

_ROUNDS: Final = 10  # one or two do, but for histories that nobody has


@dataclass(frozen=True)
class PlannedGroup:
    """One task's work in figures."""

    spec_id: int
    partition: str
    files: int
    size_bytes: int
    records: int
    delete_files: int
    expected_files: int

    def __str__(self) -> str:
        where = self.partition or "the table"
        deletes = f" with {plural(self.delete_files, 'delete file')}" if self.delete_files else ""
        files = f"{plural(self.files, 'file')} ({plural(self.size_bytes, 'byte')}){deletes}"
        return f"{where}: {files} to about {self.expected_files:,}"


@dataclass(frozen=True)
class CompactionPlan:
    """What would be rewritten, as of one snapshot."""

    table: str
    snapshot_id: int | None
    tasks: tuple[RewriteTask, ...] = field(default=(), repr=False)
    groups: tuple[PlannedGroup, ...] = ()
    """What each of the tasks is about."""
    dangling_deletes: int = 0
    """Delete files that apply to no data file as it is; they go with the commit."""
    more_left: bool = False
    """Whether another run could go on at once: this one takes no more bytes."""
    too_new: bool = False
    """Whether more is worth a rewrite as soon as it has cooled down."""
    left_alone: tuple[str, ...] = ()
    """Why some files stay as they are, whatever their size."""

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
        return sum(group.files for group in self.groups)

    @property
    def source_bytes(self) -> int:
        return sum(group.size_bytes for group in self.groups)

    @property
    def source_records(self) -> int:
        return sum(group.records for group in self.groups)

    @property
    def expected_files(self) -> int:
        return sum(group.expected_files for group in self.groups)

    def __str__(self) -> str:
        if self.is_empty:
            return f"compaction of {self.table}: nothing to do"
        if not self.tasks:
            return f"compaction of {self.table}: remove {plural(self.dangling_deletes, 'dangling delete file')}"
        partitions = len({(group.spec_id, group.partition) for group in self.groups})
        return (
            f"compaction of {self.table} at snapshot {self.snapshot_id}: {plural(self.source_files, 'file')} "
            f"({plural(self.source_bytes, 'byte')}, {plural(self.source_records, 'row')}) in "
            f"{plural(partitions, 'partition')} to about {self.expected_files:,}, in {plural(len(self.tasks), 'task')}"
        )


def plan_compaction(table: Table, options: CompactionOptions, *, now: datetime) -> CompactionPlan:
    """The plan for the table's current snapshot. Raises `UnsupportedTable` where a rewrite could not be exact."""
    name, snapshot = ".".join(table.name()), table.current_snapshot()
    if snapshot is None:
        return CompactionPlan(name, None)
    files = snapshot_files(table.io, snapshot)
    require_rewritable(table, files)
    order = row_order(table, options)
    applied = AppliedDeletes(files, global_specs=global_specs(table.metadata))
    stay, left_alone = disputed_files(table, files)
    known: Integers = np.zeros(0, np.int64)
    while True:
        groups = _groups(table, files, applied, options, order, stay, now=now)
        data_rows = _joined([group.data for group in groups])
        shredded, reasons = shredded_files(table, files, np.setdiff1d(data_rows, known))
        if not len(shredded):
            break
        known = np.union1d(known, data_rows)
        stay[shredded], left_alone = True, left_alone + reasons  # without them other files may be worth a rewrite
    delete_rows = np.unique(_joined([group.deletes for group in groups]))
    require_rewritable_files(table, files, data_rows, delete_rows)
    deletes = dict(zip(delete_rows.tolist(), files.delete_files(delete_rows), strict=True))
    making = TaskMaking(table, options, order)
    tasks = tuple(
        making.task(
            f"{number:05d}",
            int(files.partitions.spec_ids[group.partition]),
            files.partitions.record(group.partition),
            SourceFiles(files.data, group.data),
            [deletes[row] for row in group.deletes.tolist()],
        )
        for number, group in enumerate(groups)
    )
    return CompactionPlan(
        name,
        snapshot.snapshot_id,
        tasks,
        groups=_figures(table, groups, tasks),
        dangling_deletes=int((applied.files_reached == 0).sum()),
        left_alone=left_alone,
        **_left_out(table, files, applied, options, order, stay, len(data_rows), now=now),
    )


def _left_out(
    table: Table,
    files: SnapshotFiles,
    applied: AppliedDeletes,
    options: CompactionOptions,
    order: RowOrder | None,
    stay: Booleans,
    planned: int,
    *,
    now: datetime,
) -> dict[str, bool]:
    """Whether more would be planned without the limit of a run, and without the cool-down."""

    def files_with(**limits: int | None) -> int:
        free = options.model_copy(update={"max_bytes_per_run": None, **limits})
        return sum(len(group.data) for group in _groups(table, files, applied, free, order, stay, now=now))

    cool = planned if options.max_bytes_per_run is None else files_with()
    every = cool if not options.cool_down_seconds else files_with(cool_down_seconds=0)
    return {"more_left": cool > planned, "too_new": every > cool}


def _groups(
    table: Table,
    files: SnapshotFiles,
    applied: AppliedDeletes,
    options: CompactionOptions,
    order: RowOrder | None,
    stay: Booleans,
    *,
    now: datetime,
) -> list[Group]:
    """What is worth a rewrite now, and what would be as soon as that is done.

    A delete for many files is taken to be for each of them in part. Of what is left when some of them are rewritten
    each has a larger part, which may be enough to rewrite it, too: then it is done at once, and the next plan is empty.
    """
    deleted_rows, known = applied.deleted_rows, -1
    for _ in range(_ROUNDS):
        candidates = find_candidates(table, files, deleted_rows, options, order, stay, now=now)
        groups = worthwhile_groups(files, candidates, applied, options)
        stays = np.ones(files.data.num_rows, bool)
        stays[_joined([group.data for group in groups])] = False
        found = int(candidates.must.sum())
        if not applied.has_shared_deletes or not stays.any() or found == known:
            break
        known = found
        left = AppliedDeletes(
            replace(files, data=files.data.filter(pa.array(stays))), global_specs=global_specs(table.metadata)
        )
        deleted_rows = deleted_rows.copy()
        deleted_rows[stays] = np.maximum(deleted_rows[stays], left.deleted_rows)
    return groups


def _figures(table: Table, groups: Sequence[Group], tasks: Sequence[RewriteTask]) -> tuple[PlannedGroup, ...]:
    moves = {
        task.task_id: Move(
            task.spec.spec_id,
            task.partition,
            tuple(source.path for source in task.sources),
            group.live_bytes,
            task.target_file_bytes,
        )
        for group, task in zip(groups, tasks, strict=True)
        if task.output_spec is not None
    }
    moved = dict(zip(moves, files_after(table, moves.values()), strict=True))
    return tuple(
        PlannedGroup(
            spec_id=task.spec.spec_id,
            partition=task.partition_path,
            files=len(group.data),
            size_bytes=group.size_bytes,
            records=group.records,
            delete_files=len(task.position_deletes) + len(task.equality_deletes),
            expected_files=moved.get(task.task_id, group.expected_files),
        )
        for group, task in zip(groups, tasks, strict=True)
    )


def _joined(rows: Sequence[Integers]) -> Integers:
    return np.concatenate(rows) if rows else np.zeros(0, np.int64)
