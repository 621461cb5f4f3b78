"""Reads one data file, Parquet, ORC or Avro, as a stream of record batches in the table's current schema.

A file is taken at its manifest's word: if its length or its number of rows is another, it is not the file that was
committed, and the rewrite fails with its name. Batches are small, so that memory does not depend on a file's size.
A small file is fetched whole, in one request; a large one in pieces, as they are needed.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, InputStream
from pyiceberg.manifest import FileFormat
from pyiceberg.table.name_mapping import NameMapping

from tableformat.engine.avro_file import AvroFile
from tableformat.engine.errors import UnreadableDataFile
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
        file_errors(source.path),
        io.new_input(source.path).open() as stream,
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
    with pq.ParquetFile(
        stream if whole is None else pa.BufferReader(whole),
        # Files that carry no Arrow schema of their own come in the form that is written, and need no conversion.
        binary_type=pa.large_binary(),
        list_type=pa.LargeListType,
        # Fetching whole row groups at once spares round trips, and memory for as long as they are small.
        pre_buffer=whole is None and source.size_bytes < _PREFETCH_BELOW_BYTES,
        # Iceberg's timestamps have microseconds, and every reader of these old 96-bit ones truncates to them.
        coerce_int96_timestamp_unit="us",
    ) as parquet:
        _require_records(source, parquet.metadata.num_rows)
        # Small files are read side by side; a large one has the cores to itself.
        batch_rows = _batch_rows(parquet.metadata)
        yield parquet.schema_arrow, parquet.iter_batches(batch_size=batch_rows, use_threads=whole is None)


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
    if source.size_bytes < _WHOLE_BELOW_BYTES:
        content = stream.read(source.size_bytes + 1)
        length = len(content) if len(content) <= source.size_bytes else stream.seek(0, 2)
    else:
        content, length = None, stream.seek(0, 2)
        stream.seek(0)
    if length != source.size_bytes:
        raise UnreadableDataFile(source.path, f"is {length} bytes, and its manifest says {source.size_bytes}")
    return content


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Says which file an error of reading was about."""
    try:
        yield
    except FileNotFoundError as error:
        raise UnreadableDataFile(path, "does not exist") from error
    except (ProjectionError, UnknownForm, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableDataFile(path, str(error)) from error
