"""Numbers that stand for values in their order, so that rows are sorted by one 64-bit number each.

A code never contradicts the order of the values: a smaller code means a smaller value. It may be the same for values
that differ (texts that begin alike); such a code is not exact, and rows with the same one are compared in full.
The order is Iceberg's: NaN is greater than every other number, -0.0 is less than 0.0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Codes = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
_WORD_BITS = 64
_INT64_DIGITS = 18
_SAMPLE_ROWS = 10_000
_FEW_VALUES = 0.2


@dataclass(frozen=True)
class ColumnCodes:
    """The codes of one column: from nought to less than two to the power of `bits`."""

    codes: Codes
    bits: int
    exact: bool


def packed(columns: Sequence[ColumnCodes]) -> ColumnCodes:
    """One code for the columns in turn, as far as they fit a word."""
    word, used, exact = columns[0].codes, columns[0].bits, columns[0].exact
    for column in columns[1:]:
        if not exact:
            break  # what is behind a column counts only where that column's values are the same
        kept = min(column.bits, _WORD_BITS - used)
        if not kept:
            return ColumnCodes(word, used, exact=False)
        word = (word << np.uint64(kept)) | (column.codes >> np.uint64(column.bits - kept))
        used, exact = used + kept, column.exact and kept == column.bits
    return ColumnCodes(word, used, exact)


def column_codes(array: pa.Array, *, descending: bool, nulls_first: bool) -> ColumnCodes:
    """The codes of a column in one direction, with its nulls at one end."""
    if is_bytes(array.type) and _has_few_values(array):
        return _of_ranks(array, descending, nulls_first)
    values, exact = words(array, skip=common_bytes(array) if is_bytes(array.type) else 0)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return _normalised(values, nulls, exact=exact, descending=descending, nulls_first=nulls_first)


def words(array: pa.Array, *, skip: int = 0) -> tuple[Codes, bool]:
    """A number for each value that depends on nothing else, and whether different values have different ones.

    Of texts and bytes eight count, from behind the first `skip`. Nulls have any number.
    """
    kind = array.type
    if is_bytes(kind):
        return prefixes(array, skip=skip), False
    if pa.types.is_decimal(kind) and kind.precision > _INT64_DIGITS:
        rounded = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _unsigned(_float_bits(rounded)), False
    return _unsigned(integers(array)), True


def _normalised(values: Codes, nulls: Any, *, exact: bool, descending: bool, nulls_first: bool) -> ColumnCodes:
    """Codes from one upwards in as few bits as there are, which leaves nought and the largest for nulls."""
    known = values if nulls is None else values[~nulls]
    if not len(known):
        return ColumnCodes(np.zeros(len(values), np.uint64), 1, exact=True)
    low, high = int(known.min()), int(known.max())
    codes = np.uint64(high) - values if descending else values - np.uint64(low)
    span = high - low
    if span > 2**_WORD_BITS - 3:
        codes, span, exact = codes >> np.uint64(1), span >> 1, False
    codes += np.uint64(1)
    if nulls is not None:
        codes[nulls] = 0 if nulls_first else span + 2
    return ColumnCodes(codes, (span + 2).bit_length(), exact)


def _has_few_values(array: pa.Array) -> bool:
    """Whether a sample says that values come again and again: then their ranks are the shortest codes."""
    if not len(array):
        return False
    places = np.random.default_rng(0).integers(0, len(array), _SAMPLE_ROWS)
    return bool(pc.count_distinct(array.take(pa.array(places))).as_py() < _FEW_VALUES * _SAMPLE_ROWS)


def _of_ranks(array: pa.Array, descending: bool, nulls_first: bool) -> ColumnCodes:
    encoded = pc.dictionary_encode(array)
    ranks = np.empty(len(encoded.dictionary), np.uint64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks), dtype=np.uint64)
    if not len(ranks):
        return ColumnCodes(np.zeros(len(array), np.uint64), 1, exact=True)
    codes = ranks[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return _normalised(codes, nulls, exact=True, descending=descending, nulls_first=nulls_first)


def integers(array: pa.Array) -> Numbers:
    """Integers in the order of the values; any for nulls."""
    kind = array.type
    if pa.types.is_floating(kind):
        return _float_bits(pc.fill_null(array, 0).cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(kind):
        return np.asarray(array.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_decimal(kind):
        # The low half of each number, which holds all of so few digits.
        halves = np.frombuffer(array.buffers()[1], np.int64)
        return halves[0::2][array.offset : array.offset + len(array)]
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return np.asarray(array.view(width).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _float_bits(numbers: Any) -> Numbers:
    bits = np.where(np.isnan(numbers), np.float64("nan"), numbers).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def _unsigned(numbers: Numbers) -> Codes:
    return numbers.view(np.uint64) ^ np.uint64(1 << 63)


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _as_large_binary(array: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return array.cast(pa.large_binary())


def common_bytes(array: pa.Array) -> int:
    """How many bytes all values begin with: they say nothing about the order."""
    if not len(array):
        return 0
    values = _as_large_binary(array)
    # A few values that have nothing in common spare the look at all of them.
    return _common_bytes(values) if _common_bytes(values.slice(len(values) // 2, _SAMPLE_ROWS)) else 0


def _common_bytes(values: pa.Array) -> int:
    ends = pc.min_max(values).as_py()
    first, last = ends["min"] or b"", ends["max"] or b""
    length = min(len(first), len(last))
    return next((place for place in range(length) if first[place] != last[place]), length)


def prefixes(array: pa.Array, *, skip: int) -> Codes:
    """Eight bytes of each value as a number, from behind the first `skip`; what is shorter is filled with zeros."""
    values = _as_large_binary(array)
    if not len(values):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    content = np.frombuffer(values.buffers()[2] or b"", np.uint8)[first:last]
    padded = np.concatenate([content, np.zeros(8, np.uint8)])
    # A view of the bytes as a number at every place, of which those are taken where values begin.
    words = np.ndarray((len(content) + 1,), ">u8", padded.data, strides=(1,))
    starts = np.minimum(offsets[:-1] - first + skip, len(content))
    lengths = offsets[1:] - offsets[:-1] - skip
    codes = words[starts].astype(np.uint64)
    short = np.flatnonzero(lengths < 8)
    if len(short):
        # Bytes behind a value's end belong to the next one.
        unused = (np.uint64(8) * (8 - np.maximum(lengths[short], 0)).astype(np.uint64)) & np.uint64(63)
        cut = (codes[short] >> unused) << unused
        codes[short] = np.where(lengths[short] <= 0, np.uint64(0), cut)
    return codes
