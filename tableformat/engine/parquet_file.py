"""Writes one Parquet file with all cores: the columns of a row group are encoded side by side, then joined.

pyarrow's writer encodes on one core. Here each column of a row group becomes a little Parquet file in memory, written
by pyarrow's writer on a thread of its own; their pages go into the real file one behind the other, and its footer is
made of theirs, with every offset moved to where the pages are now. What is in the pages is pyarrow's work alone. The
page index of all columns comes behind all pages, where readers that fetch it in one request look for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import OutputFile

from tableformat.engine.bloom import BloomFilter
from tableformat.engine.errors import UnwritableDataFile
from tableformat.engine.page_index import ChunkIndex, take_indexes
from tableformat.engine.thrift import Struct, decode, encode

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
_SAMPLE_ROWS = 32 * 1024
_MOSTLY_DISTINCT = 0.97

# Fields of the footer's structs, by their names in Parquet's own definition.
_FILE_SCHEMA, _FILE_ROWS, _FILE_ROW_GROUPS = 2, 3, 4
_ELEMENT_CHILDREN, _ELEMENT_FIELD_ID, _ELEMENT_LOGICAL_TYPE = 5, 9, 10
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED_BYTES, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_DATA_PAGES, _INDEX_PAGES, _DICTIONARY_PAGE, _BLOOM_FILTER = 9, 10, 11, 14


@dataclass(frozen=True)
class FileForm:
    """How files are encoded, whichever rows they have."""

    schema: pa.Schema
    options: Mapping[str, object]
    blooms: Mapping[int, tuple[BloomFilter, ...]]
    """By the position of a column: the bloom filters of what is stored for it."""
    logical_types: Mapping[int, Struct]
    """By field id: what the footer says of a column that is plain bytes, or a group of them, to pyarrow."""

    def encoded(self, place: int, column: pa.ChunkedArray) -> "EncodedColumn":
        """The column at this position, of one row group."""
        blooms = {bloom.path: bloom.options(len(column)) for bloom in self.blooms.get(place, ())}
        return encoded(
            pa.table([column], schema=pa.schema([self.schema.field(place)])),
            {
                **self.options,
                "use_dictionary": _worth_a_dictionary(column),
                "bloom_filter_options": blooms or None,
            },
            unordered=frozenset(self.logical_types),
        )


@dataclass(frozen=True)
class EncodedColumn:
    """One column of a row group, as if it had a file of its own."""

    pages: pa.Buffer
    """From behind the magic number at the beginning of that file."""
    group: Struct
    """What the footer says of it."""
    indexes: list[ChunkIndex]
    """One for each column that is stored for it."""


class ParquetFileWriter:
    """One Parquet file being written, row group after row group."""

    def __init__(self, output: OutputFile, form: FileForm, pool: Executor) -> None:
        self.output = output
        with self._errors():
            self._stream = output.create(overwrite=False)
        self._form = form
        self._pool = pool
        self._groups: list[Struct] = []
        self._indexes: list[ChunkIndex] = []
        self.bytes_written = 0
        self.records = 0
        self._write(_MAGIC)

    def write_row_group(self, rows: pa.Table) -> None:
        # The largest columns are begun first, so that no core waits long for another at the end.
        largest_first = sorted(range(rows.num_columns), key=lambda place: -rows.column(place).nbytes)
        encoding = {place: self._pool.submit(self._form.encoded, place, rows.column(place)) for place in largest_first}
        started = self.bytes_written
        parts = []
        for place in range(rows.num_columns):
            column = encoding.pop(place).result()
            _move(column, self.bytes_written - len(_MAGIC))
            self._write(memoryview(column.pages))
            self._indexes += column.indexes
            parts.append(column.group)
        self._groups.append(_joined(parts, started, ordinal=len(self._groups)))
        self.records += rows.num_rows

    def close(self) -> pq.FileMetaData:
        """Write the page index and the footer; what is returned was read from it."""
        for index in self._indexes:
            self._write(index.put_bounds(self.bytes_written))
        for index in self._indexes:
            self._write(index.put_pages(self.bytes_written))
        _, _, empty = _parts(pa.Table.from_batches([], self._form.schema), self._form.options)
        for element in empty.structs(_FILE_SCHEMA):
            if _ELEMENT_FIELD_ID in element.fields and element.number(_ELEMENT_FIELD_ID) in self._form.logical_types:
                element.set_struct(_ELEMENT_LOGICAL_TYPE, self._form.logical_types[element.number(_ELEMENT_FIELD_ID)])
        empty.set_structs(_FILE_ROW_GROUPS, self._groups)
        empty.set_number(_FILE_ROWS, self.records)
        footer = encode(empty)
        tail = footer + len(footer).to_bytes(4, "little") + _MAGIC
        self._write(tail)
        with self._errors():
            self._stream.close()
            if (stored := len(self.output)) != self.bytes_written:
                raise OSError(f"of {self.bytes_written} bytes {stored} are stored")
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail))

    def abandon(self) -> None:
        self._stream.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Says which file an error of writing was about."""
        try:
            yield
        except OSError as error:
            raise UnwritableDataFile(self.output.location, str(error)) from error

    def _write(self, data: bytes | memoryview) -> None:
        with self._errors():
            self._stream.write(data)  # type: ignore[arg-type]  # a pyarrow buffer is bytes without a copy
        self.bytes_written += len(data)


def encoded(column: pa.Table, options: Mapping[str, object], unordered: frozenset[int] = frozenset()) -> EncodedColumn:
    """A table of one column as one row group; fields that have no order get no least and greatest values."""
    file, end, footer = _parts(column, options)
    groups = footer.structs(_FILE_ROW_GROUPS)
    if len(groups) != 1 or groups[0].number(_GROUP_ROWS) != column.num_rows:  # to join the first alone would lose rows
        raise ValueError(f"{column.num_rows} rows became {len(groups)} row groups")
    has_order = list(_have_order(footer.structs(_FILE_SCHEMA), unordered))
    pages_end, indexes = take_indexes(file, end, groups[0].structs(_GROUP_COLUMNS), column.column(0), has_order)
    return EncodedColumn(file.slice(len(_MAGIC), pages_end - len(_MAGIC)), groups[0], indexes)


def _have_order(elements: Sequence[Struct], unordered: frozenset[int]) -> Iterator[bool]:
    """For each stored column; the parts of a group without an order have none either."""
    without = 0
    for element in elements:
        is_unordered = _ELEMENT_FIELD_ID in element.fields and element.number(_ELEMENT_FIELD_ID) in unordered
        if _ELEMENT_CHILDREN in element.fields:
            without = element.number(_ELEMENT_CHILDREN) if is_unordered else without
            continue
        yield not is_unordered and not without
        without = max(0, without - 1)


def _parts(rows: pa.Table, options: Mapping[str, object]) -> tuple[pa.Buffer, int, Struct]:
    """A file in memory, where its footer begins, and what that says."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        rows.schema,
        store_schema=False,  # so that readers see the Iceberg types alone, as in files of any other engine
        store_decimal_as_integer=True,
        write_page_checksum=True,
        write_page_index=True,
        **options,
    ) as writer:
        if rows.num_rows:
            writer.write_table(rows, row_group_size=rows.num_rows)
    file = sink.getvalue()
    footer_bytes = int.from_bytes(file.slice(len(file) - _TAIL_BYTES, 4).to_pybytes(), "little")
    end = len(file) - _TAIL_BYTES - footer_bytes
    return file, end, decode(file.slice(end, footer_bytes).to_pybytes())


def _worth_a_dictionary(column: pa.ChunkedArray) -> bool:
    """Whether values come again often enough. Building a dictionary that is then given up costs as much as encoding."""
    if pa.types.is_nested(column.type) or not len(column):
        return True
    sample = column.slice(max(0, (len(column) - _SAMPLE_ROWS) // 2), _SAMPLE_ROWS)
    if isinstance(column.type, pa.BaseExtensionType):
        sample = pa.chunked_array([chunk.storage for chunk in sample.chunks], column.type.storage_type)
    return bool(pc.count_distinct(sample, mode="all").as_py() < _MOSTLY_DISTINCT * len(sample))


def _move(column: EncodedColumn, by: int) -> None:
    """Add to every place that is named for the column's pages and bloom filter."""
    for chunk in column.group.structs(_GROUP_COLUMNS):
        pages = chunk.struct(_CHUNK_METADATA)
        pairs = [(pages, field) for field in (_DATA_PAGES, _INDEX_PAGES, _DICTIONARY_PAGE, _BLOOM_FILTER)]
        for owner, field in [(chunk, _CHUNK_OFFSET), *pairs]:
            if field in owner.fields and owner.number(field):
                owner.set_number(field, owner.number(field) + by)
    for index in column.indexes:
        index.move(by)


def _joined(parts: Sequence[Struct], offset: int, *, ordinal: int) -> Struct:
    """One row group of columns that were written apart."""
    group = parts[0]
    group.set_structs(_GROUP_COLUMNS, [chunk for part in parts for chunk in part.structs(_GROUP_COLUMNS)])
    for field in (_GROUP_BYTES, _GROUP_COMPRESSED_BYTES):
        if field in group.fields:
            group.set_number(field, sum(part.number(field) for part in parts))
    if _GROUP_OFFSET in group.fields:
        group.set_number(_GROUP_OFFSET, offset)
    if _GROUP_ORDINAL in group.fields:
        group.set_number(_GROUP_ORDINAL, ordinal)
    return group
