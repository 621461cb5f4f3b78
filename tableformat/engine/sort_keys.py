"""In which order the rows of a table are: by columns, or along a z-order curve over several of them.

Rows are sorted by one number each; where numbers are the same for different values, those rows are compared in full.
Equal rows stay in the order in which they came, which merging sorted runs relies on.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import UUIDType

from tableformat.engine.deletes import column_path
from tableformat.engine.parallel import Workers
from tableformat.engine.sort_codes import (
    Codes,
    ColumnCodes,
    Numbers,
    column_codes,
    common_bytes,
    integers,
    is_bytes,
    packed,
    words,
)
from tableformat.engine.task import RowOrder, SortColumn
from tableformat.engine.transforms import transformed

_SAMPLE_ROWS = 100_000
_CURVE_BITS = 63
_WORD_BITS = 64
_PIECE_ROWS = 256 * 1024
_PIVOT_SAMPLE_ROWS = 10_000


class SortKeys:
    """What rows are compared by: its parts, one after the other."""

    def __init__(self, parts: "Sequence[_ColumnPart | _CurvePart]") -> None:
        self._parts = tuple(parts)

    def fit(self, rows: pa.Table) -> None:
        """Let parts that depend on how values are spread learn it from these rows, once and for all."""
        for part in self._parts:
            part.fit(rows)

    def order(self, rows: pa.Table, workers: Workers) -> Numbers:
        """The places of the rows in order."""
        if not self._parts:
            return np.arange(rows.num_rows)
        self.fit(rows)
        values = [part.values(rows, workers) for part in self._parts]
        codes = packed([part.codes(array) for part, array in zip(self._parts, values, strict=True)])
        places = _sorted_places(codes, workers)
        return places if codes.exact else self._settled(places, codes.codes, values)

    def _settled(self, places: Numbers, codes: Codes, values: list[pa.Array]) -> Numbers:
        """The places with those rows put in order that their codes do not tell apart."""
        ordered = codes[places]
        same = ordered[1:] == ordered[:-1]
        if not same.any():
            return places
        unsettled = np.flatnonzero(np.append(same, False) | np.append(False, same))
        group = np.cumsum(np.append(True, ~same))[unsettled]
        rows = places[unsettled]
        keys: dict[str, pa.Array] = {"g": pa.array(group), "r": pa.array(rows)}
        directions = [("g", "ascending")]
        for number, (part, array) in enumerate(zip(self._parts, values, strict=True)):
            own = array.take(keys["r"])
            keys[f"n{number}"] = own.is_null().cast(pa.int8())
            keys[f"k{number}"] = _float_order(own) if pa.types.is_floating(own.type) else own
            directions.append((f"n{number}", "descending" if part.nulls_first else "ascending"))
            directions.append((f"k{number}", "descending" if part.descending else "ascending"))
        directions.append(("r", "ascending"))
        places[unsettled] = rows[pc.sort_indices(pa.table(keys), sort_keys=directions).to_numpy()]
        return places


def sort_keys(order: RowOrder | None, schema: Schema, *, partitions: Sequence[SortColumn] = ()) -> SortKeys:
    """The keys of an order; rows of one partition come together if partitions are given."""
    parts: list[_ColumnPart | _CurvePart] = [_ColumnPart(column, schema) for column in partitions]
    if order is not None and order.z_order:
        parts.append(_CurvePart(order.columns, schema))
    elif order is not None:
        parts += [_ColumnPart(column, schema) for column in order.columns]
    return SortKeys(parts)


class _ColumnPart:
    """A column, or what a transform makes of it, with a direction and a place for nulls."""

    def __init__(self, column: SortColumn, schema: Schema) -> None:
        self._column = column
        self._path = column_path(schema, column.field_id)
        self._type = schema.find_type(column.field_id)
        self._is_uuid = isinstance(self._type, UUIDType)
        self.descending = column.descending
        self.nulls_first = column.nulls_first

    def fit(self, rows: pa.Table) -> None:
        """Values are compared as they are."""

    def values(self, rows: pa.Table, workers: Workers) -> pa.Array:  # noqa: ARG002 - the curve needs them
        values = transformed(_comparable(rows, self._path), self._column.transform, self._type)
        return _uuid_order(values) if pa.types.is_fixed_size_binary(values.type) and self._is_uuid else values

    def codes(self, values: pa.Array) -> ColumnCodes:
        return column_codes(values, descending=self.descending, nulls_first=self.nulls_first)


class _CurvePart:
    """One number a row: its place on a z-order curve.

    Each column's values are first replaced by the range of equally many rows that they fall into, as a sample has it;
    so columns of any type and spread weigh alike. The sample decides how well rows cluster, never which rows there are.
    """

    descending = False
    nulls_first = True

    def __init__(self, columns: Sequence[SortColumn], schema: Schema) -> None:
        self._paths = [column_path(schema, column.field_id) for column in columns]
        # Ranges so many that a file's share of the curve is exact, and so few that they stay in a core's cache.
        self._bits = min(12, _CURVE_BITS // len(self._paths))
        self._curves: list[_CurveColumn] | None = None

    def fit(self, rows: pa.Table) -> None:
        if self._curves is None and rows.num_rows:
            self._curves = [
                _CurveColumn(_comparable(rows, path), self._bits, number, len(self._paths))
                for number, path in enumerate(self._paths)
            ]

    def values(self, rows: pa.Table, workers: Workers) -> pa.Array:
        columns, curves = [_comparable(rows, path) for path in self._paths], self._curves or []

        def place(start: int) -> Codes:
            found = np.zeros(min(_PIECE_ROWS, rows.num_rows - start), np.uint64)
            for curve, column in zip(curves, columns, strict=True):
                found |= curve.of(column.slice(start, _PIECE_ROWS))
            return found

        pieces = list(workers.map(place, range(0, rows.num_rows, _PIECE_ROWS)))
        return pa.array(np.concatenate(pieces) if pieces else np.zeros(0, np.uint64))

    def codes(self, values: pa.Array) -> ColumnCodes:
        return ColumnCodes(values.to_numpy(), self._bits * len(self._paths), exact=True)


class _CurveColumn:
    """A column's share of the place on the curve. What the first rows taught it holds for all that come later."""

    def __init__(self, column: pa.Array, bits: int, number: int, columns: int) -> None:
        self._skip = common_bytes(column) if is_bytes(column.type) else 0
        sample = column.take(pa.array(np.random.default_rng(0).integers(0, len(column), _SAMPLE_ROWS)))
        shares = np.linspace(0, 1, (1 << bits) + 1)[1:-1]
        self._limits = np.sort(self._codes(sample))[(shares * (len(sample) - 1)).astype(np.int64)]
        ranks = np.arange(1 << bits, dtype=np.uint64)
        self._spread = np.zeros(1 << bits, np.uint64)
        for bit in range(bits):
            # The first column has the highest bit of each round.
            shift = np.uint64(bit * columns + columns - 1 - number)
            self._spread |= ((ranks >> np.uint64(bit)) & np.uint64(1)) << shift

    def of(self, column: pa.Array) -> Codes:
        return self._spread.take(np.searchsorted(self._limits, self._codes(column), side="right"))

    def _codes(self, column: pa.Array) -> Codes:
        codes, _ = words(column, skip=self._skip)
        codes = (codes >> np.uint64(1)) + np.uint64(1)  # room below for nulls
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return codes


def _sorted_places(codes: ColumnCodes, workers: Workers) -> Numbers:
    """Where the rows are that come first, second and so on. Each core sorts a range of the codes."""
    rows = len(codes.codes)
    if rows < _PIECE_ROWS or workers.cores == 1:
        return _places_within(codes, np.arange(rows))
    sample = np.sort(codes.codes.take(np.random.default_rng(0).integers(0, rows, _PIVOT_SAMPLE_ROWS)))
    pivots = np.unique(sample[np.linspace(0, len(sample), workers.cores, endpoint=False).astype(np.int64)[1:]])

    def part(number: int) -> Numbers:
        above = codes.codes >= pivots[number - 1] if number else np.ones(rows, bool)
        if number < len(pivots):
            above &= codes.codes < pivots[number]
        return _places_within(codes, np.flatnonzero(above))

    return np.concatenate(list(workers.map(part, range(len(pivots) + 1))))


def _places_within(codes: ColumnCodes, places: Numbers) -> Numbers:
    """The places by their codes, and by themselves where codes are the same and exact."""
    mine, index_bits = codes.codes.take(places), max(1, len(places).bit_length())
    if codes.bits + index_bits <= _WORD_BITS:
        # A number with its index in its last bits is sorted several times as fast as an index by a number.
        mine = (mine << np.uint64(index_bits)) | np.arange(len(mine), dtype=np.uint64)
        mine.sort()
        return places.take((mine & np.uint64((1 << index_bits) - 1)).astype(np.int64))
    return places.take(np.argsort(mine, kind="stable" if codes.exact else None))


def _comparable(rows: pa.Table, path: tuple[int, ...]) -> pa.Array:
    """A column as one array, through structs, in its stored form."""
    column = rows.column(path[0])
    for position in path[1:]:
        column = pc.struct_field(column, position)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _uuid_order(column: pa.Array) -> pa.Array:
    """Java's order, in which a UUID is two signed numbers. With the signs turned, bytes are in the numbers' order."""
    halves = np.frombuffer(column.buffers()[1] or b"", np.uint8).reshape(-1, 16).copy()
    halves[:, [0, 8]] ^= 0x80
    buffers = [column.buffers()[0], pa.py_buffer(halves)]
    return pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset)


def _float_order(column: pa.Array) -> pa.Array:
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(integers(column), mask=nulls)
