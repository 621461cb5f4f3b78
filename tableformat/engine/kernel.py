"""Runs one rewrite task: reads its files, brings every row to the current schema, writes new files.

It touches no table state. Rows are counted on the way in and out; a rewrite that lost or invented one fails here,
before anybody can commit it.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import TableProperties
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from tableformat.engine.checksum import Checksum
from tableformat.engine.deletes import TaskDeletes
from tableformat.engine.lineage import fill_lineage
from tableformat.engine.ordering import in_order
from tableformat.engine.parallel import Workers, available_cores, in_turn
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.sort_keys import sort_keys
from tableformat.engine.task import RewriteResult, RewriteTask, SourceFile
from tableformat.engine.writing import RollingWriter, remove_files
from tableformat.errors import PermanentError

_AHEAD_ROWS = 1024 * 1024


class RowsChanged(PermanentError):
    """The rewrite did not give back the rows it took: a defect, and the reason to stop before a commit."""


def rewrite(task: RewriteTask, *, threads: int | None = None) -> RewriteResult:
    """Rewrite the task's files; on any error, nothing that was written stays behind.

    It works on so many cores at once; by default on all that the process may use.
    """
    cores = threads or available_cores()
    io = _file_io(task)
    with (
        # Reading waits for storage as much as it computes.
        ThreadPoolExecutor(2 * cores + 2, thread_name_prefix="read") as readers,
        Workers(cores) as workers,
    ):
        rows = _Rows(io, task, readers)
        batches = rows.batches()
        if task.order is not None:
            keys = sort_keys(task.order, task.schema)
            batches = in_order(batches, keys, memory_bytes=task.memory_bytes, workers=workers)
        files = RollingWriter(io, task, workers).write_all(batches)
    result = RewriteResult(task.task_id, files, rows_read=task.source_records, rows_deleted=rows.deleted)
    try:
        _require_same_rows(io, task, result, rows.checksum)
    except BaseException:
        discard(task, result)
        raise
    return result


def _require_same_rows(io: FileIO, task: RewriteTask, result: RewriteResult, before: Checksum | None) -> None:
    where = f"table {task.table}, task {task.task_id}"
    report = "the table is as it was. Please report this defect."
    if result.rows_written != result.rows_read - result.rows_deleted:
        raise RowsChanged(
            f"{where}: read {result.rows_read} rows, {result.rows_deleted} of them deleted, and wrote "
            f"{result.rows_written}; {report}"
        )
    if before is None:
        return
    after, target = Checksum(), TargetSchema.of(task.schema)
    for file in result.files:
        written = SourceFile(file.path, "PARQUET", file.size_bytes, file.records, sequence_number=0)
        for batch in read_batches(io, written, target, name_mapping=None, identity_values={}):
            after.add(batch)
    if after != before:
        raise RowsChanged(f"{where}: the contents of the new files are not those of the old ones; {report}")


def discard(task: RewriteTask, result: RewriteResult) -> None:
    """Remove what a task wrote, when it is certain that no commit refers to it."""
    remove_files(_file_io(task), [file.path for file in result.files])


@dataclass
class _FileRows:
    """The live rows of a whole file."""

    batches: list[pa.RecordBatch]
    deleted: int
    checksum: Checksum | None


class _Rows:
    """The live rows of a task's files, in the current schema and in the order of the files.

    Files with few rows are read ahead, several at a time: each costs a wait for storage, and a core of its own.
    """

    def __init__(self, io: FileIO, task: RewriteTask, readers: Executor) -> None:
        self.deleted = 0
        self.checksum = Checksum() if task.verify_contents else None
        self._io = io
        self._task = task
        self._readers = readers
        self._target = TargetSchema.of(task.read_schema)
        self._mapping = _name_mapping(task)
        self._columns = list(range(len(task.schema.fields)))
        self._deletes = TaskDeletes(io, task) if task.position_deletes or task.equality_deletes else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        ahead = in_turn(
            self._readers, self._task.sources, self._read_ahead, weight=lambda s: s.records, limit=_AHEAD_ROWS
        )
        for source, rows in ahead:
            if rows is None:
                file = self._nothing_yet()
                yield from self._stream(source, file)
            else:
                file = rows
                yield from file.batches
                file.batches.clear()
            self.deleted += file.deleted
            if self.checksum is not None and file.checksum is not None:
                self.checksum.merge(file.checksum)

    def _read_ahead(self, source: SourceFile) -> _FileRows | None:
        """All rows of a file, unless they are so many that they have to come piece by piece."""
        if source.records > _AHEAD_ROWS // 4:
            return None
        file = self._nothing_yet()
        file.batches = list(self._stream(source, file))
        return file

    def _nothing_yet(self) -> _FileRows:
        return _FileRows([], 0, None if self.checksum is None else Checksum())

    def _stream(self, source: SourceFile, file: _FileRows) -> Iterator[pa.RecordBatch]:
        """The file's live rows; what is counted on the way is noted in `file`."""
        batches = read_batches(
            self._io,
            source,
            self._target,
            name_mapping=self._mapping,
            identity_values=self._task.identity_values,
        )
        if self._task.keeps_lineage:
            batches = _with_lineage(batches, source)
        deletes = self._deletes.of(source) if self._deletes is not None else None
        for batch in batches:
            live = batch if deletes is None else deletes.apply(batch).select(self._columns)
            if file.checksum is not None:
                file.checksum.add(live)
            yield live
        file.deleted = 0 if deletes is None else deletes.rows_deleted


def _with_lineage(batches: Iterator[pa.RecordBatch], source: SourceFile) -> Iterator[pa.RecordBatch]:
    row = 0
    for batch in batches:
        yield fill_lineage(batch, source, row)
        row += batch.num_rows


def _name_mapping(task: RewriteTask) -> NameMapping | None:
    text = task.table_properties.get(TableProperties.DEFAULT_NAME_MAPPING)
    return None if text is None else parse_mapping_from_json(text)


def _file_io(task: RewriteTask) -> FileIO:
    return load_file_io(dict(task.io_properties), task.table_location)
