"""Puts the rows of a task in order, within a limit of memory.

Beyond its memory a sort continues on local disk: sorted runs are spilled and merged in small pieces, so that what a
task holds does not depend on how many rows it has. What the order is, `sort_keys` knows.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from tableformat.engine.errors import NoRoomToSort
from tableformat.engine.parallel import Workers, in_turn
from tableformat.engine.sort_codes import Numbers
from tableformat.engine.sort_keys import SortKeys

_PIECE_ROWS = 128 * 1024
_PIECE_BYTES = 8 * 1024 * 1024
_PIECES_AHEAD = 8


def in_order(
    batches: Iterable[pa.RecordBatch], keys: SortKeys, *, memory_bytes: int, workers: Workers
) -> Iterator[pa.RecordBatch]:
    """The rows of all batches in order."""
    with ExitStack() as cleanup:
        runs: list[_Run] = []
        held = _Held()
        for batch in batches:
            if not batch.num_rows:
                continue
            held.add(batch)
            # The rows of a run are held once; beside them are one column of them, their keys, and pieces on their way.
            if held.size_bytes > memory_bytes // 2:
                runs.append(_spilled(held, keys, workers, cleanup))
                held = _Held()
        if not runs:
            yield from held.in_order(keys, workers)
            return
        if held.size_bytes:
            runs.append(_spilled(held, keys, workers, cleanup))
        del held
        yield from _merged(runs, keys, workers)


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

    def in_order(self, keys: SortKeys, workers: Workers) -> Iterator[pa.RecordBatch]:
        """Gives the rows away in order; nothing is held any more afterwards."""
        if self._schema is None:
            return
        rows = pa.RecordBatch.from_arrays(list(workers.map(_together, self._columns)), schema=self._schema)
        places = keys.order(pa.Table.from_batches([rows]), workers)
        yield from _taken(rows, places, workers, self.size_bytes)


def _together(pieces: list[pa.Array]) -> pa.Array:
    array = pa.concat_arrays(pieces)
    pieces.clear()
    return array


def _taken(rows: pa.RecordBatch, places: Numbers, workers: Workers, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows at these places, in pieces that the cores make ahead."""
    indices = pa.array(places)
    piece = _piece_rows(size_bytes, rows.num_rows)
    starts = range(0, len(indices), piece)
    for _, batch in in_turn(
        workers,
        starts,
        lambda start: rows.take(indices.slice(start, piece)),
        weight=lambda _: 1,
        limit=max(_PIECES_AHEAD, workers.cores),
    ):
        yield batch


def _piece_rows(size_bytes: int, rows: int) -> int:
    """So many rows that a piece is small, however wide they are."""
    return max(1, min(_PIECE_ROWS, _PIECE_BYTES * rows // max(size_bytes, 1)))


def _spilled(held: _Held, keys: SortKeys, workers: Workers, cleanup: ExitStack) -> "_Run":
    folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-sort-"))
    return _Run(Path(folder), held.in_order(keys, workers), held.size_bytes)


class _Run:
    """Rows in order on local disk, read back in pieces."""

    def __init__(self, folder: Path, rows: Iterator[pa.RecordBatch], size_bytes: int) -> None:
        self._path = folder / "run.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        first = next(rows)
        try:
            with (
                pa.OSFile(str(self._path), "wb") as sink,
                pa.ipc.new_file(sink, first.schema, options=options) as writer,
            ):
                writer.write(first)
                for batch in rows:
                    writer.write(batch)
        except OSError as error:
            raise NoRoomToSort(str(folder), size_bytes, str(error)) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path), "rb") as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def _merged(runs: list[_Run], keys: SortKeys, workers: Workers) -> Iterator[pa.RecordBatch]:
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
        places = keys.order(together, workers)
        owners = owner[places]
        certain = len(places)
        for number, _ in parts:
            if more[number]:
                certain = min(certain, int(np.flatnonzero(owners == number)[-1]) + 1)
        rows = together.to_batches()[0]
        yield from _taken(rows, places[:certain], workers, together.nbytes)
        given = np.bincount(owners[:certain], minlength=len(runs))
        for number, table in parts:
            # Within a run rows leave in their own order: the sort is stable, and the run is in order.
            held[number] = table.slice(int(given[number]))
