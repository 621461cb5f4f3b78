"""Reading a table's rows straight from its Parquet files, by nobody's rules but Parquet's.

PyIceberg's own scan turns a null list of structs into an empty one (and so does its append), so it cannot tell whether
a rewrite kept nulls.
"""

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table


def rows_in_files(table: Table) -> pa.Table:
    """All rows of a table without deletes whose files all have the current schema."""
    parts = []
    for task in table.scan().plan_files():
        assert not task.delete_files
        with table.io.new_input(task.file.file_path).open() as stream:
            part = pq.read_table(stream)
        parts.append(part.replace_schema_metadata(None).cast(_plain(part.schema)))
    return pa.concat_tables(parts)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema without field metadata, which says where a column came from and nothing of its values."""
    return pa.schema([pa.field(field.name, _plain_type(field.type), field.nullable) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type), kind.value_field.nullable))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain_type(f.type), f.nullable) for f in kind])
    if pa.types.is_large_string(kind):
        return pa.string()
    return kind
