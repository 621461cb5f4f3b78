"""Applies row-level deletes to the rows of a data file, exactly as a reader of the table would.

Position deletes and deletion vectors name rows by their place in one file. Equality deletes name rows by values: null
equals null, NaN equals NaN, 0.0 and -0.0 differ, a null struct differs from a struct of nulls, and a row goes only if
the delete is younger than the row's file.
Everything is done on whole columns; what is held in memory is the deletes of one task.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table.deletion_vector import DeletionVector, _extract_vector_payload
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from tableformat.engine.delete_writing import PATH_ID, POSITION_ID
from tableformat.engine.equality import EqualityKeys
from tableformat.engine.errors import UnreadableDataFile
from tableformat.engine.java_keys import kept_by_java
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import fetching, file_errors, open_file, read_batches, storage_answers
from tableformat.engine.task import DeleteFile, RewriteTask, SourceFile

Content = TypeVar("Content")
Positions = np.ndarray[Any, np.dtype[np.int64]]
_NO_POSITIONS: Positions = np.empty(0, dtype=np.int64)
_PATH_AND_POSITION = Schema(
    NestedField(PATH_ID, "file_path", StringType(), required=True),
    NestedField(POSITION_ID, "pos", LongType(), required=True),
)
_POSITION_BYTES = 2 * 8  # as they come, and in order
_KEY_BYTES = 64  # its hash, place and number in order and before; and of each value as much, for texts of some length
_UNPACKED = 4  # longer texts than that, in memory and in a file
_POSITIONS = TargetSchema.of(_PATH_AND_POSITION)
_BY_NAME = create_mapping_from_schema(_PATH_AND_POSITION)


def held_bytes(task: RewriteTask) -> int:
    """About the memory that the deletes of a task take while it runs."""
    positions = sum(deletes.records for deletes in task.position_deletes) * _POSITION_BYTES
    keys = sum(deletes.records * (1 + len(deletes.equality_ids)) for deletes in task.equality_deletes) * _KEY_BYTES
    return positions + keys + sum(deletes.size_bytes for deletes in task.equality_deletes) * _UNPACKED


class TaskDeletes:
    """The deletes of one task, read once.

    A reader's time goes by in waiting for storage, and a task can have thousands of small delete files: with a pool,
    they are read side by side. All of them are held in the end, so nothing bounds how many are read ahead.
    """

    def __init__(self, io: FileIO, task: RewriteTask, readers: Executor | None = None) -> None:
        self._positions = _read_positions(io, task, readers)
        self._equality = _read_equality(io, task, readers)

    def of(self, source: SourceFile) -> "FileDeletes":
        found = [positions for number, positions in self._positions[source.path] if number >= source.sequence_number]
        positions = np.unique(np.concatenate(found)) if found else _NO_POSITIONS
        if len(positions) and (positions[0] < 0 or positions[-1] >= source.records):
            reason = f"a delete names row {positions[-1]}, and the file has {source.records} rows"
            raise UnreadableDataFile(source.path, reason)
        equality = [keys for keys in self._equality if keys.youngest > source.sequence_number]
        return FileDeletes(positions, equality, source.sequence_number)


@dataclass
class FileDeletes:
    """The deletes of one file, applied to its batches in file order."""

    positions: Positions
    equality: list[EqualityKeys]
    sequence_number: int
    rows_deleted: int = 0
    _row: int = 0

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        start, self._row = self._row, self._row + batch.num_rows
        deleted = np.zeros(batch.num_rows, dtype=bool)
        first, last = np.searchsorted(self.positions, [start, self._row])
        deleted[self.positions[first:last] - start] = True
        for keys in self.equality:
            deleted |= keys.matches(key_columns(batch, keys.paths), self.sequence_number)
        if not deleted.any():
            return batch
        kept = batch.filter(pa.array(~deleted))
        self.rows_deleted += batch.num_rows - kept.num_rows
        return kept


def column_path(schema: Schema, field_id: int) -> tuple[int, ...]:
    """The positions that lead to a field through structs. Fields below lists and maps have none."""

    def search(fields: tuple[NestedField, ...]) -> tuple[int, ...] | None:
        for position, field in enumerate(fields):
            if field.field_id == field_id:
                return (position,)
            if isinstance(field.field_type, StructType):
                below = search(field.field_type.fields)
                if below is not None:
                    return (position, *below)
        return None

    path = search(schema.fields)
    if path is None:
        raise ValueError(f"field {field_id} is no column that rows can be compared by")
    return path


def key_columns(batch: pa.RecordBatch, paths: Sequence[tuple[int, ...]]) -> list[pa.Array]:
    """The columns at these paths, each after the nullness of every struct around it.

    A null struct is not equal to a struct whose field is null, although the field is null in both.
    """
    return [
        array
        for path in paths
        for array in (
            *(_values_at(batch, path[:depth]).is_null() for depth in range(1, len(path))),
            key_column(batch, path),
        )
    ]


def _values_at(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    column = batch.column(path[0])
    for position in path[1:]:
        column = pc.struct_field(column, position)
    return column


def key_column(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    """A column in a form in which equality is Iceberg's equality."""
    column = _values_at(batch, path)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_floating(column.type):
        # As bits: 0.0 and -0.0 are two values then, and all NaN are made one.
        column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
        column = column.view(pa.int32() if pa.types.is_float32(column.type) else pa.int64())
    return column


def _read(
    files: Sequence[DeleteFile], read: Callable[[DeleteFile], Content], readers: Executor | None
) -> Iterator[tuple[DeleteFile, Content]]:
    """Each delete file with what is in it, in their order."""
    return zip(files, map(read, files) if readers is None else readers.map(read, files), strict=True)


def _read_positions(io: FileIO, task: RewriteTask, readers: Executor | None) -> dict[str, list[tuple[int, Positions]]]:
    """By data file: the deleted positions, each with the sequence number of its delete file."""
    wanted = {source.path for source in task.sources}

    def read(deletes: DeleteFile) -> list[tuple[str, Positions]]:
        if deletes.content_range is not None:
            return [_read_vector(io, deletes)]
        return [found for batch in _position_batches(io, deletes) for found in _by_path(batch, wanted)]

    found: dict[str, list[tuple[int, Positions]]] = defaultdict(list)
    for deletes, content in _read(task.position_deletes, read, readers):
        for path, positions in content:
            found[path].append((deletes.sequence_number, positions))
    return found


def _by_path(batch: pa.RecordBatch, wanted: Set[str]) -> Iterator[tuple[str, Positions]]:
    """The positions in each of the files that are wanted, in one walk, however many files there are."""
    encoded = pc.dictionary_encode(batch.column("file_path").cast(pa.large_string()), null_encoding="encode")
    paths = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.fromiter((path in wanted for path in paths), np.bool_, len(paths))[codes])
    rows = rows[np.argsort(codes[rows], kind="stable")]
    positions = batch.column("pos").cast(pa.int64()).to_numpy(zero_copy_only=False)[rows]
    starts = np.flatnonzero(np.diff(codes[rows], prepend=-1))
    for start, end in zip(starts.tolist(), [*starts.tolist(), len(rows)][1:], strict=True):
        yield paths[codes[rows[start]]], positions[start:end]


def _position_batches(io: FileIO, deletes: DeleteFile) -> Iterator[pa.RecordBatch]:
    if deletes.file_format != FileFormat.PARQUET.value:
        yield from read_batches(io, _as_source(deletes), _POSITIONS, name_mapping=_BY_NAME, identity_values={})
        return
    with (
        file_errors(deletes.path, is_damaged=lambda: storage_answers(io, deletes.path)),
        open_file(io, deletes.path) as stream,
        pq.ParquetFile(stream, page_checksum_verification=True) as parquet,
    ):
        if parquet.metadata.num_rows != deletes.records:
            reason = f"has {parquet.metadata.num_rows} deletes, and its manifest says {deletes.records}"
            raise UnreadableDataFile(deletes.path, reason)
        if missing := {"file_path", "pos"} - set(parquet.schema_arrow.names):
            raise UnreadableDataFile(deletes.path, f"is no position delete file: it lacks {sorted(missing)}")
        yield from parquet.iter_batches(columns=["file_path", "pos"])


def _as_source(deletes: DeleteFile) -> SourceFile:
    return SourceFile(deletes.path, deletes.file_format, deletes.size_bytes, deletes.records, deletes.sequence_number)


def _read_vector(io: FileIO, deletes: DeleteFile) -> tuple[str, Positions]:
    if deletes.content_range is None or deletes.referenced_data_file is None:
        raise UnreadableDataFile(deletes.path, "a deletion vector without its place or its data file")
    offset, length = deletes.content_range
    with file_errors(deletes.path), open_file(io, deletes.path) as stream:
        with fetching(deletes.path):
            stream.seek(offset)
            blob = stream.read(length)
        if len(blob) != length:
            raise UnreadableDataFile(deletes.path, f"ends before its deletion vector at {offset} does")
        try:
            bitmaps = DeletionVector._deserialize_bitmap(_extract_vector_payload(bytes(blob)))
        except ValueError as error:
            raise UnreadableDataFile(deletes.path, f"the deletion vector at {offset}: {error}") from error
    parts = [np.fromiter(bitmap, np.int64, len(bitmap)) + (key << 32) for key, bitmap in enumerate(bitmaps)]
    positions: Positions = np.concatenate(parts) if parts else _NO_POSITIONS
    if len(positions) != deletes.records:
        reason = f"the deletion vector at {offset} has {len(positions)} rows, and its manifest says {deletes.records}"
        raise UnreadableDataFile(deletes.path, reason)
    return deletes.referenced_data_file, positions


def _read_equality(io: FileIO, task: RewriteTask, readers: Executor | None) -> list[EqualityKeys]:
    def read(deletes: DeleteFile) -> list[list[pa.Array]]:
        field_ids = _key_ids(deletes)
        schema = _key_schema(task.read_schema, field_ids)
        paths = [column_path(schema, field_id) for field_id in field_ids]
        batches = read_batches(io, _as_source(deletes), TargetSchema.of(schema), name_mapping=None, identity_values={})
        return [key_columns(batch, paths) for batch in kept_by_java(list(batches))]

    by_columns: dict[tuple[int, ...], list[tuple[int, list[pa.Array]]]] = defaultdict(list)
    for deletes, content in _read(task.equality_deletes, read, readers):
        by_columns[_key_ids(deletes)] += [(deletes.sequence_number, columns) for columns in content]
    return [
        EqualityKeys([column_path(task.read_schema, field_id) for field_id in field_ids], columns)
        for field_ids, columns in by_columns.items()
    ]


def _key_ids(deletes: DeleteFile) -> tuple[int, ...]:
    return tuple(sorted(deletes.equality_ids))


def _key_schema(schema: Schema, field_ids: Sequence[int]) -> Schema:
    """The keys alone, as Java selects them, and nothing required: a delete file has no more than its key columns."""

    def relax(fields: Sequence[NestedField]) -> list[NestedField]:
        return [
            NestedField(
                field.field_id,
                field.name,
                StructType(*relax(field.field_type.fields))
                if isinstance(field.field_type, StructType)
                else field.field_type,
                required=False,
            )
            for field in fields
        ]

    selected = prune_columns(schema, set(field_ids), select_full_types=True)
    return Schema(*relax(sorted(selected.fields, key=lambda field: field.field_id)))
