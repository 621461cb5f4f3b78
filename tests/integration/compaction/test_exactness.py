"""Every value of every type is the same after a rewrite, in files of any age and origin."""

import decimal
import json
import math
import uuid
from datetime import UTC, date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
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
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.engine.projection import arrow_schema
from tests.integration.compaction.tables import (
    PLAIN,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    put_file,
    scanned_rows,
    stored_rows,
)

POINT = StructType(
    NestedField(101, "x", DoubleType(), required=True),
    NestedField(102, "tags", ListType(103, StringType(), element_required=False), required=False),
)
EVERYTHING = Schema(
    NestedField(1, "boolean", BooleanType(), required=False),
    NestedField(2, "int", IntegerType(), required=False),
    NestedField(3, "long", LongType(), required=False),
    NestedField(4, "float", FloatType(), required=False),
    NestedField(5, "double", DoubleType(), required=False),
    NestedField(6, "decimal9", DecimalType(9, 2), required=False),
    NestedField(7, "decimal18", DecimalType(18, 5), required=False),
    NestedField(8, "decimal38", DecimalType(38, 10), required=False),
    NestedField(9, "date", DateType(), required=False),
    NestedField(10, "time", TimeType(), required=False),
    NestedField(11, "timestamp", TimestampType(), required=False),
    NestedField(12, "timestamptz", TimestamptzType(), required=False),
    NestedField(13, "string", StringType(), required=False),
    NestedField(14, "uuid", UUIDType(), required=False),
    NestedField(15, "fixed", FixedType(4), required=False),
    NestedField(16, "binary", BinaryType(), required=False),
    NestedField(17, "struct", POINT, required=False),
    NestedField(
        18,
        "list_of_structs",
        ListType(110, StructType(NestedField(111, "sku", StringType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(19, "map", MapType(120, StringType(), 121, LongType(), value_required=False), required=False),
    NestedField(
        20,
        "map_of_structs",
        MapType(
            130,
            IntegerType(),
            131,
            StructType(NestedField(132, "when", TimestamptzType(), required=False)),
            value_required=False,
        ),
        required=False,
    ),
    NestedField(
        21,
        "list_of_lists",
        ListType(140, ListType(141, IntegerType(), element_required=False), element_required=False),
        required=False,
    ),
)
FULL_ROW: dict[str, Any] = {
    "boolean": True,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": -0.0,
    "double": math.nan,
    "decimal9": decimal.Decimal("-1234567.89"),
    "decimal18": decimal.Decimal("-1234567890123.45678"),
    "decimal38": decimal.Decimal("-1234567890123456789012345678.0123456789"),
    "date": date(1, 1, 1),
    "time": time(23, 59, 59, 999999),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    "timestamptz": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "string": "ünï\U0001f427cödé\x00",
    "uuid": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
    "fixed": b"\xff\x00\x7f\x80",
    "binary": b"",
    "struct": {"x": 1.5, "tags": ["a", None, ""]},
    "list_of_structs": [{"sku": "1"}, None, {"sku": None}],
    "map": [("k", 1), ("", None)],
    "map_of_structs": [(1, {"when": datetime(2026, 1, 1, tzinfo=UTC)}), (2, None), (3, {"when": None})],
    "list_of_lists": [[1, None], [], None],
}
NULL_ROW: dict[str, Any] = dict.fromkeys(FULL_ROW)
EMPTY_ROW: dict[str, Any] = NULL_ROW | {
    "string": "",
    "struct": {"x": -0.0, "tags": None},
    "list_of_structs": [],
    "map": [],
    "map_of_structs": [],
    "list_of_lists": [],
    "double": 0.0,
}


def everything(rows: list[dict[str, Any]]) -> pa.Table:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(EVERYTHING))


def test_every_type_and_every_kind_of_null_survives(catalog: SqlCatalog) -> None:
    table = create(catalog, EVERYTHING)
    for rows in ([FULL_ROW], [NULL_ROW, FULL_ROW], [EMPTY_ROW], [FULL_ROW, EMPTY_ROW, NULL_ROW], [NULL_ROW]):
        put_file(table, everything(rows))
    before = stored_rows(table)

    compacted(catalog)

    assert len(data_files(table.refresh())) == 1
    assert stored_rows(table) == before
    assert sum(before.values()) == 8


def test_files_have_field_ids_and_the_storage_types_of_the_specification(catalog: SqlCatalog) -> None:
    table = create(catalog, EVERYTHING)
    for _ in range(5):
        put_file(table, everything([FULL_ROW]))

    compacted(catalog)

    with table.io.new_input(data_files(table.refresh())[0].file_path).open() as stream:
        metadata = pq.read_metadata(stream)
    text = str(metadata.schema)
    for column, stored in (
        ("decimal9", "int32 field_id={} decimal9 (Decimal(precision=9, scale=2))"),
        ("decimal18", "int64 field_id={} decimal18 (Decimal(precision=18, scale=5))"),
        ("uuid", "fixed_len_byte_array(16) field_id={} uuid (UUID)"),
        ("fixed", "fixed_len_byte_array(4) field_id={} fixed"),
        ("time", "int64 field_id={} time (Time(isAdjustedToUTC=false, timeUnit=microseconds"),
        ("timestamptz", "int64 field_id={} timestamptz (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"),
        ("list_of_structs.element", "field_id={} element"),
        ("list_of_lists.element.element", "field_id={} element"),
        ("map_of_structs.key", "field_id={} key"),
        ("map_of_structs.value.when", "field_id={} when"),
    ):
        assert stored.format(table.schema().find_field(column).field_id) in text, text
    assert b"ARROW:schema" not in (metadata.metadata or {})


def test_the_manifest_has_statistics_and_split_offsets(catalog: SqlCatalog) -> None:
    table = create(catalog, EVERYTHING)
    other = FULL_ROW | {
        "int": 7,
        "string": "z" * 40,
        "decimal38": decimal.Decimal("5.0"),
        "double": 2.5,
        "binary": b"a",
    }
    for _ in range(3):
        put_file(table, everything([FULL_ROW, other, NULL_ROW]))

    compacted(catalog, run_id="r")
    from tableformat.maintenance.compaction import CompactionOptions

    compacted(catalog, CompactionOptions(target_file_bytes=10**6, min_input_files=2))

    file = data_files(table.refresh())[0]

    def bounds(column: str) -> tuple[Any, Any]:
        field_id, field_type = table.schema().find_field(column).field_id, table.schema().find_type(column)
        assert isinstance(field_type, PrimitiveType)
        return from_bytes(field_type, file.lower_bounds[field_id]), from_bytes(field_type, file.upper_bounds[field_id])

    assert file.record_count == 9
    assert bounds("int") == (-(2**31), 7)
    assert bounds("decimal38") == (FULL_ROW["decimal38"], decimal.Decimal("5.0"))
    assert bounds("string") == ("z" * 16, FULL_ROW["string"])
    assert bounds("double") == (2.5, 2.5)
    assert bounds("binary") == (b"", b"a")
    assert bounds("struct.x") == (1.5, 1.5)
    assert table.schema().find_field("list_of_structs.sku").field_id not in file.lower_bounds
    assert file.value_counts[2] == 9
    assert file.null_value_counts[2] == 3
    assert file.split_offsets == [4]
    assert sum(file.column_sizes.values()) <= file.file_size_in_bytes


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        (b"z" * 17, b"z" * 16, b"z" * 15 + b"{"),
        ("\ud7ff".encode() * 17, "\ud7ff".encode() * 16, "\ud7ff".encode() * 15 + "\ue000".encode()),
        ("a\U0010ffff".encode() * 17, "a\U0010ffff".encode() * 8, ("a\U0010ffff" * 7 + "b").encode()),
        ("\U0010ffff".encode() * 17, "\U0010ffff".encode() * 16, None),
        (b"\xff" * 17, None, None),
    ],
    ids=["plain", "before the surrogates", "carried over", "nothing is greater", "no text"],
)
def test_any_text_has_true_bounds_or_none(
    catalog: SqlCatalog, text: bytes, lower: bytes | None, upper: bytes | None
) -> None:
    table = create(catalog, Schema(NestedField(1, "string", StringType(), required=False)))
    texts = pa.array([text, None], pa.large_binary()).view(pa.large_string())  # unchecked, as engines store them
    for _ in range(5):
        put_file(table, pa.Table.from_arrays([texts], schema=arrow_schema(table.schema())), field_ids=False)

    compacted(catalog)

    [file] = data_files(table.refresh())
    assert (file.lower_bounds.get(1), file.upper_bounds.get(1)) == (lower, upper)
    with table.io.new_input(file.file_path).open() as stream:
        found = pq.read_table(stream)["string"].combine_chunks()
    assert found.cast(pa.binary()).to_pylist() == [text, None] * 5


def test_values_that_are_too_long_for_parquets_own_statistics_have_bounds(catalog: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "text", StringType(), required=False),
        NestedField(2, "within", StructType(NestedField(3, "payload", BinaryType(), required=False)), required=False),
    )
    table = create(catalog, schema, properties={"write.parquet.row-group-limit": "2"})
    rows = [
        {"text": "b" * 5000, "within": {"payload": b"c"}},
        {"text": None, "within": None},
        {"text": "y", "within": {"payload": b"x" * 5000}},
        {"text": "a", "within": {"payload": None}},
    ]
    for _ in range(5):
        put_file(table, pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))

    compacted(catalog)

    [file] = data_files(table.refresh())
    assert file.lower_bounds == {1: b"a", 3: b"c"}
    assert file.upper_bounds == {1: b"y", 3: b"x" * 15 + b"y"}


def test_files_of_older_schemas_come_out_in_the_current_one(catalog: SqlCatalog) -> None:
    table = create(
        catalog,
        Schema(
            NestedField(1, "id", IntegerType(), required=True),
            NestedField(2, "price", FloatType(), required=False),
            NestedField(3, "gone", StringType(), required=False),
            NestedField(
                4,
                "items",
                ListType(5, StructType(NestedField(6, "sku", StringType(), required=False)), element_required=False),
                required=False,
            ),
            NestedField(7, "amount", DecimalType(9, 2), required=False),
        ),
    )
    arrow = table.schema().as_arrow()
    for number in range(5):
        rows = [
            {"id": number, "price": 0.1, "gone": "x", "items": [{"sku": "a"}, None], "amount": decimal.Decimal("1.10")},
            {"id": number, "price": None, "gone": None, "items": None, "amount": None},
            {"id": number, "price": 1.0, "gone": None, "items": [], "amount": None},
        ]
        put_file(table, pa.Table.from_pylist(rows, schema=arrow))
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("price", DoubleType())
        update.update_column("amount", DecimalType(20, 2))
        update.rename_column("price", "cost")
        update.delete_column("gone")
        update.add_column("gone", IntegerType())  # another column of the same name
        update.add_column(("items", "quantity"), IntegerType())
        update.move_first("price")
    compacted(catalog)

    file = data_files(table.refresh())[0]
    with table.io.new_input(file.file_path).open() as stream:
        rows = pq.read_table(stream).to_pylist()
    float32 = pa.scalar(0.1, pa.float32()).as_py()
    assert rows[:3] == [
        {
            "cost": float32,
            "id": 0,
            "items": [{"sku": "a", "quantity": None}, None],
            "amount": decimal.Decimal("1.10"),
            "gone": None,
        },
        {"cost": None, "id": 0, "items": None, "amount": None, "gone": None},
        {"cost": 1.0, "id": 0, "items": [], "amount": None, "gone": None},
    ]
    assert len(rows) == 15


def test_files_without_field_ids_are_read_by_the_tables_name_mapping(catalog: SqlCatalog) -> None:
    mapping = [
        {"field-id": 1, "names": ["id", "old_id"]},
        {"field-id": 2, "names": ["city"]},
        {"field-id": 3, "names": ["quantity"]},
    ]
    table = create(catalog, properties={"schema.name-mapping.default": json.dumps(mapping)})
    for number in range(4):
        put_file(table, plain_rows(number, 1).rename_columns(["old_id", "city", "unmapped"]), field_ids=False)
    append_many(table, 1, start=50, rows=1)

    compacted(catalog)

    file = data_files(table.refresh())[0]
    with table.io.new_input(file.file_path).open() as stream:
        rows = pq.read_table(stream).to_pylist()
    assert sorted((row["id"], row["city"], row["quantity"]) for row in rows) == [
        (0, None, None),
        (1, "city 1", None),
        (2, "city 2", None),
        (3, "city 3", None),
        (50, "city 0", 50),
    ]


def test_a_partition_column_that_files_lack_takes_the_partitions_value(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    mapping = json.dumps([{"field-id": 1, "names": ["id"]}, {"field-id": 3, "names": ["quantity"]}])
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    for number in range(5):
        put_file(table, plain_rows(number, 1).drop_columns(["city"]), partition=Record("Pune"), field_ids=False)

    compacted(catalog)

    rows = scanned_rows(table.refresh())
    assert len(data_files(table)) == 1
    assert all("'city': 'Pune'" in row for row in rows)
    with table.io.new_input(data_files(table)[0].file_path).open() as stream:
        assert pq.read_table(stream)["city"].to_pylist() == ["Pune"] * 5


@pytest.mark.parametrize("value", [None, "Agra"])
def test_a_default_takes_the_place_of_no_partition_value_not_even_of_null(
    catalog: SqlCatalog, value: str | None
) -> None:
    city = NestedField(2, "city", StringType(), required=False, initial_default="Pune", write_default="Pune")
    schema = Schema(PLAIN.fields[0], city, PLAIN.fields[2], schema_id=1)
    mapping = json.dumps([{"field-id": 1, "names": ["id"]}, {"field-id": 3, "names": ["quantity"]}])
    table = create(
        catalog,
        spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")),
        properties={"schema.name-mapping.default": mapping},
    )
    # PyIceberg creates no table with defaults.
    catalog.commit_table(table, (), (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=1)))
    assert table.refresh().schema().find_field("city").initial_default == "Pune"
    for number in range(5):
        put_file(table, plain_rows(number, 1).drop_columns(["city"]), partition=Record(value), field_ids=False)

    compacted(catalog)

    [file] = data_files(table.refresh())
    with table.io.new_input(file.file_path).open() as stream:
        assert pq.read_table(stream)["city"].to_pylist() == [value] * 5


def test_names_that_parquet_writers_change_are_no_obstacle(catalog: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "a.b", IntegerType(), required=False),
        NestedField(2, "ünï code", StringType(), required=False),
        NestedField(3, "a", StructType(NestedField(4, "c", IntegerType(), required=False)), required=False),
    )
    table = create(catalog, schema)
    for number in range(5):
        table.append(pa.Table.from_pylist([{"a.b": number, "ünï code": "x", "a": {"c": 1}}], schema=schema.as_arrow()))
    before = scanned_rows(table)

    compacted(catalog)

    assert scanned_rows(table.refresh()) == before
    assert data_files(table)[0].upper_bounds[1] == (4).to_bytes(4, "little")


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "lz4"])
def test_the_tables_compression_codec_is_used_whether_it_has_levels_or_not(catalog: SqlCatalog, codec: str) -> None:
    table = create(catalog, properties={"write.parquet.compression-codec": codec})
    append_many(table, 5)
    with table.transaction() as transaction:  # not before: PyIceberg's writer refuses it
        transaction.set_properties({"write.parquet.compression-level": "3"})

    compacted(catalog)

    with table.io.new_input(data_files(table.refresh())[0].file_path).open() as stream:
        found = pq.read_metadata(stream).row_group(0).column(0).compression
    assert found == {"uncompressed": "UNCOMPRESSED"}.get(codec, codec.upper())


def test_row_groups_are_as_large_as_the_table_asks(catalog: SqlCatalog) -> None:
    table = create(catalog, properties={"write.parquet.row-group-limit": "1000"})
    append_many(table, 5, rows=700)
    before = stored_rows(table)

    compacted(catalog)

    file = data_files(table.refresh())[0]
    assert file.split_offsets is not None
    assert len(file.split_offsets) == 4
    assert stored_rows(table) == before


def test_data_files_go_where_the_table_wants_them(catalog: SqlCatalog, tmp_path: Any) -> None:
    table = create(catalog, PLAIN, properties={"write.data.path": f"file://{tmp_path}/elsewhere"})
    append_many(table, 5)

    compacted(catalog)

    assert data_files(table.refresh())[0].file_path.startswith(f"file://{tmp_path}/elsewhere/")
