"""Cuts Avro files into the bytes of their records, and records at the beginnings of their fields, without a parser.

Avro has no index: where a field begins follows from the values before it. These are decoded into Arrow, and from its
value follows how many bytes a field takes, for all records at once. A writer may take more bytes than needed (a number
with leading zeros, a list in several parts) but never fewer. So if the bytes of a block are as many as its values need,
each value has just the bytes that it needs, and every cut is where it should be; if not, the file is refused.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tableformat.inspection.avro_columns import AvroContent, BrokenAvro, read_batches

Positions = npt.NDArray[np.int64]

_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class UnusualAvro(BrokenAvro):
    """It is written in a way that this cannot take apart, though a parser can."""


@dataclass(frozen=True)
class RawRecords:
    """The records of some files, one after the other."""

    content: bytes
    starts: Mapping[int, Positions]
    """Of each column at which to cut, where it begins in each record; the number behind the last is a record's end."""
    columns: Mapping[int, pa.ChunkedArray]
    """The values of the columns that were to be kept."""


def raw_records(files: Sequence[AvroContent], *, cuts: Collection[int], keep: Collection[int] = ()) -> RawRecords:
    """Files with one schema and one codec. Raises `UnusualAvro` if it cannot be said where the fields begin."""
    columns = files[0].columns
    places = [place for place, column in enumerate(columns) if not column.is_always_null]
    within: dict[int, list[Positions]] = {cut: [] for cut in cuts}  # their distances from the record's start
    sizes: list[Positions] = [np.zeros(0, np.int64)]
    kept: dict[int, list[pa.Array]] = {place: [] for place in keep}
    blocks = [block for file in files for block in file.unpacked_blocks()]
    for rows in read_batches(files, places, [content for _, content in blocks]):
        position = np.zeros(rows.num_rows, np.int64)
        for place, column in enumerate(columns):
            if place in within:
                within[place].append(position)
            if not column.is_always_null:
                position = position + _sizes(rows.column(f"c{place}"), column.plain_type)
        if len(columns) in within:
            within[len(columns)].append(position)
        sizes.append(position)
        for place, arrays in kept.items():
            arrays.append(rows.column(f"c{place}"))
    size = np.concatenate(sizes)
    ends = np.cumsum(size)
    content = _checked(blocks, np.concatenate(([0], ends)))
    starts = {cut: ends - size + np.concatenate([size[:0], *distances]) for cut, distances in within.items()}
    return RawRecords(content, starts, {place: pa.chunked_array(arrays) for place, arrays in kept.items() if arrays})


def _checked(blocks: Iterable[tuple[int, bytes]], borders: Positions) -> bytes:
    """The bytes of all blocks, if each ends where its last record does."""
    content, records = bytearray(), 0
    for number, block in blocks:
        content += block
        records += number
        if borders[records] != len(content):
            raise UnusualAvro("its values have more bytes than they need")
    return bytes(content)


def _sizes(values: pa.Array, plain_type: Any) -> Positions:
    """How many bytes each of the values takes."""
    if isinstance(plain_type, list):
        choices = [choice for choice in plain_type if choice != "null"]
        if len(choices) != 1:
            raise UnusualAvro("a value is of one type or another")
        there = values.is_valid().to_numpy(zero_copy_only=False)
        return 1 + np.where(there, _sizes(values, choices[0]), 0)
    kind = plain_type if isinstance(plain_type, str) else plain_type["type"]
    if kind in _FIXED_BYTES:
        return np.full(len(values), _FIXED_BYTES[kind], np.int64)
    if kind == "fixed":
        return np.full(len(values), plain_type["size"], np.int64)
    if kind in ("int", "long"):
        return _number_sizes(values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    if kind in ("string", "bytes"):
        lengths = _lengths(pc.binary_length(values.cast(pa.large_binary())))
        return lengths + _number_sizes(lengths)
    if kind == "record":
        size = np.zeros(len(values), np.int64)
        for array, field in zip(values.flatten(), plain_type["fields"], strict=True):
            size += _sizes(array, field["type"])
        return size
    if kind == "array":
        lengths = _lengths(pc.list_value_length(values))
        of_items = np.concatenate(([0], np.cumsum(_sizes(values.flatten(), plain_type["items"]))))
        ends = np.cumsum(lengths)
        # Their number and a zero behind them; of an empty one the zero only.
        around: Positions = np.where(lengths > 0, 1 + _number_sizes(lengths), 1)
        items: Positions = of_items[ends] - of_items[ends - lengths]
        return around + items
    raise UnusualAvro(f"a value is a {kind}")


def _lengths(lengths: pa.Array) -> Positions:
    numbers: Positions = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _number_sizes(numbers: Positions) -> Positions:
    """Seven bits to a byte, with the sign in the lowest."""
    unsigned = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    most = int(unsigned.max(initial=0))
    for bits in range(7, most.bit_length(), 7):
        sizes += unsigned >= np.uint64(1 << bits)
    return sizes
