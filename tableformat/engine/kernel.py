"""Runs one rewrite task: reads its files, brings every row to the current schema, writes new files.

It touches no table state. Rows are counted on the way in and out; a rewrite that lost or invented one fails here,
before anybody can commit it.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import TableProperties
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from tableformat.engine.checksum import Checksum
from tableformat.engine.deletes import TaskDeletes
from tableformat.engine.lineage import fill_lineage
from tableformat.engine.ordering import in_order
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.task import RewriteResult, RewriteTask, SourceFile
from tableformat.engine.writing import RollingWriter, remove_files
from tableformat.errors import PermanentError


class RowsChanged(PermanentError):
    """The rewrite did not give back the rows it took: a defect, and the reason to stop before a commit."""


def rewrite(task: RewriteTask) -> RewriteResult:
    """Rewrite the task's files; on any error, nothing that was written stays behind."""
    io = _file_io(task)
    rows = _Rows(io, task)
    batches = rows.batches()
    if task.order is not None:
        batches = in_order(batches, task.order, task.schema, memory_bytes=task.memory_bytes)
    files = RollingWriter(io, task).write_all(batches)
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


class _Rows:
    """The live rows of a task's files, in the current schema."""

    def __init__(self, io: FileIO, task: RewriteTask) -> None:
        self.deleted = 0
        self.checksum = Checksum() if task.verify_contents else None
        self._io = io
        self._task = task
        self._deletes = TaskDeletes(io, task) if task.position_deletes or task.equality_deletes else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._live_batches():
            if self.checksum is not None:
                self.checksum.add(batch)
            yield batch

    def _live_batches(self) -> Iterator[pa.RecordBatch]:
        task = self._task
        target = TargetSchema.of(task.read_schema)
        mapping, columns = _name_mapping(task), list(range(len(task.schema.fields)))
        for source in task.sources:
            batches = read_batches(self._io, source, target, name_mapping=mapping, identity_values=task.identity_values)
            if task.keeps_lineage:
                batches = _with_lineage(batches, source)
            if self._deletes is None:
                yield from batches
                continue
            deletes = self._deletes.of(source)
            for batch in batches:
                yield deletes.apply(batch).select(columns)
            self.deleted += deletes.rows_deleted


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
