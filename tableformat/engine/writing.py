"""Writes a stream of record batches as Parquet files near a target size.

How large rows become on disk is measured as they are written, and the rest of the stream is divided evenly: the last
file is not a small remainder, and a table that was compacted once has no files left that the next plan would take.
Memory holds one row group. Files of an attempt that fails are removed again, and their names are never reused.
How one file is encoded is in `parquet_file`.
"""

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionKey
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider

from tableformat.engine.bloom import bloom_filters
from tableformat.engine.parquet_file import FileForm, ParquetFileWriter
from tableformat.engine.partitions import Partitioning, Place
from tableformat.engine.projection import arrow_schema
from tableformat.engine.sizing import files_for
from tableformat.engine.statistics import Bounds, file_statistics, leaf_columns, nan_counts, other_bounds
from tableformat.engine.stored_types import logical_types
from tableformat.engine.task import RewriteTask, WrittenFile
from tableformat.properties import positive_number, read_number

logger = logging.getLogger(__name__)

_ROW_GROUP_BYTES = 128 * 1024 * 1024
_ROW_GROUP_ROWS = 1024 * 1024
_MOST_ROW_GROUP_ROWS = 64 * 1024 * 1024  # pyarrow divides what is more
CODECS = {
    **{codec: codec for codec in ("zstd", "snappy", "gzip", "brotli", "lz4", "lz4_raw")},
    "uncompressed": "none",
}
"""By Iceberg's names, pyarrow's."""
_CODECS_WITH_LEVELS = ("gzip", "brotli", "zstd")


@dataclass(frozen=True)
class _PlannedPartition(PartitionKey):
    """A partition whose path is known from planning, for PyIceberg's location providers."""

    path: str

    def to_path(self) -> str:
        return self.path


class RollingWriter:
    """The output of one attempt at a task or a part of it; the pool encodes.

    How many rows are expected is asked again and again: nobody knows how many are deleted before they are read.
    """

    def __init__(
        self,
        io: FileIO,
        task: RewriteTask,
        pool: Executor,
        *,
        rows_expected: Callable[[], int],
        place: Place | None = None,
    ) -> None:
        self._io = io
        self._task = task
        self._pool = pool
        self._place = place or Place(task.spec, task.partition, task.partition_path)
        self._form = file_form(task)
        self._leaves = leaf_columns(task.schema, task.table_properties)
        self._locations = load_location_provider(task.table_location, dict(task.table_properties))
        self._row_group_bytes, self._row_group_rows = row_group_limits(task.table_properties)
        self._attempt = uuid.uuid4()
        self._rows_expected = rows_expected
        self._rows_flushed = 0
        self._bytes_flushed = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._open: ParquetFileWriter | None = None
        self._nans: Counter[int] = Counter()
        self._other_bounds: list[Bounds] = []
        self._paths: list[str] = []
        self._files: list[WrittenFile] = []

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> tuple[WrittenFile, ...]:
        try:
            for batch in batches:
                self._write(batch)
            self._flush()
            self._finish()
        except BaseException:
            self._abort()
            raise
        return tuple(self._files)

    def _write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            room = max(1, self._rows_until_flush() - self._pending_rows)
            head, batch = batch.slice(0, room), batch.slice(room)
            self._pending.append(head)
            self._pending_rows += head.num_rows
            self._pending_bytes += head.nbytes
            if head.num_rows == room or self._pending_bytes >= self._row_group_bytes:
                self._flush()

    def _rows_until_flush(self) -> int:
        """Rows of a full row group, or those that still fit the current file if that is less."""
        written = self._open.bytes_written if self._open else 0
        # Rounded: cut off, all the rows that are left would often be one less, and the last of them a file of its own.
        left = round((self._goal_bytes() - written) / self._bytes_per_row())
        return min(self._row_group_rows, left)

    def _bytes_per_row(self) -> float:
        """As measured; before the first row group is written, as it is in the sources."""
        if self._rows_flushed:
            return max(self._bytes_flushed / self._rows_flushed, 1e-3)
        return max(self._task.source_bytes / max(self._task.source_records, 1), 1e-3)

    def _goal_bytes(self) -> float:
        """The size of the current file, if what is left is divided evenly."""
        return self._rest_bytes() / self._files_left()

    def _files_left(self) -> int:
        """The current one is among them."""
        return files_for(self._rest_bytes(), self._task.target_file_bytes)

    def _rest_bytes(self) -> float:
        """Of the current file and of all that is to come."""
        written = self._open.bytes_written if self._open else 0
        return written + max(self._rows_expected() - self._rows_flushed, 0) * self._bytes_per_row()

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        if self._open is None:
            self._open = self._new_file()
        before = self._open.bytes_written
        rows = pa.Table.from_batches(self._pending, self._form.schema)
        self._pending = []
        nans = nan_counts(rows, self._leaves)
        self._nans.update(nans)
        self._other_bounds.append(other_bounds(rows, self._leaves, nans))
        self._open.write_row_group(rows)
        self._rows_flushed += self._pending_rows
        self._bytes_flushed += self._open.bytes_written - before
        self._pending_rows = self._pending_bytes = 0
        # One row group less than the goal would be a file of its own kind of small; a little less is near enough. But
        # the last file takes all that is left, or a few row groups would be a small file behind it.
        more_to_come = self._rows_flushed < self._rows_expected() and self._files_left() > 1
        if more_to_come and self._open.bytes_written >= 0.9 * self._goal_bytes():
            self._finish()

    def _new_file(self) -> ParquetFileWriter:
        name = f"{self._attempt}-{self._task.task_id}-{len(self._paths):05d}.parquet"
        partition = None
        if self._place.path:
            partition = _PlannedPartition([], self._place.spec, self._task.schema, self._place.path)
        output = self._io.new_output(self._locations.new_data_location(name, partition))
        self._paths.append(output.location)
        return ParquetFileWriter(output, self._form, self._pool)

    def _finish(self) -> None:
        if self._open is None:
            return
        done, self._open = self._open, None
        statistics = file_statistics(done.close(), self._leaves, self._other_bounds)
        nans, self._nans, self._other_bounds = self._nans, Counter(), []
        self._files.append(
            WrittenFile(
                path=done.output.location,
                spec_id=self._place.spec.spec_id,
                partition=self._place.partition,
                size_bytes=done.bytes_written,
                records=done.records,
                column_sizes=statistics.column_sizes,
                value_counts=statistics.value_counts,
                null_value_counts=statistics.null_value_counts,
                nan_value_counts=dict(nans),
                lower_bounds=statistics.lower_bounds,
                upper_bounds=statistics.upper_bounds,
                split_offsets=statistics.split_offsets,
                sort_order_id=self._task.order.sort_order_id if self._task.order else None,
            )
        )

    def _abort(self) -> None:
        if self._open is not None:
            try:
                self._open.abandon()
            except Exception:
                logger.info("could not close a half-written file", extra={"path": self._open.output.location})
        remove_files(self._io, self._paths)


def write_partitions(
    io: FileIO, task: RewriteTask, pool: Executor, partitioning: Partitioning, batches: Iterable[pa.RecordBatch]
) -> tuple[WrittenFile, ...]:
    """Write rows that are sorted by partition, each into its own one; on any error, nothing stays behind."""
    files: list[WrittenFile] = []
    runs = (run for batch in batches for run in partitioning.runs(batch))
    try:
        for key, group in groupby(runs, key=lambda run: run[0]):
            writer = RollingWriter(
                io, task, pool, rows_expected=partial(partitioning.rows_of, key), place=partitioning.place(key)
            )
            files += writer.write_all(rows for _, rows in group)
    except BaseException:
        remove_files(io, [file.path for file in files])
        raise
    return tuple(files)


def measured(task: RewriteTask, batches: Iterable[pa.RecordBatch], pool: Executor) -> tuple[int, int]:
    """How many rows a first row group of these has, and how many bytes of a file; nothing is written."""
    form, (most_bytes, most_rows) = file_form(task), row_group_limits(task.table_properties)
    held: list[pa.RecordBatch] = []
    room, held_bytes = most_rows, 0
    for batch in batches:
        held.append(batch.slice(0, room))
        room -= held[-1].num_rows
        held_bytes += held[-1].nbytes
        if not room or held_bytes >= most_bytes:
            break
    if room == most_rows:
        return 0, 0
    rows = pa.Table.from_batches(held, form.schema)
    del held
    encoded = pool.map(lambda place: len(form.encoded(place, rows.column(place)).pages), range(rows.num_columns))
    return rows.num_rows, sum(encoded)


def file_form(task: RewriteTask) -> FileForm:
    return FileForm(
        arrow_schema(task.schema),
        parquet_options(task.table_properties),
        bloom_filters(task.schema, task.table_properties),
        logical_types(task.schema),
    )


def row_group_limits(properties: Mapping[str, str]) -> tuple[int, int]:
    """Bytes, as they are in memory, and rows."""
    most_bytes = positive_number(properties, TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES, _ROW_GROUP_BYTES)
    most_rows = positive_number(properties, TableProperties.PARQUET_ROW_GROUP_LIMIT, _ROW_GROUP_ROWS)
    return most_bytes, min(most_rows, _MOST_ROW_GROUP_ROWS)


def codec_name(properties: Mapping[str, str]) -> str:
    """What the table wants files compressed by, which may be none of `CODECS`."""
    return properties.get(TableProperties.PARQUET_COMPRESSION, TableProperties.PARQUET_COMPRESSION_DEFAULT).lower()


def parquet_options(properties: Mapping[str, str]) -> dict[str, object]:
    """The table's `write.parquet.*` properties in pyarrow's words."""
    codec = codec_name(properties)
    return {
        "compression": CODECS[codec],
        "compression_level": _level(codec, read_number(properties, TableProperties.PARQUET_COMPRESSION_LEVEL)),
        "data_page_size": positive_number(properties, TableProperties.PARQUET_PAGE_SIZE_BYTES, 1024 * 1024),
        "dictionary_pagesize_limit": positive_number(
            properties, TableProperties.PARQUET_DICT_SIZE_BYTES, 2 * 1024 * 1024
        ),
        "max_rows_per_page": positive_number(properties, TableProperties.PARQUET_PAGE_ROW_LIMIT, 20_000),
    }


def _level(codec: str, level: int | None) -> int | None:
    """A level may be left over from another codec: to the rest it means nothing, as in Iceberg's own writer."""
    if level is None or codec not in _CODECS_WITH_LEVELS:
        return None
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    return level if least <= level <= most else None


def remove_files(io: FileIO, paths: Iterable[str]) -> None:
    """Best effort: what stays is invisible, and the removal of orphan files finds it."""
    for path in paths:
        try:
            io.delete(path)
        except FileNotFoundError:
            continue
        except Exception as error:
            logger.warning("could not remove an uncommitted file: %s", error, extra={"path": path})
