"""A sort that is too large for one task, divided into many: the rows of each range of the order are written apart.

Steps of many independent parts each, for an executor that can move data between them. Samples of all files say where
ranges begin and end. Each part of the files is read, its deletes are applied, and its rows leave as Arrow blobs, each
for one range. Ranges are several times as many as the files will be: nobody knows how small rows become before some are
in order and encoded, often a third of what they were. A few ranges are probed for that, and then neighbours are joined
until they make a file. What is joined is put in order and written. All parts use the same keys, so the files of one
range come before those of the next, exactly as one sort would have them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from tableformat.engine.checksum import Checksum
from tableformat.engine.deletes import column_path
from tableformat.engine.kernel import (
    discarded_on_error,
    file_io,
    require_same_contents,
    require_same_rows,
    written_checksum,
)
from tableformat.engine.ordering import in_order
from tableformat.engine.parallel import Readers, Workers
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.rows import TaskRows, name_mapping
from tableformat.engine.sizing import files_for
from tableformat.engine.sort_keys import SortKeys, sort_keys
from tableformat.engine.task import RewriteResult, RewriteTask, SourceFile, WrittenFile
from tableformat.engine.writing import RollingWriter, measured
from tableformat.errors import TransientError

_SAMPLE_ROWS = 100_000
_SAMPLED_FILES = 8
_MOST_RANGES = 1000
# So many that the sizes of joined ranges differ little, and so few that the blobs of one are not mostly their headers.
_RANGES_OF_A_FILE, _RANGES_OF_A_FILE_OF_FEW, _RANGES_OF_FEW_FILES = 4, 8, 64
_PROBED_RANGES = 3
_BLOBS_HELD = 16


class PartsMissing(TransientError):
    """Not every part of a divided task has reported; nothing of it may be committed."""


@dataclass(frozen=True)
class Division:
    """How one task is divided: who reads what, and into how many ranges the rows go."""

    task: RewriteTask
    reads: tuple[RewriteTask, ...]
    ranges: int


@dataclass(frozen=True)
class Ranges:
    """Where the ranges begin: the first row of each but the first, in all that the order looks at."""

    keys: SortKeys
    bounds: bytes
    count: int


@dataclass
class Counted:
    """What was read for one or more ranges."""

    rows_read: int = 0
    rows_deleted: int = 0
    checksum: Checksum = field(default_factory=Checksum)

    def add(self, other: "Counted") -> None:
        self.rows_read += other.rows_read
        self.rows_deleted += other.rows_deleted
        self.checksum.merge(other.checksum)


@dataclass(frozen=True)
class Probe:
    """What some rows of a range became, put in order and encoded; none of it was written."""

    rows: int
    size_bytes: int
    counted: Counted
    """All that was read, if it is of the first range."""


@dataclass(frozen=True)
class WrittenRange:
    """A range, or several that were joined."""

    number: int
    files: tuple[WrittenFile, ...]
    counted: Counted
    """What the blobs' readers sent along; each of them sends it to one range."""
    written: Checksum


def divide(task: RewriteTask, *, cores: int) -> Division | None:
    """The division of a sort that gives several files, or none where one task does as well."""
    files = files_for(task.source_bytes, task.target_file_bytes)
    if task.order is None or task.output_spec is not None or files < 2 or len(task.sources) < 2:
        return None
    parts = min(len(task.sources), max(min(files, _MOST_RANGES), 2 * cores))
    share = task.source_bytes / parts
    reads: list[list[SourceFile]] = [[] for _ in range(parts)]
    seen = 0
    for source in task.sources:
        reads[min(parts - 1, int(seen / share))].append(source)
        seen += source.size_bytes
    return Division(task, tuple(_part(task, sources) for sources in reads if sources), ranges_for(files))


def ranges_for(files: int) -> int:
    """How many ranges there are to be, for about so many files."""
    few = min(_RANGES_OF_A_FILE_OF_FEW * files, _RANGES_OF_FEW_FILES)
    return min(max(few, _RANGES_OF_A_FILE * files), _MOST_RANGES)


def _part(task: RewriteTask, sources: Sequence[SourceFile]) -> RewriteTask:
    paths = {source.path for source in sources}
    return replace(
        task,
        sources=tuple(sources),
        position_deletes=tuple(
            file for file in task.position_deletes if (file.referenced_data_file or sources[0].path) in paths
        ),
    )


def sample(division: Division, read: RewriteTask) -> bytes:
    """Some rows of a part's files, with nothing but what the order looks at."""
    io, target = file_io(read), TargetSchema.of(read.read_schema)
    columns = len(read.schema.fields)
    step = math.ceil(len(read.sources) / _SAMPLED_FILES)
    chosen = read.sources[::step]
    wanted = max(1, _SAMPLE_ROWS * read.source_records // max(division.task.source_records, 1) // len(chosen))
    keep = {column_path(read.schema, column.field_id)[0] for column in read.order.columns} if read.order else set()
    found = []
    for source in chosen:
        batches = read_batches(
            io, source, target, name_mapping=name_mapping(read), identity_values=read.identity_values
        )
        first = next((batch for batch in batches if batch.num_rows), None)
        batches.close()
        if first is None:
            continue
        places = np.random.default_rng(0).integers(0, first.num_rows, min(wanted, first.num_rows))
        rows = first.select(list(range(columns))).take(pa.array(places))
        found.append(
            pa.RecordBatch.from_arrays(
                [
                    column if place in keep else pa.nulls(rows.num_rows, column.type)
                    for place, column in enumerate(rows.columns)
                ],
                schema=rows.schema,
            )
        )
    return _blob(found) if found else b""


def find_ranges(division: Division, samples: Iterable[bytes]) -> Ranges:
    """Ranges of about equally many rows, as the samples have them."""
    task = division.task
    keys = sort_keys(task.order, task.schema)
    batches = [batch for blob in samples if blob for batch in _batches(blob)]
    if not batches:
        return Ranges(keys, b"", 1)
    rows = pa.Table.from_batches(batches).combine_chunks()
    keys.fit(rows)
    with Workers(1) as workers:
        places = keys.order(rows, workers)
    starts = [len(places) * number // division.ranges for number in range(1, division.ranges)]
    bounds = rows.take(pa.array(places[starts]))
    return Ranges(keys, _blob(bounds.to_batches()), division.ranges)


def read_into_ranges(read: RewriteTask, ranges: Ranges, *, threads: int) -> Iterator[tuple[int, "bytes | Counted"]]:
    """The live rows of a part's files as Arrow blobs, each with its range; at the end, for one range, the counts."""
    with Readers(threads) as readers, Workers(threads) as workers:
        rows = TaskRows(file_io(read), read, readers)
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in rows.batches():
            held.append(batch)
            held_bytes += batch.nbytes
            # Spark holds several times as much before it passes blobs on.
            if held_bytes > read.memory_bytes // _BLOBS_HELD:
                yield from _by_range(held, ranges, workers)
                held, held_bytes = [], 0
        yield from _by_range(held, ranges, workers)
        yield 0, Counted(read.source_records, rows.deleted, rows.checksum or Checksum())


def _by_range(batches: list[pa.RecordBatch], ranges: Ranges, workers: Workers) -> Iterator[tuple[int, bytes]]:
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    bounds = _batches(ranges.bounds) if ranges.bounds else []
    before = sum(batch.num_rows for batch in bounds)
    # The first rows of the ranges are put in order with the rest: before rows that are equal to them.
    rows = pa.Table.from_batches([*bounds, *batches]).combine_chunks()
    places = ranges.keys.order(rows, workers)
    is_bound = places < before
    numbers = np.cumsum(is_bound)[~is_bound]
    places = places[~is_bound]
    for number in np.unique(numbers):
        first, last = np.searchsorted(numbers, [number, number + 1])
        yield int(number), _blob(rows.take(pa.array(places[first:last])).combine_chunks().to_batches())


def probed_ranges(ranges: Ranges) -> list[int]:
    """Some from all over the order; the first knows how many rows there are."""
    return list(range(0, ranges.count, math.ceil(ranges.count / _PROBED_RANGES)))


def probe_range(task: RewriteTask, ranges: Ranges, blobs: "Iterable[bytes | Counted]", *, threads: int) -> Probe:
    counted, received = Counted(), _Received()
    batches = received.batches(blobs, counted)
    with (
        Workers(threads) as workers,
        closing(in_order(batches, ranges.keys, memory_bytes=task.memory_bytes, workers=workers)) as ordered,
    ):
        rows, size_bytes = measured(task, ordered, workers)
    return Probe(rows, size_bytes, counted)


def joined_parts(task: RewriteTask, ranges: int, probes: Sequence[Probe]) -> int:
    """Into how many parts the ranges are joined, so that each makes a file of the target size.

    Where ranges are larger than that, each makes several.
    """
    live = sum(probe.counted.rows_read - probe.counted.rows_deleted for probe in probes)
    # Where few values come again and again, ranges can be empty, and so can all that were probed.
    seen = [(probe.rows, probe.size_bytes) for probe in probes if probe.rows]
    seen = seen or [(max(task.source_records, 1), task.source_bytes)]
    row_bytes = sum(size for _, size in seen) / sum(rows for rows, _ in seen)
    return min(files_for(live * row_bytes, task.target_file_bytes), ranges)


def ranges_of(part: int, *, parts: int, ranges: int) -> range:
    """Neighbours, and about as many for each part."""
    return range(part * ranges // parts, (part + 1) * ranges // parts)


def part_of(number: int, *, parts: int, ranges: int) -> int:
    """The part that a range is joined into."""
    return ((number + 1) * parts - 1) // ranges


def write_range(
    task: RewriteTask, ranges: Ranges, number: int, blobs: "Iterable[bytes | Counted]", *, threads: int
) -> WrittenRange:
    """Put the blobs of ranges that were joined in order and write them.

    On any error, nothing that was written stays behind.
    """
    io, counted, received = file_io(task), Counted(), _Received()
    with Workers(threads) as workers:
        ordered = in_order(
            received.batches(blobs, counted), ranges.keys, memory_bytes=task.memory_bytes, workers=workers
        )
        first = next(ordered, None)  # by now all blobs have been received
        if first is None:
            return WrittenRange(number, (), counted, Checksum())
        writer = RollingWriter(io, task, workers, rows_expected=lambda: received.rows)
        files = writer.write_all(chain([first], ordered))
    with discarded_on_error(task, RewriteResult(task.task_id, files, 0, 0)):
        written = written_checksum(io, task, files) if task.verify_contents else Checksum()
    return WrittenRange(number, files, counted, written)


@dataclass
class _Received:
    rows: int = 0

    def batches(self, blobs: "Iterable[bytes | Counted]", counted: Counted) -> Iterator[pa.RecordBatch]:
        for blob in blobs:
            if isinstance(blob, Counted):
                counted.add(blob)
                continue
            for batch in _batches(blob):
                self.rows += batch.num_rows
                yield batch


def join(task: RewriteTask, parts: Iterable[WrittenRange]) -> RewriteResult:
    """The outcome of the whole task, once it is certain that no row was lost or changed on the way."""
    ordered = sorted(parts, key=lambda part: part.number)
    read, written = Counted(), Checksum()
    for part in ordered:
        read.add(part.counted)
        written.merge(part.written)
    files = tuple(file for part in ordered for file in part.files)
    result = RewriteResult(task.task_id, files, rows_read=read.rows_read, rows_deleted=read.rows_deleted)
    with discarded_on_error(task, result):
        if read.rows_read != task.source_records:
            raise PartsMissing(
                f"table {task.table}, task {task.task_id}: {read.rows_read} of {task.source_records} rows were read"
            )
        require_same_rows(task, result)
        if task.verify_contents:
            require_same_contents(task, read.checksum, written)
    return result


def _blob(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write(batch)
    return bytes(sink.getvalue())


def _batches(blob: bytes) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(blob) as reader:
        return list(reader)
