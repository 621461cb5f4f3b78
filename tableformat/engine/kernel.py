"""Runs one rewrite task: reads its files, brings every row to the current schema, writes new files.

It touches no table state. Rows are counted on the way in and out; a rewrite that lost or invented one fails here,
before anybody can commit it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyiceberg.io import FileIO, load_file_io

from tableformat.engine.checksum import Checksum
from tableformat.engine.ordering import in_order
from tableformat.engine.parallel import Readers, Workers, available_cores
from tableformat.engine.partitions import Partitioning
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.rows import TaskRows
from tableformat.engine.sort_keys import sort_keys
from tableformat.engine.task import RewriteResult, RewriteTask, SourceFile, WrittenFile
from tableformat.engine.writing import RollingWriter, remove_files, write_partitions
from tableformat.errors import PermanentError


class RowsChanged(PermanentError):
    """The rewrite did not give back the rows it took: a defect, and the reason to stop before a commit."""


def rewrite(task: RewriteTask, *, threads: int | None = None) -> RewriteResult:
    """Rewrite the task's files; on any error, nothing that was written stays behind.

    It works on so many cores at once; by default on all that the process may use.
    """
    cores = threads or available_cores()
    io = file_io(task)
    with Readers(cores) as readers, Workers(cores) as workers:
        rows = TaskRows(io, task, readers)
        batches = rows.batches()
        if task.output_spec is not None:
            partitioning = Partitioning(task.output_spec, task.schema)
            keys = sort_keys(task.order, task.schema, partitions=partitioning.columns)
            counted = partitioning.counted(batches)
            ordered = in_order(counted, keys, memory_bytes=task.memory_bytes, workers=workers)
            files = write_partitions(io, task, workers, partitioning, ordered)
        else:
            if task.order is not None:
                keys = sort_keys(task.order, task.schema)
                batches = in_order(batches, keys, memory_bytes=task.memory_bytes, workers=workers)
            files = RollingWriter(io, task, workers, rows_expected=rows.expected).write_all(batches)
    result = RewriteResult(task.task_id, files, rows_read=task.source_records, rows_deleted=rows.deleted)
    with discarded_on_error(task, result):
        require_same_rows(task, result)
        if rows.checksum is not None:
            require_same_contents(task, rows.checksum, written_checksum(io, task, files))
    return result


@contextmanager
def discarded_on_error(task: RewriteTask, result: RewriteResult) -> Iterator[None]:
    try:
        yield
    except BaseException:
        discard(task, result)
        raise


_REPORT = "the table is as it was. Please report this defect."


def require_same_rows(task: RewriteTask, result: RewriteResult) -> None:
    if result.rows_written != result.rows_read - result.rows_deleted:
        raise RowsChanged(
            f"table {task.table}, task {task.task_id}: read {result.rows_read} rows, {result.rows_deleted} of them "
            f"deleted, and wrote {result.rows_written}; {_REPORT}"
        )


def require_same_contents(task: RewriteTask, before: Checksum, after: Checksum) -> None:
    if after != before:
        raise RowsChanged(
            f"table {task.table}, task {task.task_id}: the contents of the new files are not those of the old ones; "
            f"{_REPORT}"
        )


def written_checksum(io: FileIO, task: RewriteTask, files: Sequence[WrittenFile]) -> Checksum:
    """Of the rows as they are read back."""
    checksum, target = Checksum(), TargetSchema.of(task.schema)
    for file in files:
        written = SourceFile(file.path, "PARQUET", file.size_bytes, file.records, sequence_number=0)
        for batch in read_batches(io, written, target, name_mapping=None, identity_values={}):
            checksum.add(batch)
    return checksum


def discard(task: RewriteTask, result: RewriteResult) -> None:
    """Remove what a task wrote, when it is certain that no commit refers to it."""
    remove_files(file_io(task), [file.path for file in result.files])


def file_io(task: RewriteTask) -> FileIO:
    return load_file_io(dict(task.io_properties), task.table_location)
