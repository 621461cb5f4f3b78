"""A reader of Iceberg tables that is too slow for anything but the truth: row by row, straight from the specification.

It shares no code with the kernel; only manifests are read with the library.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableformat.inspection import read_entries, read_manifests

Row = dict[int, Any]
"""The values of a row by field id."""


def entries(table: Table, snapshot_id: int | None = None) -> list[ManifestEntry]:
    snapshot = table.metadata.snapshot_by_id(snapshot_id) if snapshot_id else table.current_snapshot()
    if snapshot is None:
        return []
    return [entry for manifest in read_manifests(table.io, snapshot) for entry in read_entries(table.io, manifest)]


def stored(table: Table, file: DataFile) -> list[Row]:
    """The rows that a file has, deleted or not."""
    with table.io.new_input(file.file_path).open() as stream:
        content: pa.Table = pq.read_table(stream)
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in content.schema]
    return [dict(zip(ids, row.values(), strict=True)) for row in content.to_pylist()]


def live_rows(table: Table, snapshot_id: int | None = None) -> list[tuple[DataFile, int, Row]]:
    """Every live row with its file and its place in it."""
    found = entries(table, snapshot_id)
    deletes = [entry for entry in found if entry.data_file.content != DataFileContent.DATA]
    return [
        (entry.data_file, position, row)
        for entry in found
        if entry.data_file.content == DataFileContent.DATA
        for position, row in enumerate(stored(table, entry.data_file))
        if not any(_deletes(table, delete, entry, position, row) for delete in deletes)
    ]


def _deletes(table: Table, delete: ManifestEntry, data: ManifestEntry, position: int, row: Row) -> bool:
    here = (delete.data_file.spec_id, delete.data_file.partition) == (data.data_file.spec_id, data.data_file.partition)
    older = (data.sequence_number or 0) - (delete.sequence_number or 0)
    if delete.data_file.content == DataFileContent.POSITION_DELETES:
        if not here or older > 0:
            return False
        return any(
            list(named.values()) == [data.data_file.file_path, position] for named in stored(table, delete.data_file)
        )
    everywhere = not table.specs()[delete.data_file.spec_id].fields
    if not (here or everywhere) or older >= 0:
        return False
    ids = delete.data_file.equality_ids or []
    return any(all(key[i] == row.get(i) for i in ids) for key in stored(table, delete.data_file))


def as_read(rows: Iterable[Row], schema: Schema) -> list[str]:
    """Rows in the columns of a schema, as texts in a certain order."""
    return sorted(repr([row.get(field.field_id) for field in schema.fields]) for row in rows)
