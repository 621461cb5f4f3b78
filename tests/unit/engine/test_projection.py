"""A file of an older schema reads as the current schema says: defaults, promotions, and nothing lossy."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from tableformat.engine.projection import Projection, ProjectionError, TargetSchema


def field(name: str, kind: pa.DataType, number: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(number)})


def project(schema: Schema, column: pa.Array, source: pa.Field) -> pa.Array:
    projection = Projection(TargetSchema.of(schema), pa.schema([source]), name_mapping=None, identity_values={})
    return projection.apply(pa.record_batch([column], schema=pa.schema([source]))).column(0)


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("int", 5, 5),
        ("boolean", True, True),
        ("double", 2.5, 2.5),
        ("string", "x", "x"),
        ("date", "2024-01-02", date(2024, 1, 2)),
        ("time", "10:11:12.123456", time(10, 11, 12, 123456)),
        ("timestamp", "2024-01-02T03:04:05.123456", datetime(2024, 1, 2, 3, 4, 5, 123456)),  # noqa: DTZ001
        ("timestamptz", "2024-01-02T03:04:05.123456+00:00", datetime(2024, 1, 2, 3, 4, 5, 123456, UTC)),
        ("uuid", "00112233-4455-6677-8899-aabbccddeeff", UUID("00112233-4455-6677-8899-aabbccddeeff")),
        ("binary", "0aff", b"\n\xff"),
        ("fixed[2]", "0aff", b"\n\xff"),
        ("decimal(9,2)", "1.23", Decimal("1.23")),
    ],
)
def test_a_column_that_the_file_lacks_has_its_default(kind: str, written: Any, read: Any) -> None:
    columns = [{"id": 2, "name": "c", "required": True, "type": kind, "initial-default": written}]
    schema = Schema.model_validate_json(json.dumps({"type": "struct", "schema-id": 0, "fields": columns}))
    assert project(schema, pa.array([1, 2], pa.int32()), field("other", pa.int32(), 9)).to_pylist() == [read, read]


def test_struct_that_the_file_lacks_is_written_as_null_with_required_fields_at_every_depth() -> None:
    inner = StructType(
        NestedField(4, "n", IntegerType(), required=True),
        NestedField(5, "u", UUIDType(), required=True),
        NestedField(6, "l", ListType(7, StringType(), element_required=True), required=True),
    )
    column = NestedField(2, "c", StructType(NestedField(3, "inner", inner, required=True)), required=False)
    read = project(Schema(column), pa.array([1, 2], pa.int32()), field("other", pa.int32(), 9))

    stored = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([read], schema=TargetSchema.of(Schema(column)).arrow), stored)

    assert pq.read_table(pa.BufferReader(stored.getvalue())).column(0).to_pylist() == [None, None]


def without_its_column(column: NestedField, partition_value: object) -> pa.Array:
    """As it reads from a file that lacks it, in a partition by it."""
    source = pa.schema([field("other", pa.int32(), 9)])
    projection = Projection(
        TargetSchema.of(Schema(column)),
        source,
        name_mapping=None,
        identity_values={column.field_id: partition_value},
    )
    return projection.apply(pa.record_batch([pa.array([1, 2], pa.int32())], schema=source)).column(0)


@pytest.mark.parametrize(("kind", "default"), [(IntegerType(), 7), (StringType(), "x"), (UUIDType(), UUID(int=7))])
def test_a_partition_s_value_counts_more_than_the_default_even_if_it_is_null(kind: IcebergType, default: Any) -> None:
    column = NestedField(2, "c", kind, required=False, initial_default=default)

    assert without_its_column(column, None).to_pylist() == [None, None]
    other = NestedField(2, "c", kind, required=False)
    assert without_its_column(other, default).to_pylist() == [default, default]


def test_a_required_column_is_not_there_in_a_partition_of_null() -> None:
    column = NestedField(2, "c", IntegerType(), required=True, initial_default=7)
    with pytest.raises(ProjectionError, match="lacks the required column 'c'"):
        without_its_column(column, None)


@pytest.mark.parametrize(
    ("source", "target", "values"),
    [
        (pa.int32(), LongType(), [1, None]),
        (pa.int16(), IntegerType(), [-1, None]),
        (pa.float32(), DoubleType(), [0.5, None]),
        (pa.dictionary(pa.int32(), pa.string()), StringType(), ["a", None]),
    ],
)
def test_a_promoted_column_keeps_its_values(source: pa.DataType, target: IcebergType, values: list[Any]) -> None:
    schema = Schema(NestedField(1, "c", target, required=False))
    assert project(schema, pa.array(values, source), field("c", source, 1)).to_pylist() == values


@pytest.mark.parametrize(
    ("column", "target"),
    [
        (pa.array([1], pa.int64()), IntegerType()),
        (pa.array([0.1], pa.float64()), FloatType()),
        (pa.array([1], pa.int32()), StringType()),
        (pa.array([1], pa.timestamp("ns")), TimestampType()),
    ],
)
def test_what_would_lose_something_is_an_error(column: pa.Array, target: IcebergType) -> None:
    with pytest.raises(ProjectionError):
        project(Schema(NestedField(1, "c", target, required=False)), column, field("c", column.type, 1))


def test_slices_and_nulls_of_nested_columns_keep_their_places() -> None:
    inner = pa.struct([field("old", pa.int32(), 3)])
    source = field("l", pa.large_list(field("element", inner, 2)), 1)
    values = [None, [{"old": 1}, None], [], [{"old": None}], None]
    column = pa.array(values, source.type).slice(1, 4)
    element = StructType(
        NestedField(4, "new", StringType(), required=False), NestedField(3, "renamed", LongType(), required=False)
    )
    schema = Schema.model_validate(
        {
            "type": "struct",
            "fields": [
                {
                    "id": 1,
                    "name": "l",
                    "required": False,
                    "type": {"type": "list", "element-id": 2, "element": element, "element-required": False},
                }
            ],
        }
    )
    expected = [[{"new": None, "renamed": 1}, None], [], [{"new": None, "renamed": None}], None]
    assert project(schema, column, source).to_pylist() == expected
