"""Puts the rows of a task in order, within a limit of memory.

Beyond its memory a sort continues on local disk: sorted runs are spilled and merged in small pieces, only so many at a
time as the memory has room for, so that what a task holds does not depend on how many rows it has. What the order is,
`sort_keys` knows.
"""

import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tableformat.engine.errors import NoRoomToSort
from tableformat.engine.parallel import Workers, in_turn
from tableformat.engine.sort_codes import Numbers
from tableformat.engine.sort_keys import SortKeys

_PIECE_ROWS = 128 * 1024
_LEAST_PIECE_BYTES, _MOST_PIECE_BYTES = 16 * 1024, 8 * 1024 * 1024
_PIECES_AHEAD = 8
_RUNS_AT_ONCE = 16
# Room for a piece of each run that is merged, for all of these in one, for their keys, and for pieces on their way.
_PIECES_IN_MEMORY = 64


def in_order(
    batches: Iterable[pa.RecordBatch], keys: SortKeys, *, memory_bytes: int, workers: Workers
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of all batches in order; the first comes when all of them have been taken."""
    piece_bytes = min(max(memory_bytes // _PIECES_IN_MEMORY, _LEAST_PIECE_BYTES), _MOST_PIECE_BYTES)
    sort = _Sort(keys, workers, piece_bytes)
    with ExitStack() as cleanup:
        spilled = _Spilled(cleanup)
        runs: list[_Run] = []
        held = _Held()
        for batch in batches:
            if not batch.num_rows:
                continue
            held.add(batch)
            # The rows of a run are held once; beside them are one column of them, their keys, and pieces on their way.
            if held.size_bytes > memory_bytes // 2:
                runs.append(spilled.run(held.in_order(sort), held.size_bytes))
                held = _Held()
        if not runs:
            yield from held.in_order(sort)
            return
        if held.size_bytes:
            runs.append(spilled.run(held.in_order(sort), held.size_bytes))
        del held
        while len(runs) > _RUNS_AT_ONCE:
            runs = _fewer(runs, sort, spilled)
        yield from _merged(runs, sort)


@dataclass(frozen=True)
class _Sort:
    """What rows are ordered by, and how they are handed on."""

    keys: SortKeys
    workers: Workers
    piece_bytes: int

    def places(self, rows: pa.Table) -> Numbers:
        return self.keys.order(rows, self.workers)

    def taken(self, rows: pa.RecordBatch, places: Numbers, size_bytes: int) -> Iterator[pa.RecordBatch]:
        """The rows at these places, in pieces that the cores make ahead; a piece is small, however wide rows are."""
        indices = pa.array(places)
        piece = max(1, min(_PIECE_ROWS, self.piece_bytes * rows.num_rows // max(size_bytes, 1)))
        for _, batch in in_turn(
            self.workers,
            range(0, len(indices), piece),
            lambda start: rows.take(indices.slice(start, piece)),
            weight=lambda _: 1,
            limit=max(_PIECES_AHEAD, self.workers.cores),
        ):
            yield batch


class _Held:
    """Rows in memory, column by column, so that a column's many pieces can go as soon as it is one."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._schema: pa.Schema | None = None
        self._columns: list[list[pa.Array]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if self._schema is None:
            self._schema = batch.schema
            self._columns = [[] for _ in batch.columns]
        for pieces, column in zip(self._columns, batch.columns, strict=True):
            pieces.append(column)
        self.size_bytes += batch.nbytes

    def in_order(self, sort: _Sort) -> Iterator[pa.RecordBatch]:
        """Gives the rows away in order; nothing is held any more afterwards."""
        if self._schema is None:
            return
        rows = pa.RecordBatch.from_arrays(list(sort.workers.map(_together, self._columns)), schema=self._schema)
        yield from sort.taken(rows, sort.places(pa.Table.from_batches([rows])), self.size_bytes)


def _together(pieces: list[pa.Array]) -> pa.Array:
    array = pa.concat_arrays(pieces)
    pieces.clear()
    return array


class _Spilled:
    """A folder with the runs of one sort, if it has any."""

    def __init__(self, cleanup: ExitStack) -> None:
        self._cleanup = cleanup
        self._folder: Path | None = None
        self._runs = 0

    def run(self, rows: Iterator[pa.RecordBatch], size_bytes: int) -> "_Run":
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix="tablewright-sort-")
            self._folder = Path(self._cleanup.enter_context(made))
        self._runs += 1
        path = self._folder / f"{self._runs}.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        first = next(rows)
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema, options=options) as writer:
                writer.write(first)
                for batch in rows:
                    writer.write(batch)
        except OSError as error:
            raise NoRoomToSort(str(self._folder), size_bytes, str(error)) from error
        return _Run(path, size_bytes)


@dataclass(frozen=True)
class _Run:
    """Rows in order on local disk, read back in pieces."""

    path: Path
    size_bytes: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self.path), "rb") as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def _fewer(runs: Sequence[_Run], sort: _Sort, spilled: _Spilled) -> list[_Run]:
    """Merge neighbours, no more of them than it takes, and as many at once as may be."""
    merged: list[_Run] = []
    place, too_many = 0, len(runs) - _RUNS_AT_ONCE
    while place < len(runs):
        group = runs[place : place + min(_RUNS_AT_ONCE, too_many + 1)]
        if len(group) > 1:
            merged.append(spilled.run(_merged(group, sort), sum(run.size_bytes for run in group)))
            for run in group:
                run.path.unlink()
        else:
            merged += group
        place, too_many = place + len(group), too_many - len(group) + 1
    return merged


def _merged(runs: Sequence[_Run], sort: _Sort) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs: what is certain to come before everything unread is given out, the rest waits.

    A row is certain once no run has unread rows that could precede it: up to the first of the last rows that are held
    of runs with more to read.
    """
    readers = [run.batches() for run in runs]
    held: list[pa.Table | None] = [None] * len(runs)
    more = [True] * len(runs)
    while True:
        for number, reader in enumerate(readers):
            table = held[number]
            if more[number] and (table is None or not table.num_rows):
                batch = next(reader, None)
                more[number] = batch is not None
                held[number] = None if batch is None else pa.Table.from_batches([batch])
        parts = [(number, table) for number, table in enumerate(held) if table is not None and table.num_rows]
        if not parts:
            return
        together = pa.concat_tables([table for _, table in parts]).combine_chunks()
        owner = np.concatenate([np.full(table.num_rows, number) for number, table in parts])
        places = sort.places(together)
        owners = owner[places]
        certain = len(places)
        for number, _ in parts:
            if more[number]:
                certain = min(certain, int(np.flatnonzero(owners == number)[-1]) + 1)
        rows = together.to_batches()[0]
        yield from sort.taken(rows, places[:certain], together.nbytes)
        given = np.bincount(owners[:certain], minlength=len(runs))
        for number, table in parts:
            # Within a run rows leave in their own order: the sort is stable, and the run is in order.
            held[number] = table.slice(int(given[number]))
