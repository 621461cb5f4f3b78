"""The page index of a Parquet file: where each page is, which rows it has, and between which values they are.

pyarrow's writer makes it for a column that is written apart; here it is taken from behind that column's pages, and made
to fit the file that they go into. Readers skip pages by it, so what it says must hold however an engine compares.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

from tableformat.engine.statistics import upper_text, uuid_signs
from tableformat.engine.thrift import Struct, decode, encode

# Fields by their names in Parquet's own definition: of a column chunk, of its metadata, and of the two indexes.
_OFFSET_INDEX, _OFFSET_INDEX_LENGTH, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH = 4, 5, 6, 7
_CHUNK_METADATA, _PHYSICAL_TYPE, _BYTE_ARRAY, _STATISTICS = 3, 1, 6, 12
_ENDS = (1, 2, 5, 6, 7, 8)  # of statistics: the least and the greatest value, in both of their forms, and whether exact
_PAGE_LOCATIONS, _PAGE_OFFSET = 1, 1
_LEAST_VALUES, _GREATEST_VALUES = 2, 3
_LONGEST = 64  # as in Iceberg's own files; texts may be 4 KiB, twice a page, in every reader's memory


@dataclass
class ChunkIndex:
    """The index of one stored column in one row group, encoded: a file can have hundreds of thousands of pages."""

    chunk: Struct
    """What the footer says of the column, which will say where the index is."""
    pages: bytes
    bounds: bytes | None
    """None where a page cannot be judged by its least and its greatest value."""

    def move(self, by: int) -> None:
        """Add to the place of every page."""
        index = decode(self.pages)
        for page in index.structs(_PAGE_LOCATIONS):
            page.set_number(_PAGE_OFFSET, page.number(_PAGE_OFFSET) + by)
        self.pages = encode(index)

    def put_bounds(self, offset: int) -> bytes:
        """What goes into the file there."""
        if self.bounds is None:
            return b""
        self.chunk.set_number(_COLUMN_INDEX, offset)
        self.chunk.set_number(_COLUMN_INDEX_LENGTH, len(self.bounds))
        return self.bounds

    def put_pages(self, offset: int) -> bytes:
        self.chunk.set_number(_OFFSET_INDEX, offset)
        self.chunk.set_number(_OFFSET_INDEX_LENGTH, len(self.pages))
        return self.pages


def take_indexes(
    file: pa.Buffer, end: int, chunks: list[Struct], column: pa.ChunkedArray, has_order: list[bool]
) -> tuple[int, list[ChunkIndex]]:
    """The indexes of a file with one column, and where they begin; `end` is where its footer does.

    For each stored column, `has_order` says whether values compare at all.
    """
    found, places = [], []
    for chunk, misleads, is_ordered in zip(chunks, leaves_with_misleading_bounds(column), has_order, strict=True):
        places.append((chunk.number(_OFFSET_INDEX), chunk.number(_OFFSET_INDEX_LENGTH)))
        pages, bounds = _cut(file, *places[-1]), None
        if _COLUMN_INDEX in chunk.fields:
            places.append((chunk.number(_COLUMN_INDEX), chunk.number(_COLUMN_INDEX_LENGTH)))
            if misleads or not is_ordered:
                _forget_bounds(chunk)
            else:
                bounds = _cut(file, *places[-1])
                if chunk.struct(_CHUNK_METADATA).number(_PHYSICAL_TYPE) == _BYTE_ARRAY:
                    bounds = shortened(bounds)
        found.append(ChunkIndex(chunk, pages, bounds))
    begin = min(offset for offset, _ in places)
    if begin + sum(length for _, length in places) != end:  # what is cut off behind the pages must be these alone
        raise ValueError(f"the page index does not fill the {end - begin} bytes between the pages and the footer")
    return begin, found


def _forget_bounds(chunk: Struct) -> None:
    """Remove the least and the greatest value of the chunk and of its pages."""
    del chunk.fields[_COLUMN_INDEX], chunk.fields[_COLUMN_INDEX_LENGTH]
    statistics = chunk.struct(_CHUNK_METADATA).struct(_STATISTICS)
    for end in _ENDS:
        statistics.fields.pop(end, None)


def _cut(file: pa.Buffer, offset: int, length: int) -> bytes:
    return bytes(file.slice(offset, length))


def leaves_with_misleading_bounds(column: pa.ChunkedArray) -> list[bool]:
    """Whether an engine could skip values by their least and greatest one, for each column that is stored.

    pyarrow leaves NaN out of the bounds, which to Spark, for one, is the greatest number of all. Iceberg's Java library
    compares UUIDs as pairs of signed numbers, Parquet as bytes.
    """
    if column.num_chunks == 0:
        return leaves_with_misleading_bounds(pa.chunked_array([pa.nulls(0, column.type)]))
    return [len(set().union(*kinds)) > 1 for kinds in zip(*map(_kinds_of_values, column.chunks), strict=True)]


def _kinds_of_values(array: pa.Array) -> Iterator[set[int]]:
    """For each stored column: values of one kind are in one order to every engine."""
    if pa.types.is_struct(array.type):
        for place in range(array.type.num_fields):
            yield from _kinds_of_values(array.field(place))
    elif pa.types.is_nested(array.type):  # lists and maps
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for values in (array.keys, array.items) if pa.types.is_map(array.type) else (array.values,):
            yield from _kinds_of_values(values.slice(begin, end - begin))
    elif isinstance(array.type, pa.UuidType):
        yield uuid_signs(array)
    elif pa.types.is_floating(array.type):
        yield {0, 1} if pc.any(pc.is_nan(array)).as_py() else {0}
    else:
        yield set()


def shortened(bounds: bytes) -> bytes:
    """The index of texts or bytes with the beginnings of long ones, rounded down and up.

    One rule for all pages of an index: the order in which it says that their bounds are holds for either rule alone.
    """
    index = decode(bounds)
    least, greatest = index.binaries(_LEAST_VALUES), index.binaries(_GREATEST_VALUES)
    if all(len(value) <= _LONGEST for value in (*least, *greatest)):
        return bounds
    try:
        lower = [value.decode()[:_LONGEST].encode() for value in least]
        upper = [_upper_text(value.decode()) for value in greatest]
    except UnicodeDecodeError:
        lower = [value[:_LONGEST] for value in least]
        upper = [truncate_upper_bound_binary_string(value, _LONGEST) or value for value in greatest]
    index.set_binaries(_LEAST_VALUES, lower)
    index.set_binaries(_GREATEST_VALUES, upper)
    return encode(index)


def _upper_text(text: str) -> bytes:
    shorter = upper_text(text, _LONGEST)
    return (text if shorter is None else shorter).encode()
