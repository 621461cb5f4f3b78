"""Which keys of an equality delete file Iceberg's Java library keeps, if columns inside structs are among them.

Java's loader gives all rows of a delete file one wrapper for each top-level struct. When its hash set compares two rows
with the same hash, it compares such a wrapper with itself: the rows are equal, and the second is dropped, although its
key may be another. Null and 0 have the same hash, as have 0 and -1 of type long. A row that only the dropped key names
is live to whoever reads through this loader, and must not be deleted here. Hence Java's hash codes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tableformat.engine.checksum import row_hashes

Hashes = np.ndarray[Any, np.dtype[np.uint32]]
_TRUE, _FALSE = 1231, 1237


def kept_by_java(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of one delete file without those that Java drops; the columns are its key columns, and no others."""
    if not any(pa.types.is_struct(field.type) for batch in batches[:1] for field in batch.schema):
        return list(batches)
    marks = np.concatenate([row_hashes(_seen_by_java(batch)) for batch in batches])
    _, first = np.unique(marks, return_index=True)
    kept = np.zeros(len(marks), np.bool_)
    kept[first] = True
    ends = np.cumsum([batch.num_rows for batch in batches])
    return [batch.filter(pa.array(kept[end - batch.num_rows : end])) for end, batch in zip(ends, batches, strict=True)]


def _seen_by_java(batch: pa.RecordBatch) -> list[pa.Array]:
    """Rows are one to Java's set if they are the same in all of these."""
    columns = [column.is_null() if pa.types.is_struct(column.type) else column for column in batch.columns]
    return [pa.array(_struct_hashes(batch.columns)), *columns]


def _struct_hashes(fields: Sequence[pa.Array]) -> Hashes:
    hashes = np.full(len(fields[0]), 97 * 41 + len(fields), np.uint32)
    for field in fields:
        hashes = hashes * np.uint32(41) + java_hashes(field)
    return hashes


def java_hashes(array: pa.Array) -> Hashes:
    """The hash codes of `org.apache.iceberg.types.JavaHash`."""
    hashes = _of_values(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _of_values(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_struct(kind):
        return _struct_hashes([array.field(place) for place in range(kind.num_fields)])
    if pa.types.is_boolean(kind):
        return np.where(array.fill_null(False).to_numpy(zero_copy_only=False), _TRUE, _FALSE).astype(np.uint32)
    if pa.types.is_large_string(kind):
        texts = [b"" if value is None else value for value in array.cast(pa.large_binary()).to_pylist()]
        units = [np.frombuffer(text.decode(errors="replace").encode("utf-16-le"), "<u2") for text in texts]
        return _polynomials(units, 177)
    if isinstance(array, pa.ExtensionArray):  # a UUID
        halves = np.frombuffer(_content(array.storage), ">u8").reshape(len(array), 2).astype(np.uint64)
        return _folded(halves[:, 0] ^ halves[:, 1])
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = [b"" if value is None else value for value in array.to_pylist()]
        return _polynomials([np.frombuffer(value[::-1], np.int8).astype(np.uint32) for value in values], 1)
    if pa.types.is_decimal(kind):
        return _decimal_hashes(array)
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), kind), array)
    content = _content(array)
    return (
        np.frombuffer(content, np.uint32).copy() if kind.bit_width == 32 else _folded(np.frombuffer(content, np.uint64))
    )


def _content(array: pa.Array) -> memoryview:
    """The stored values of a type that has the same number of bytes for each."""
    width = array.type.bit_width // 8
    content = memoryview(array.buffers()[1] or b"")
    return content[array.offset * width : (array.offset + len(array)) * width]


def _folded(words: Any) -> Hashes:
    folded: Hashes = (words ^ (words >> np.uint64(32))).astype(np.uint32)
    return folded


def _decimal_hashes(array: pa.Array) -> Hashes:
    halves = np.frombuffer(_content(array), np.uint64).reshape(len(array), 2)
    negative = halves[:, 1] >> np.uint64(63) == 1
    low = np.where(negative, ~halves[:, 0] + np.uint64(1), halves[:, 0])
    high = np.where(negative, ~halves[:, 1] + (low == 0), halves[:, 1])
    hashes = np.zeros(len(array), np.uint32)
    for half in (high, low):
        for word in (half >> np.uint64(32), half):
            hashes = hashes * np.uint32(31) + word.astype(np.uint32)
    return np.where(negative, -hashes, hashes) * np.uint32(31) + np.uint32(array.type.scale)


def _polynomials(sequences: Sequence[Any], start: int) -> Hashes:
    """Of each sequence, with the factor that Java's hash codes have; one place of all sequences at a time."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    starts = np.cumsum(lengths) - lengths
    items = np.concatenate([*sequences, np.zeros(0, np.uint32)]).astype(np.uint32)
    hashes = np.full(len(sequences), start, np.uint32)
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        hashes[rows] = hashes[rows] * np.uint32(31) + items[starts[rows] + place]
    return hashes
