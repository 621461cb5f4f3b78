"""Reads one data file as a stream of record batches in the table's current schema.

A file is taken at its manifest's word: if its length or its number of rows is another, it is not the file that was
committed, and the rewrite fails with its name. Batches are small, so that memory does not depend on a file's size.
A small file is fetched whole, in one request; a large one in pieces, as they are needed.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, InputStream
from pyiceberg.table.name_mapping import NameMapping

from tableformat.engine.errors import UnreadableDataFile
from tableformat.engine.projection import Projection, ProjectionError, TargetSchema
from tableformat.engine.task import SourceFile

BATCH_ROWS = 64 * 1024
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
    with file_errors(source.path), io.new_input(source.path).open() as stream:
        whole = _whole(stream, source)
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
            if parquet.metadata.num_rows != source.records:
                reason = f"has {parquet.metadata.num_rows} rows, and its manifest says {source.records}"
                raise UnreadableDataFile(source.path, reason)
            projection = Projection(
                target, parquet.schema_arrow, name_mapping=name_mapping, identity_values=identity_values
            )
            # Small files are read side by side; a large one has the cores to itself.
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS, use_threads=whole is None):
                rows += batch.num_rows
                yield projection.apply(batch)
    if rows != source.records:
        raise UnreadableDataFile(source.path, f"gave {rows} of its {source.records} rows")


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
    except (ProjectionError, pa.ArrowException, OSError) as error:
        raise UnreadableDataFile(path, str(error)) from error
