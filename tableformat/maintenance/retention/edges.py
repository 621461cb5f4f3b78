"""Files on the edge: finds the rows that are too old by reading, and takes them out as the table's write mode says.

Merge-on-read adds deletes beside the file: a position delete file, or in format version 3 a deletion vector that takes
over the position deletes which the file had. Copy-on-write writes the file anew without the rows, by the same kernel
as compaction: the old rows are given to it as one more position delete file, which never becomes part of the table and
is gone before the commit. A file without a row left is removed as a whole.

What was done for a file holds as long as the file is there with the same position deletes, on the same line of
history; equality deletes that came since apply to a rewritten file too, because it keeps the sequence number that its
rows were read at. Where main went back, or to another branch, deletes that were applied may not hold any more.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.snapshots import ancestors_of

from tableformat.commits.delta import NewFile
from tableformat.commits.replacement import AddedFile
from tableformat.commits.snapshot import data_file_of
from tableformat.engine import DeleteFile, RewriteTask
from tableformat.engine.delete_writing import (
    PATH_ID,
    Positions,
    WrittenDeletes,
    write_deletion_vectors,
    write_position_deletes,
)
from tableformat.engine.deletes import TaskDeletes, column_path, key_column
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.writing import remove_files
from tableformat.inspection import own_target_bytes
from tableformat.maintenance.compaction.options import CompactionOptions
from tableformat.maintenance.compaction.run import Progress
from tableformat.maintenance.compaction.tasks import rewrite_task
from tableformat.maintenance.executor import Executor, FailedTask
from tableformat.maintenance.retention.planning import AgeLimit, EdgeFile, merges_on_read

_PARALLEL = 4


@dataclass(frozen=True)
class EdgeOutcome:
    """What becomes of one file. Nothing of it is visible until a commit refers to the new files."""

    rows: int
    """That are too old and were not deleted before."""
    removes_file: bool = False
    takes_over_deletes: bool = False
    added: tuple[NewFile, ...] = ()


@dataclass(frozen=True)
class _OldRows:
    task: RewriteTask
    old: Positions
    """Too old and still there."""
    deleted: Positions
    """Deleted by position before."""

    @property
    def all_gone(self) -> bool:
        return len(self.old) + len(self.deleted) == self.task.source_records


class EdgeWork:
    """The files of one run; what was written for it is known by name, to be removed if nothing can refer to it."""

    def __init__(self, table: Table, limit: AgeLimit, executor: Executor, progress: Callable[[Progress], None]) -> None:
        self._table = table
        self._limit = limit
        self._executor = executor
        self._progress = progress
        self._written: list[str] = []
        self._outcomes: dict[tuple[object, ...], EdgeOutcome] = {}

    def outcomes(self, table: Table, edges: Sequence[EdgeFile]) -> list[EdgeOutcome]:
        """Of each file, read and written now if it is new or its deletes are others than before."""
        if not _goes_on_from(self._table, table):
            self._outcomes = {}
        self._table = table
        new = [edge for edge in edges if _key(edge) not in self._outcomes]
        for edge, outcome in zip(new, self._treat(new), strict=True):
            self._outcomes[_key(edge)] = outcome
        return [self._outcomes[_key(edge)] for edge in edges]

    def discard(self) -> None:
        """Remove all that was written; only when it is certain that no commit refers to it."""
        remove_files(self._table.io, self._written)
        self._written = []

    def _treat(self, edges: Sequence[EdgeFile]) -> list[EdgeOutcome]:
        options = CompactionOptions(target_file_bytes=_target(self._table))
        tasks = [
            rewrite_task(self._table, f"{number:05d}", [edge.file], edge.deletes, options)
            for number, edge in enumerate(edges)
        ]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found = list(pool.map(lambda task: _find(task, self._limit), tasks))
        left = [rows for rows in found if len(rows.old) and not rows.all_gone]
        written = self._delete_on_read(left) if merges_on_read(self._table) else self._rewrite(left)
        return [
            written.get(rows.task.task_id)
            or EdgeOutcome(len(rows.old), removes_file=bool(len(rows.old)) and rows.all_gone)
            for rows in found
        ]

    def _delete_on_read(self, found: Sequence[_OldRows]) -> dict[str, EdgeOutcome]:
        io = self._table.io
        if not found:
            return {}
        if self._table.metadata.format_version < 3:
            deletes = [
                write_position_deletes(io, self._location("deletes.parquet"), _path(rows), rows.old) for rows in found
            ]
        else:
            vectors = {_path(rows): np.union1d(rows.old, rows.deleted) for rows in found}
            deletes = write_deletion_vectors(io, self._location("deletes.puffin"), vectors)
        return {
            rows.task.task_id: EdgeOutcome(
                len(rows.old),
                takes_over_deletes=written.content_range is not None,
                added=(NewFile(_deletes_entry(rows.task, written)),),
            )
            for rows, written in zip(found, deletes, strict=True)
        }

    def _rewrite(self, found: Sequence[_OldRows]) -> dict[str, EdgeOutcome]:
        if not found:
            return {}
        head = self._table.metadata.current_snapshot()
        read_at = (head.sequence_number or 0) if head is not None else 0
        outcomes: dict[str, EdgeOutcome] = {}
        by_id = {rows.task.task_id: rows for rows in found}
        temporary: list[str] = []
        size, size_done = sum(rows.task.source_bytes for rows in found), 0
        self._progress(Progress(0, len(found), 0, len(found), 0, size))
        try:
            tasks = []
            for rows in found:
                location = self._location("rows-to-leave-out.parquet")
                temporary.append(location)
                deletes = write_position_deletes(self._table.io, location, _path(rows), rows.old)
                tasks.append(_without(rows.task, deletes, read_at))
            with closing(self._executor.run(tasks)) as results:
                for result in results:
                    if isinstance(result, FailedTask):
                        raise result.error
                    rows = by_id[result.task_id]
                    self._written += [file.path for file in result.files]
                    outcomes[result.task_id] = EdgeOutcome(
                        len(rows.old),
                        removes_file=True,
                        added=tuple(
                            NewFile(
                                data_file_of(AddedFile(rows.task.spec.spec_id, rows.task.partition, file)),
                                sequence_number=read_at,
                            )
                            for file in result.files
                        ),
                    )
                    done, size_done = len(outcomes), size_done + rows.task.source_bytes
                    self._progress(Progress(done, len(found), done, len(found), size_done, size))
        finally:
            remove_files(self._table.io, temporary)
        return outcomes

    def _location(self, ending: str) -> str:
        location = self._table.location_provider().new_data_location(f"{uuid.uuid4()}-{ending}")
        self._written.append(location)
        return location


def _goes_on_from(before: Table, now: Table) -> bool:
    """Whether what was written for the one is what would be written for the other."""
    if before.metadata.format_version != now.metadata.format_version or merges_on_read(before) != merges_on_read(now):
        return False
    start = before.metadata.current_snapshot_id
    return any(ancestor.snapshot_id == start for ancestor in ancestors_of(now.current_snapshot(), now.metadata))


def _key(edge: EdgeFile) -> tuple[object, ...]:
    """With its first row id: rows that were not numbered when they were rewritten would lose the ids they got since."""
    return edge.file.path, edge.file.first_row_id, edge.position_deletes


def _path(rows: _OldRows) -> str:
    return rows.task.sources[0].path


def _find(task: RewriteTask, limit: AgeLimit) -> _OldRows:
    """Reads the file's column and its position deletes."""
    io = load_file_io(dict(task.io_properties), task.table_location)
    (source,) = task.sources
    path = column_path(task.schema, limit.field_id)
    mapping = task.table_properties.get(TableProperties.DEFAULT_NAME_MAPPING)
    batches = read_batches(
        io,
        source,
        TargetSchema.of(Schema(task.schema.fields[path[0]])),
        name_mapping=None if mapping is None else parse_mapping_from_json(mapping),
        identity_values=task.identity_values,
    )
    old = _older((key_column(batch, (0, *path[1:])) for batch in batches), limit)
    deleted = TaskDeletes(io, replace(task, equality_deletes=())).of(source).positions
    return _OldRows(task, np.setdiff1d(old, deleted, assume_unique=True), deleted)


def _older(columns: Iterable[pa.Array], limit: AgeLimit) -> Positions:
    """Which rows have a time before the limit; those without a time have no age."""
    found: list[Positions] = [np.empty(0, np.int64)]
    row = 0
    for column in columns:
        is_old = pc.fill_null(pc.less(column, pa.scalar(limit.value, column.type)), False)
        found.append(np.flatnonzero(is_old.to_numpy(zero_copy_only=False)) + row)
        row += len(column)
    return np.concatenate(found)


def _without(task: RewriteTask, rows: WrittenDeletes, sequence_number: int) -> RewriteTask:
    """The task, with one more position delete file."""
    deletes = DeleteFile(
        path=rows.path,
        file_format=FileFormat.PARQUET.value,
        size_bytes=rows.size_bytes,
        records=rows.records,
        sequence_number=sequence_number,
        referenced_data_file=rows.data_file,
    )
    return replace(task, position_deletes=(*task.position_deletes, deletes))


def _deletes_entry(task: RewriteTask, deletes: WrittenDeletes) -> DataFile:
    is_vector = deletes.content_range is not None
    offset, length = deletes.content_range or (None, None)
    path = deletes.data_file.encode()
    file = DataFile.from_args(
        3,
        content=DataFileContent.POSITION_DELETES,
        file_path=deletes.path,
        file_format=FileFormat.PUFFIN if is_vector else FileFormat.PARQUET,
        partition=task.partition,
        record_count=deletes.records,
        file_size_in_bytes=deletes.size_bytes,
        lower_bounds=None if is_vector else {PATH_ID: path},
        upper_bounds=None if is_vector else {PATH_ID: path},
        referenced_data_file=deletes.data_file,
        content_offset=offset,
        content_size_in_bytes=length,
    )
    file.spec_id = task.spec.spec_id
    return file


def _target(table: Table) -> int:
    return max(own_target_bytes(table.metadata.properties), 1024)
