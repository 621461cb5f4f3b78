"""Data and delete files in ORC and Avro put into a table, as another engine would put them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from tests.data_files import encoded
from tests.integration.compaction.deletes import PATH_ID, POSITION_ID, commit_delete_files

POSITIONS = Schema(
    NestedField(PATH_ID, "file_path", StringType(), required=True),
    NestedField(POSITION_ID, "pos", LongType(), required=True),
)


def put_rows(
    table: Table,
    file_format: FileFormat,
    rows: Sequence[Mapping[str, Any]],
    *,
    schema: Schema | None = None,
    partition: Record | None = None,
    field_ids: bool = True,
) -> str:
    """Commit the rows as one data file."""
    content = encoded(file_format, schema or table.schema(), rows, field_ids=field_ids)
    return put_content(table, file_format, content, len(rows), partition=partition)


def put_content(
    table: Table, file_format: FileFormat, content: bytes, records: int, *, partition: Record | None = None
) -> str:
    file = _put(table, file_format, content, records, DataFileContent.DATA, partition)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    return file.file_path


def delete_positions_in(table: Table, file_format: FileFormat, positions: Mapping[str, Sequence[int]]) -> str:
    pairs = sorted((path, place) for path, places in positions.items() for place in places)
    rows = [{"file_path": path, "pos": place} for path, place in pairs]
    bounds = {"lower_bounds": {PATH_ID: pairs[0][0].encode()}, "upper_bounds": {PATH_ID: pairs[-1][0].encode()}}
    return _put_deletes(table, file_format, POSITIONS, rows, DataFileContent.POSITION_DELETES, bounds)


def delete_equal_in(
    table: Table, file_format: FileFormat, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], **claims: Any
) -> str:
    """Commit an equality delete file; `claims` is what its manifest says of it beside the usual."""
    ids = {"equality_ids": [table.schema().find_field(column).field_id for column in columns], **claims}
    schema = table.schema().select(*columns)
    return _put_deletes(table, file_format, schema, rows, DataFileContent.EQUALITY_DELETES, ids)


def _put_deletes(
    table: Table,
    file_format: FileFormat,
    schema: Schema,
    rows: Sequence[Mapping[str, Any]],
    content: DataFileContent,
    arguments: Mapping[str, Any],
) -> str:
    file = _put(table, file_format, encoded(file_format, schema, rows), len(rows), content, None, arguments)
    commit_delete_files(table, [file])
    return file.file_path


def _put(
    table: Table,
    file_format: FileFormat,
    content: bytes,
    records: int,
    kind: DataFileContent,
    partition: Record | None,
    arguments: Mapping[str, Any] | None = None,
) -> DataFile:
    path = f"{table.location()}/data/{uuid.uuid4()}.{file_format.value.lower()}"
    with table.io.new_output(path).create() as stream:
        stream.write(content)
    known: dict[str, Any] = {
        "content": kind,
        "file_path": path,
        "file_format": file_format,
        "partition": partition or Record(),
        "record_count": records,
        "file_size_in_bytes": len(content),
    }
    file = DataFile.from_args(3, **(known | dict(arguments or {})))
    file.spec_id = table.spec().spec_id
    return file
