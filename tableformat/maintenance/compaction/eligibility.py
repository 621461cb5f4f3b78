"""Whether a table can be rewritten exactly. What is not known to be possible is refused, before anything is written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from tableformat.engine.deletes import column_path
from tableformat.engine.reading import READABLE_FORMATS
from tableformat.engine.stored_types import why_not_stored
from tableformat.engine.writing import CODECS, codec_name
from tableformat.inspection import FORMATS, Booleans, Integers, LiveFile, SnapshotFiles, schema_of_spec
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.properties import ENCRYPTION_KEY, is_encrypted
from tableformat.types_as_written import is_geospatial, is_variant

_KNOWN_TYPES = (
    BinaryType
    | BooleanType
    | DateType
    | DecimalType
    | DoubleType
    | FixedType
    | FloatType
    | IntegerType
    | ListType
    | LongType
    | MapType
    | StringType
    | StructType
    | TimestampNanoType
    | TimestampType
    | TimestamptzNanoType
    | TimestamptzType
    | TimeType
    | UnknownType
    | UUIDType
)

_PATHS_AT_A_TIME: Final = 10_000


def require_rewritable(table: Table, files: SnapshotFiles) -> None:
    """Raise `UnsupportedTable` if any row of the table could come out of a rewrite as another."""
    name, metadata = ".".join(table.name()), table.metadata
    if metadata.format_version > 3:
        raise UnsupportedTable(
            name, f"format version {metadata.format_version} is not known", "Compact it with an engine that knows it"
        )
    require_rewritable_columns(table)
    for spec_id in np.unique(files.data["spec_id"].to_numpy()).tolist():
        if schema_of_spec(metadata, spec_id) is None:
            raise UnsupportedTable(
                name,
                f"partition spec {spec_id} has a transform or a source column that is not known",
                "Rewrite its files into the current spec with another engine",
            )


@dataclass(frozen=True)
class Obstacle:
    """Why no file of a table can be written anew, whatever its files are."""

    where: str
    """The property or the column."""
    why: str
    remedy: str
    is_property: bool = False


def obstacles(schema: Schema, properties: Mapping[str, str]) -> Iterator[Obstacle]:
    if is_encrypted(properties):
        yield Obstacle(
            ENCRYPTION_KEY, "it is encrypted", "Leave its rewriting to the engine that encrypts it", is_property=True
        )
    if (codec := codec_name(properties)) not in CODECS:
        name = TableProperties.PARQUET_COMPRESSION
        why = f"its files are to be compressed by {codec!r}, which the kernel does not write"
        yield Obstacle(name, why, f"Set its property {name} to one of {', '.join(CODECS)}", is_property=True)
    for field in schema._lazy_id_to_field.values():
        kind = field.field_type
        if not isinstance(kind, _KNOWN_TYPES) and not is_geospatial(kind) and not is_variant(kind):
            column = schema.find_column_name(field.field_id) or field.name
            why = f"column {column!r} has type {kind}, which the kernel does not write"
            yield Obstacle(column, why, "Leave its rewriting to an engine that does")
    for column, reason in why_not_stored(schema):
        yield Obstacle(column, f"column {column!r} {reason}", "Drop the column, or leave the table as it is")


def require_rewritable_columns(table: Table) -> None:
    name, schema = ".".join(table.name()), table.metadata.schema()
    if not schema.fields:  # a row of no columns is nothing that a Parquet file could hold
        raise UnsupportedTable(name, "it has no columns", "Add a column, or leave the table as it is")
    for found in obstacles(schema, table.properties):
        raise UnsupportedTable(name, found.why, found.remedy)


def require_rewritable_files(table: Table, files: SnapshotFiles, data_rows: Integers, delete_rows: Integers) -> None:
    """The same for the files that a plan would read. Only those that look unusual become objects to be judged."""
    _require_each_once(table, files.data["path"], data_rows)
    for file in files.data_files(_unusual(files.data, data_rows)):
        require_rewritable_file(table, file)
    for file in files.delete_files(_unusual(files.deletes, delete_rows)):
        require_rewritable_file(table, file)


def _require_each_once(table: Table, paths: pa.ChunkedArray, rows: Integers) -> None:
    """A file that was committed twice has its rows twice; a commit removes it by its path, and so both at once."""
    if not len(rows):
        return
    # As numbers, a few at a time: a search among a million paths would take hundreds of megabytes.
    starts = range(0, len(paths), _PATHS_AT_A_TIME)
    parts = (paths.slice(start, _PATHS_AT_A_TIME).to_pylist() for start in starts)
    hashes = np.fromiter((hash(path) for part in parts for path in part), np.int64, len(paths))
    values, counts = np.unique(hashes, return_counts=True)
    if len(values) == len(hashes):
        return
    alike = np.flatnonzero(np.isin(hashes, values[counts > 1]))
    candidates = paths.take(pa.array(alike)).to_pylist()
    times, planned = Counter(candidates), np.isin(alike, rows).tolist()
    for path, is_planned in zip(candidates, planned, strict=True):
        if is_planned and times[path] > 1:
            raise UnsupportedTable(
                ".".join(table.name()),
                f"{path} is in it more than once",
                "Write its rows anew with another engine, once or twice as they should be",
            )


def _unusual(files: pa.Table, rows: Integers) -> Integers:
    formats = (*READABLE_FORMATS, FileFormat.PUFFIN) if "content" in files.column_names else READABLE_FORMATS
    usual = [FORMATS.index(file_format) for file_format in formats]
    is_usual = pc.is_in(files["file_format"], value_set=pa.array(usual, pa.int8()))
    is_unusual: Booleans = pc.or_(pc.invert(is_usual), files["encrypted"]).to_numpy()[rows]
    return rows[is_unusual]


def require_rewritable_file(table: Table, file: LiveFile) -> None:
    """The same for one file that would be read."""
    name = ".".join(table.name())
    is_vector = file.file_format == FileFormat.PUFFIN and file.content == DataFileContent.POSITION_DELETES
    if file.file_format not in READABLE_FORMATS and not is_vector:
        raise UnsupportedTable(
            name,
            f"{file.path} is {file.file_format.value}, which the kernel does not read",
            "Rewrite such files with their own engine",
        )
    if file.encrypted:
        raise UnsupportedTable(name, f"{file.path} is encrypted", "Compact it with an engine that has the keys")


def schema_with_keys(table: Table, schema: Schema, field_ids: Iterable[int]) -> Schema:
    """The schema, and behind it dropped columns that equality deletes still compare rows by."""
    metadata = table.metadata
    fields = list(schema.fields)
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for field_id in sorted(field_ids):
        if _is_comparable(Schema(*fields), field_id):
            continue
        column = next((_column(older, field_id) for older in newest_first if _column(older, field_id)), None)
        if column is None:
            raise UnsupportedTable(
                ".".join(table.name()),
                f"equality deletes compare rows by field {field_id}, which is not a plain column",
                "Compact it with an engine that knows such deletes",
            )
        # Its name may be in use again; ids are what counts, and the column is not written.
        fields.append(
            NestedField(field_id, f"dropped_{field_id}", column.field_type, initial_default=column.initial_default)
        )
    return Schema(*fields)


def _column(schema: Schema, field_id: int) -> NestedField | None:
    found = next((field for field in schema.fields if field.field_id == field_id), None)
    return found if found is not None and found.field_type.is_primitive else None


def _is_comparable(schema: Schema, field_id: int) -> bool:
    try:
        column_path(schema, field_id)
    except ValueError:
        return False
    return schema.find_type(field_id).is_primitive
