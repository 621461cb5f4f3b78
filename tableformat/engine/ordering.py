"""Puts the rows of a task in order: by columns, or along a z-order curve over several of them.

Beyond its memory a sort continues on local disk: sorted runs are spilled and merged in small pieces, so that what a
task holds does not depend on how many rows it has. The order is Iceberg's: NaN is greater than every other number,
-0.0 is less than 0.0, and each column says where its nulls go.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tableformat.engine.deletes import column_path
from tableformat.engine.task import RowOrder

Codes = np.ndarray[Any, np.dtype[np.uint64]]
_OUT_ROWS = 64 * 1024
_SAMPLE_ROWS = 100_000
_CURVE_BITS = 63


def in_order(
    batches: Iterable[pa.RecordBatch], order: RowOrder, schema: Schema, *, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of all batches in order."""
    keys: _ColumnKeys | _CurveKeys = _CurveKeys(order, schema) if order.z_order else _ColumnKeys(order, schema)
    with ExitStack() as cleanup:
        runs: list[_Run] = []
        pending: list[pa.RecordBatch] = []
        pending_bytes = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            pending.append(batch)
            pending_bytes += batch.nbytes
            # Sorting makes a copy, so a run may have a third of the memory.
            if pending_bytes > memory_bytes // 3:
                folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-sort-"))
                runs.append(_Run(Path(folder), _sorted(pa.Table.from_batches(pending), keys)))
                pending, pending_bytes = [], 0
        if not pending and not runs:
            return
        rest = _sorted(pa.Table.from_batches(pending), keys) if pending else None
        if not runs and rest is not None:
            yield from rest.to_batches(max_chunksize=_OUT_ROWS)
            return
        if rest is not None:
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-sort-"))
            runs.append(_Run(Path(folder), rest))
        rest = None
        yield from _merged(runs, keys)


def _sorted(table: pa.Table, keys: "_ColumnKeys | _CurveKeys") -> pa.Table:
    table = table.combine_chunks()
    return table.take(pc.sort_indices(keys.of(table), sort_keys=keys.directions))


class _ColumnKeys:
    """Sort keys for an order by columns: each column, and before it whether it is null."""

    def __init__(self, order: RowOrder, schema: Schema) -> None:
        self._columns = [(column, column_path(schema, column.field_id)) for column in order.columns]
        self.directions: list[tuple[str, str]] = []
        for number, column in enumerate(order.columns):
            self.directions.append((f"n{number}", "descending" if column.nulls_first else "ascending"))
            self.directions.append((f"k{number}", "descending" if column.descending else "ascending"))

    def of(self, table: pa.Table) -> pa.Table:
        columns: dict[str, pa.ChunkedArray | pa.Array] = {}
        for number, (_, path) in enumerate(self._columns):
            values = _comparable(table, path)
            columns[f"n{number}"] = values.is_null().cast(pa.int8())
            columns[f"k{number}"] = values
        return pa.table(columns)


class _CurveKeys:
    """One number a row: its place on a z-order curve.

    Each column's values are first replaced by the range of equally many rows that they fall into, as a sample has it;
    so columns of any type and spread weigh alike. The sample decides how well rows cluster, never which rows there are.
    """

    directions: Sequence[tuple[str, str]] = (("z", "ascending"),)

    def __init__(self, order: RowOrder, schema: Schema) -> None:
        self._paths = [column_path(schema, column.field_id) for column in order.columns]
        self._bits = min(16, _CURVE_BITS // len(self._paths))
        self._limits: list[Codes] | None = None

    def of(self, table: pa.Table) -> pa.Table:
        codes = [_codes(_comparable(table, path)) for path in self._paths]
        if self._limits is None:
            step = max(1, table.num_rows // _SAMPLE_ROWS)
            places = np.linspace(0, 1, (1 << self._bits) + 1)[1:-1]
            self._limits = [
                np.sort(column[::step])[(places * (len(column[::step]) - 1)).astype(np.int64)] for column in codes
            ]
        place = np.zeros(table.num_rows, dtype=np.uint64)
        ranks = [
            np.searchsorted(limits, column, side="right").astype(np.uint64)
            for limits, column in zip(self._limits, codes, strict=True)
        ]
        for bit in range(self._bits - 1, -1, -1):
            for rank in ranks:
                place = (place << np.uint64(1)) | ((rank >> np.uint64(bit)) & np.uint64(1))
        return pa.table({"z": pa.array(place)})


def _comparable(table: pa.Table, path: tuple[int, ...]) -> pa.ChunkedArray:
    column = table.column(path[0])
    for position in path[1:]:
        column = pc.struct_field(column, position)
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_floating(column.type):
        return pa.chunked_array([_float_order(chunk) for chunk in column.chunks], pa.int64())
    return column


def _float_order(column: pa.Array) -> pa.Array:
    """Integers in the order of the numbers: NaN greatest, -0.0 below 0.0."""
    nulls = column.is_null()
    bits = pc.fill_null(column, 0).cast(pa.float64()).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(bits), np.float64("nan"), bits).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return pa.array(ordered, mask=nulls.to_numpy(zero_copy_only=False))


def _codes(column: pa.ChunkedArray) -> Codes:
    """Numbers in the order of the values, nulls lowest. Of texts and bytes the beginning counts."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    kind = array.type
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_decimal(kind):
        codes = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        codes = _float_order(pa.array(codes)).to_numpy(zero_copy_only=False).view(np.uint64) ^ np.uint64(1 << 63)
    elif pa.types.is_boolean(kind):
        codes = array.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    elif _is_bytes(kind):
        codes = _prefixes(array)
    else:
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        numbers = array.view(width).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        codes = numbers.view(np.uint64) ^ np.uint64(1 << 63)
    codes = (codes >> np.uint64(1)) + np.uint64(1)  # room below for nulls
    return np.where(nulls, np.uint64(0), codes)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _prefixes(array: pa.Array) -> Codes:
    """The first eight bytes of each value as a number."""
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary()).cast(pa.large_binary())
    values = array.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    data = np.append(data, np.zeros(8, np.uint8))
    lengths = np.minimum(offsets[1:] - offsets[:-1], 8)
    codes = np.zeros(len(values), np.uint64)
    for place in range(8):
        byte = np.where(lengths > place, data[np.minimum(offsets[:-1] + place, len(data) - 1)], 0)
        codes = (codes << np.uint64(8)) | byte.astype(np.uint64)
    return codes


class _Run:
    """Rows in order on local disk, read back in pieces."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        path = folder / "run.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema, options=options) as writer:
            writer.write_table(rows, max_chunksize=_OUT_ROWS)
        self._path = path

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path), "rb") as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def _merged(runs: list[_Run], keys: _ColumnKeys | _CurveKeys) -> Iterator[pa.RecordBatch]:
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
        together = pa.concat_tables([table for _, table in parts])
        owner = np.concatenate([np.full(table.num_rows, number) for number, table in parts])
        order = pc.sort_indices(keys.of(together), sort_keys=keys.directions).to_numpy()
        owners = owner[order]
        certain = len(order)
        for number, _ in parts:
            if more[number]:
                certain = min(certain, int(np.flatnonzero(owners == number)[-1]) + 1)
        yield from together.take(pa.array(order[:certain])).to_batches(max_chunksize=_OUT_ROWS)
        given = np.bincount(owners[:certain], minlength=len(runs))
        for number, table in parts:
            # Within a run rows leave in their own order: the sort is stable, and the run is in order.
            held[number] = table.slice(int(given[number]))
