"""Reads one data file, Parquet, ORC or Avro, as a stream of record batches in the table's current schema.

A file is taken at its manifest's word: if its length or its number of rows is another, it is not the file that was
committed, and the rewrite fails with its name. Batches are small, so that memory does not depend on a file's size.
A small file is fetched whole, in one request; a large one in pieces, as they are needed.

What storage says is told apart from what a file is like: a file is called damaged only if its bytes were there, since
nobody tries such a file again. Arrow has one error for both, so a file that came in pieces is read once more to know.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, InputStream
from pyiceberg.manifest import FileFormat
from pyiceberg.table.name_mapping import NameMapping

from tableformat.engine.avro_file import AvroFile
from tableformat.engine.errors import UnreachableDataFile, UnreadableDataFile
from tableformat.engine.orc_file import OrcFile, require_same_zones
from tableformat.engine.projection import Projection, ProjectionError, TargetSchema
from tableformat.engine.restoring import UnknownForm
from tableformat.engine.task import SourceFile

READABLE_FORMATS = (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)
BATCH_ROWS = 64 * 1024
_BATCH_BYTES = 32 * 1024 * 1024
_LONG_VALUE_BYTES = 8 * 1024
_WHOLE_BELOW_BYTES = 8 * 1024 * 1024
_PREFETCH_BELOW_BYTES = 64 * 1024 * 1024
_GROUP_AT_ONCE_BYTES = 128 * 1024 * 1024  # as Iceberg's writers have them
_LEAST_BUFFER_BYTES, _MOST_BUFFER_BYTES = 64 * 1024, 4 * 1024 * 1024


def read_batches(
    io: FileIO,
    source: SourceFile,
    target: TargetSchema,
    *,
    name_mapping: NameMapping | None,
    identity_values: Mapping[int, object],
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of one file in file order, projected to the target schema."""
    rows = 0
    with (
        file_errors(source.path, is_damaged=lambda: _comes_whole(source) or _fails_again(io, source)),
        open_file(io, source.path) as stream,
        _opened(stream, source) as (schema, batches),
    ):
        projection = Projection(target, schema, name_mapping=name_mapping, identity_values=identity_values)
        if source.file_format == FileFormat.ORC.value:
            require_same_zones(projection.source_fields, target)
        for batch in batches:
            rows += batch.num_rows
            yield projection.apply(batch)
    if rows != source.records:
        raise UnreadableDataFile(source.path, f"gave {rows} rows, and its manifest says {source.records}")


_Content = tuple[pa.Schema, Iterator[pa.RecordBatch]]
"""The schema of a file, with field ids where Parquet files have them, and its rows."""


@contextmanager
def _opened(stream: InputStream, source: SourceFile) -> Iterator[_Content]:
    whole = _whole(stream, source)
    if source.file_format == FileFormat.PARQUET.value:
        with _parquet(stream, whole, source) as content:
            yield content
    elif source.file_format == FileFormat.ORC.value:
        orc = OrcFile(_native(stream) if whole is None else pa.BufferReader(whole))
        _require_records(source, orc.records)
        yield orc.schema, orc.batches()
    elif source.file_format == FileFormat.AVRO.value:
        avro = AvroFile(stream if whole is None else BytesIO(whole))
        yield avro.schema, avro.batches()
    else:
        raise UnreadableDataFile(source.path, f"is {source.file_format}, which the kernel does not read")


@contextmanager
def _parquet(stream: InputStream, whole: bytes | None, source: SourceFile) -> Iterator[_Content]:
    file = stream if whole is None else pa.BufferReader(whole)
    metadata = pq.read_metadata(file)
    _require_records(source, metadata.num_rows)
    with pq.ParquetFile(
        file,
        metadata=metadata,
        buffer_size=0 if whole is not None else _buffer_bytes(metadata),
        # Files that carry no Arrow schema of their own come in the form that is written, and need no conversion.
        binary_type=pa.large_binary(),
        list_type=pa.LargeListType,
        # Fetching whole row groups at once spares round trips, and memory for as long as they are small.
        pre_buffer=whole is None and source.size_bytes < _PREFETCH_BELOW_BYTES,
        # Iceberg's timestamps have microseconds, and every reader of these old 96-bit ones truncates to them.
        coerce_int96_timestamp_unit="us",
        # What a disk or a wire changed must not become rows of a new file, with a right checksum of its own.
        page_checksum_verification=True,
    ) as parquet:
        # Small files are read side by side; a large one has the cores to itself.
        batch_rows = _batch_rows(metadata)
        yield parquet.schema_arrow, parquet.iter_batches(batch_size=batch_rows, use_threads=whole is None)


def _buffer_bytes(metadata: pq.FileMetaData) -> int:
    """How much of each column is fetched at once; nought is all that its row group has.

    That spares requests, and is too much where a row group is all of a large file, as some writers have it.
    """
    largest = max((_stored_bytes(metadata.row_group(number)) for number in range(metadata.num_row_groups)), default=0)
    if largest <= _GROUP_AT_ONCE_BYTES:
        return 0
    return int(min(max(_GROUP_AT_ONCE_BYTES // metadata.num_columns, _LEAST_BUFFER_BYTES), _MOST_BUFFER_BYTES))


def _stored_bytes(group: pq.RowGroupMetaData) -> int:
    return int(sum(group.column(number).total_compressed_size for number in range(group.num_columns)))


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Fewer where rows are wide: a batch is held in memory as a whole."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    widest = max((_row_bytes(group) for group in groups if group.num_rows), default=0)
    return max(1, min(BATCH_ROWS, int(_BATCH_BYTES / max(1, widest))))


def _row_bytes(group: pq.RowGroupMetaData) -> float:
    """About the size of a row in memory, where a value that comes again takes its place again."""
    columns = (group.column(number) for number in range(group.num_columns))
    repeated = sum(
        _value_bytes(column) * column.num_values
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
    )
    return float((group.total_byte_size + repeated) / group.num_rows)


def _value_bytes(column: pq.ColumnChunkMetaData) -> int:
    """What the least and the greatest value say of the others: the footer has nothing better, and no long ones."""
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return 0 if statistics is not None and not statistics.num_values else _LONG_VALUE_BYTES
    return max(len(statistics.min_raw), len(statistics.max_raw))


def _require_records(source: SourceFile, records: int) -> None:
    if records != source.records:
        raise UnreadableDataFile(source.path, f"has {records} rows, and its manifest says {source.records}")


def _native(stream: InputStream) -> pa.NativeFile:
    return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")


def _whole(stream: InputStream, source: SourceFile) -> bytes | None:
    """The bytes of a small file, or none of a large one; of both, the length is the one that was committed."""
    content = None
    with fetching(source.path):
        if _comes_whole(source):
            content = stream.read(source.size_bytes + 1)
            length = len(content) if len(content) <= source.size_bytes else stream.seek(0, 2)
        else:
            length = stream.seek(0, 2)
            stream.seek(0)
    if length != source.size_bytes:
        raise UnreadableDataFile(source.path, f"is {length} bytes, and its manifest says {source.size_bytes}")
    return content


def _comes_whole(source: SourceFile) -> bool:
    return source.size_bytes < _WHOLE_BELOW_BYTES


def _fails_again(io: FileIO, source: SourceFile) -> bool:
    """Whether a file that came in pieces cannot be read a second time either, though storage hands it over."""
    try:
        with open_file(io, source.path) as stream, _opened(stream, source) as (_, batches):
            for _ in batches:
                pass
    except (pa.ArrowException, OSError, UnknownForm):
        return storage_answers(io, source.path)
    return False


def storage_answers(io: FileIO, path: str) -> bool:
    """Whether the file's length and its last byte can be had."""
    try:
        with io.new_input(path).open() as stream:
            length = stream.seek(0, 2)
            stream.seek(max(0, length - 1))
            return len(stream.read(1)) == min(1, length)
    except OSError:
        return False


def open_file(io: FileIO, path: str) -> InputStream:
    with fetching(path):
        return io.new_input(path).open()


@contextmanager
def fetching(path: str) -> Iterator[None]:
    """For nothing but bytes on their way: an error is storage's, unless the file is not there or not for us."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        raise UnreachableDataFile(path, str(error)) from error


@contextmanager
def file_errors(path: str, *, is_damaged: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Says which file an error of reading was about; `is_damaged` is asked where Arrow leaves open whose it is."""
    try:
        yield
    except MemoryError:
        raise  # Arrow's is one of its errors, too
    except FileNotFoundError as error:
        raise UnreadableDataFile(path, "does not exist") from error
    except (ProjectionError, UnknownForm, pa.ArrowException, UnicodeDecodeError, PermissionError) as error:
        raise UnreadableDataFile(path, str(error)) from error
    except OSError as error:
        if is_damaged():
            raise UnreadableDataFile(path, str(error)) from error
        raise UnreachableDataFile(path, str(error)) from error
