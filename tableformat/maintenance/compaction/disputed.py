"""Equality deletes on which engines disagree. Files that they apply to stay as they are, so that no engine loses a row.

Iceberg's Java library reads `fixed` keys of Parquet and Avro delete files into one buffer: of the keys in a file only
some delete rows. It also skips delete files by their statistics: by the bounds of `uuid` keys, which it compares as
signed numbers, by the bounds of floating-point keys, which leave NaN out, and by the null counts of keys inside
structs, where it takes a required field for one without nulls, and ORC does not count the nulls of null structs.
Engines that read the specification to the letter delete more rows. And it takes identity partition values for those of
the rows: a null struct with such a field may be one with values to it, so that it finds keys there that nobody wrote.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FixedType, FloatType, IcebergType, NestedField, UUIDType

from tableformat.engine.reading import READABLE_FORMATS
from tableformat.inspection import (
    FORMATS,
    AppliedDeletes,
    Booleans,
    Integers,
    LiveFile,
    SnapshotFiles,
    global_specs,
    integers,
    live_file,
    read_entries,
)
from tableformat.maintenance.compaction.shredded import REWRITE_ELSEWHERE
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.plurals import plural

_Formats = tuple[FileFormat, ...]
_FILLED = "not Parquet, and Iceberg Java would read null structs of its identity partition as structs"
_REMEDY = (
    "Delete these rows by position or by another column, and remove the delete files with the engine that wrote them"
)


def disputed_files(table: Table, files: SnapshotFiles) -> tuple[Booleans, tuple[str, ...]]:
    """Which data files stay as they are, and why, one reason for each key."""
    stay = np.zeros(files.data.num_rows, np.bool_)
    reasons = []
    for dispute in _disputes(table.metadata):
        rows: Integers = np.flatnonzero(_deletes_by(files.deletes, dispute.field_id, dispute.delete_formats))
        if dispute.only_with_nan:
            rows = _with_nan(table, files, rows, dispute.field_id)
        if not len(rows):
            continue
        deletes = files.deletes.take(pa.array(rows))
        applied = AppliedDeletes(replace(files, deletes=deletes), global_specs=global_specs(table.metadata))
        reached: Booleans = (applied.deletes_of_file > 0) & _has_format(files.data, dispute.data_formats)
        if reached.any():
            stay |= reached
            reasons.append(f"left alone: {plural(int(reached.sum()), 'data file')}: {dispute}. {_REMEDY}")
    filled, reason = _filled_structs(table.metadata, files)
    return stay | filled, (*reasons, *reason)


def _filled_structs(metadata: TableMetadata, files: SnapshotFiles) -> tuple[Booleans, tuple[str, ...]]:
    """Files whose null structs Iceberg Java reads as null, and would read as structs in a Parquet file."""
    specs = [
        spec_id for spec_id, spec in metadata.specs().items() if next(filled_structs(metadata.schema(), spec), None)
    ]
    found: Booleans = np.isin(integers(files.data, "spec_id"), specs) & ~_has_format(files.data, (FileFormat.PARQUET,))
    return found, (
        f"left alone: {plural(int(found.sum()), 'data file')}: {_FILLED}. {REWRITE_ELSEWHERE}",
    ) if found.any() else ()


def filled_structs(schema: Schema, spec: PartitionSpec) -> Iterator[tuple[int, str]]:
    """Columns of identity partitions that are in an optional struct, and its name.

    Iceberg Java puts the partition's value, be it null, into a null struct of a Parquet file, which is then none.
    """
    for field in spec.fields:
        above: int | None = field.source_id if isinstance(field.transform, IdentityTransform) else None
        while above is not None and (above := schema._lazy_id_to_parent.get(above)) is not None:
            if not schema.find_field(above).required:
                yield field.source_id, schema.find_column_name(above) or str(above)
                break


def require_undisputed(table: Table, file: LiveFile, deletes: Collection[LiveFile]) -> None:
    """Raise `UnsupportedTable` if engines disagree on which rows of the file are deleted."""
    for dispute in _disputes(table.metadata):
        if file.file_format in dispute.data_formats and any(map(dispute.is_over, deletes)):
            raise UnsupportedTable(".".join(table.name()), f"{file.path} stays as it is: {dispute}", _REMEDY)
    spec = table.metadata.specs()[file.spec_id]
    if file.file_format != FileFormat.PARQUET and next(filled_structs(table.metadata.schema(), spec), None):
        raise UnsupportedTable(".".join(table.name()), f"{file.path} stays as it is: {_FILLED}", REWRITE_ELSEWHERE)


@dataclass(frozen=True)
class _Dispute:
    """Over deletes by one key, in delete files and of rows in data files of some formats."""

    field_id: int
    key: str
    delete_formats: tuple[FileFormat, ...]
    data_formats: tuple[FileFormat, ...]
    only_with_nan: bool = False

    def is_over(self, deletes: LiveFile) -> bool:
        return (
            self.field_id in (deletes.nan_keys if self.only_with_nan else deletes.equality_ids)
            and deletes.file_format in self.delete_formats
        )

    def __str__(self) -> str:
        return f"engines disagree on equality deletes by {self.key}"


def _disputes(metadata: TableMetadata) -> Iterator[_Dispute]:
    """Of every schema: a delete file compares rows by columns that were dropped, too."""
    newest = {field_id: schema for schema in metadata.schemas for field_id in schema._lazy_id_to_field}
    with_constants = {
        _column_of(newest[field.source_id], field.source_id)
        for spec in metadata.partition_specs
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform) and field.source_id in newest
    }
    for field_id, schema in newest.items():
        field = schema.find_field(field_id)
        key = f"{schema.find_column_name(field_id)!r} ({field.field_type})"
        for delete_formats, data_formats in _disputed_formats(field, nested=field_id in schema._lazy_id_to_parent):
            yield _Dispute(field_id, key, delete_formats, data_formats)
        if isinstance(field.field_type, FloatType | DoubleType):
            yield _Dispute(field_id, key, READABLE_FORMATS, READABLE_FORMATS, only_with_nan=True)
        if (column := _column_of(schema, field_id)) != field_id and column in with_constants:
            yield _Dispute(field_id, key, READABLE_FORMATS, READABLE_FORMATS)


def _column_of(schema: Schema, field_id: int) -> int:
    """The top-level column that the field is, or is in."""
    while (above := schema._lazy_id_to_parent.get(field_id)) is not None:
        field_id = above
    return field_id


def _disputed_formats(field: NestedField, *, nested: bool) -> Iterator[tuple[_Formats, _Formats]]:
    """Those of delete files with those of data files."""
    if formats := disputed_in(field.field_type):
        yield formats, READABLE_FORMATS
    if nested:  # Avro files have no statistics to be skipped by
        yield (FileFormat.ORC,), READABLE_FORMATS
        yield (FileFormat.PARQUET,), READABLE_FORMATS if field.required else (FileFormat.ORC,)


def disputed_in(kind: IcebergType) -> _Formats:
    """Of delete files by a key of this type, wherever it is."""
    if isinstance(kind, FixedType):
        return FileFormat.PARQUET, FileFormat.AVRO
    return (FileFormat.PARQUET,) if isinstance(kind, UUIDType) else ()


def _has_format(files: pa.Table, formats: _Formats) -> Booleans:
    found: Booleans = np.isin(integers(files, "file_format"), [FORMATS.index(each) for each in formats])
    return found


def _deletes_by(deletes: pa.Table, field_id: int, formats: _Formats) -> Booleans:
    found: Booleans = _has_format(deletes, formats) & (
        integers(deletes, "content") == DataFileContent.EQUALITY_DELETES.value
    )
    keys = deletes["equality_ids"].combine_chunks()
    naming = pc.list_parent_indices(keys).filter(pc.equal(pc.list_flatten(keys), field_id)).to_numpy()
    found &= np.isin(np.arange(deletes.num_rows), naming)
    return found


def _with_nan(table: Table, files: SnapshotFiles, rows: Integers, field_id: int) -> Integers:
    """The rows of delete files that may delete NaN although their bounds do not say so.

    A snapshot's files are read without statistics, so the manifests of these few are read once more.
    """
    found, start = [], 0
    for live in files.delete_manifests:
        within = rows[(rows >= start) & (rows < start + live.files)].tolist()
        entries = read_entries(table.io, live.manifest) if within else []
        found += [row for row in within if field_id in live_file(entries[row - start]).nan_keys]
        start += live.files
    return np.array(found, np.int64)
