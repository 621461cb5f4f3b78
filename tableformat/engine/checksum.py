"""A checksum of rows as a multiset: the same for the same rows in any order, in any division into batches and files.

Every bit of every value counts, nulls and the lengths of lists included. It is made to notice a rewrite that lost,
doubled or changed rows, not to withstand somebody who wants it fooled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
_P = np.uint64(0x9E3779B97F4A7C15)
_P_INVERSE = np.uint64(pow(int(_P), -1, 2**64))
_NULL = np.uint64(0xD1B54A32D192ED03)
_WORD_BYTES, _SHORT_BYTES = 8, 64


@dataclass
class Checksum:
    rows: int = 0
    total: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self.total = (self.total + int(row_hashes(batch.columns).sum(dtype=np.uint64))) % 2**64
        self.rows += batch.num_rows

    def merge(self, other: "Checksum") -> None:
        self.rows += other.rows
        self.total = (self.total + other.total) % 2**64


def row_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """One number for each row, equal for rows that have the same bits in all columns."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    if not len(hashes):  # no rows may have no buffers
        return hashes
    with np.errstate(over="ignore"):
        for column in columns:
            hashes = _mix(hashes * _P + _hashes(column))
    return hashes


def _mix(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hashes(array: pa.Array) -> Hashes:
    """One number for each value, equal for equal values."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind = array.type
    if not len(array):  # it may have no buffers, or those of another width
        return np.zeros(0, np.uint64)
    if pa.types.is_struct(kind):
        hashes = np.zeros(len(array), np.uint64)
        for position in range(kind.num_fields):
            hashes = _mix(hashes * _P + _hashes(array.field(position)))
    elif pa.types.is_large_list(kind) or pa.types.is_map(kind):
        hashes = _nested_hashes(array)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        hashes = _text_hashes(array)
    else:
        hashes = _fixed_hashes(array)
    if array.null_count:
        hashes = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _text_hashes(array: pa.Array) -> Hashes:
    """Short ones eight bytes at a time, all of them at once; long ones byte by byte, which no length makes slower."""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    hashes = _mix(lengths.astype(np.uint64) * _NULL)
    padded = np.append(data, np.zeros(_WORD_BYTES, np.uint8))
    word_at = np.ndarray(len(data) + 1, "<u8", padded, strides=(1,))
    is_short = lengths <= _SHORT_BYTES
    for start in range(0, int(lengths.max(where=is_short, initial=0)), _WORD_BYTES):
        rows = np.flatnonzero(is_short & (lengths > start))
        unused = np.maximum(0, start + _WORD_BYTES - lengths[rows]).astype(np.uint64) * np.uint64(8)
        # What lies behind the value is shifted out.
        hashes[rows] = _mix(hashes[rows] * _P + (word_at[offsets[rows] + start] << unused) + np.uint64(1))
    if not is_short.all():
        rows = np.flatnonzero(~is_short)
        ends = np.append(0, np.cumsum(lengths[rows]))
        long = data[np.repeat(~is_short, lengths)]
        hashes[rows] = _sequence_hashes(long.astype(np.uint64) + np.uint64(1), ends)
    return hashes


def _nested_hashes(array: pa.Array) -> Hashes:
    if pa.types.is_map(array.type):
        children = _mix(_hashes(array.keys) * _P + _hashes(array.items))
        width: Any = np.int32
    else:
        children, width = _hashes(array.values), np.int64
    offsets = np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return _sequence_hashes(_mix(children[offsets[0] : offsets[-1]]), offsets - offsets[0])


def _sequence_hashes(items: Hashes, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> Hashes:
    """A polynomial of the items of each sequence, for all sequences at once by differences of a running sum."""
    powers = np.cumprod(np.full(len(items) + 1, _P, np.uint64))
    inverses = np.cumprod(np.full(len(items) + 1, _P_INVERSE, np.uint64))
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items * powers[: len(items)], dtype=np.uint64)])
    sums = (running[offsets[1:]] - running[offsets[:-1]]) * inverses[offsets[:-1]]
    return _mix(sums + (offsets[1:] - offsets[:-1]).astype(np.uint64) * _NULL)


def _fixed_hashes(array: pa.Array) -> Hashes:
    if pa.types.is_boolean(array.type):
        return _mix(array.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64) + np.uint64(1))
    width = array.type.bit_width // 8
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    words = np.zeros((len(array), -(-width // 8) * 8), np.uint8)
    words[:, :width] = data.reshape(len(array), width)
    hashes = np.zeros(len(array), np.uint64)
    for word in words.view(np.uint64).T:
        hashes = _mix(hashes * _P + word + np.uint64(1))
    return hashes
