"""Files in ORC and Avro, and deletes in them, give the same rows as Parquet would, or are refused with their names."""

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from tableformat.engine import UnreadableDataFile
from tests.data_files import FOREIGN, as_texts, avro_file, encoded, rows_of
from tests.integration.compaction.formats import delete_equal_in, delete_positions_in, put_content, put_rows
from tests.integration.compaction.tables import SMALL_TARGET, append_many, compacted, create, data_files, scanned_rows
from tests.integration.compaction.test_exactness import EMPTY_ROW, EVERYTHING, FULL_ROW, NULL_ROW, everything
from tests.unit.inspection.avro import SYNC, block, header, long, text

ROW: dict[str, Any] = FULL_ROW | {"timestamptz": datetime(2262, 4, 11, 23, 47, 16, 854775, UTC)}
"""The latest time that pyarrow can read from ORC."""


def written(table: Table) -> pa.Table:
    """What the table's one file has after a compaction."""
    [file] = data_files(table.refresh())
    assert (file.content, file.file_format) == (DataFileContent.DATA, FileFormat.PARQUET)
    with table.io.new_input(file.file_path).open() as stream:
        return pq.read_table(stream)


def plain(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": i, "city": None if i % 7 == 0 else f"city {i % 5}", "quantity": i} for i in range(start, start + count)
    ]


def put_many(table: Table, file_format: FileFormat, files: int, rows: int = 10) -> list[str]:
    return [put_rows(table, file_format, plain(number * rows, rows)) for number in range(files)]


@pytest.mark.parametrize("file_format", FOREIGN)
def test_every_type_and_every_kind_of_null_comes_out_as_it_went_in(
    catalog: SqlCatalog, file_format: FileFormat
) -> None:
    table = create(catalog, EVERYTHING)
    groups: list[list[dict[str, Any]]] = [[ROW], [NULL_ROW, ROW], [EMPTY_ROW], [ROW, EMPTY_ROW, NULL_ROW], [NULL_ROW]]
    for rows in groups:
        put_rows(table, file_format, rows)

    compacted(catalog)

    assert rows_of(written(table)) == rows_of(everything([row for rows in groups for row in rows]))


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, *FOREIGN])
def test_nested_uuids_come_out_as_they_went_in(catalog: SqlCatalog, file_format: FileFormat) -> None:
    schema = Schema(
        NestedField(1, "list", ListType(2, UUIDType(), element_required=False), required=False),
        NestedField(3, "map", MapType(4, UUIDType(), 5, UUIDType(), value_required=False), required=False),
        NestedField(6, "struct", StructType(NestedField(7, "id", UUIDType(), required=True)), required=False),
    )
    table = create(catalog, schema)
    one, other = uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)
    rows: list[dict[str, Any]] = [
        {"list": [one, None, other], "map": [(one, None), (other, one)], "struct": {"id": other}},
        {"list": None, "map": None, "struct": None},
        {"list": [], "map": [], "struct": {"id": one}},
    ]
    for _ in range(5):
        put_rows(table, file_format, rows)

    compacted(catalog, SMALL_TARGET.model_copy(update={"verify_contents": True}))

    assert rows_of(written(table)) == as_texts(rows * 5)


def test_avro_has_times_that_are_as_far_away_as_parquets(catalog: SqlCatalog) -> None:
    table = create(catalog, EVERYTHING)
    for _ in range(5):
        put_rows(table, FileFormat.AVRO, [FULL_ROW])

    compacted(catalog)

    assert rows_of(written(table)) == rows_of(everything([FULL_ROW] * 5))


def test_files_of_every_format_meet_in_one(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 2)
    for start, file_format in ((100, FileFormat.ORC), (200, FileFormat.AVRO), (300, FileFormat.PARQUET)):
        put_rows(table, file_format, plain(start, 10))

    compacted(catalog)

    ids = sorted(written(table)["id"].to_pylist())
    assert ids == [*range(20), *range(100, 110), *range(200, 210), *range(300, 310)]


@pytest.mark.parametrize("deleted", range(4))
@pytest.mark.parametrize(
    ("file_format", "delete_format"),
    [  # deletes by a field of a struct in ORC files are left alone
        (FileFormat.PARQUET, FileFormat.PARQUET),
        (FileFormat.AVRO, FileFormat.AVRO),
        (FileFormat.ORC, FileFormat.AVRO),
    ],
)
def test_row_with_null_struct_survives_equality_delete_on_nested_null(
    catalog: SqlCatalog, file_format: FileFormat, delete_format: FileFormat, deleted: int
) -> None:
    code = StructType(NestedField(4, "code", IntegerType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "info", StructType(NestedField(3, "deep", code, required=False)), required=False),
    )
    table = create(catalog, schema)
    infos: list[Any] = [None, {"deep": None}, {"deep": {"code": None}}, {"deep": {"code": 0}}]
    rows = [{"id": number, "info": info} for number, info in enumerate(infos)]
    for _ in range(5):
        put_rows(table, file_format, rows)

    delete_equal_in(table, delete_format, ["info.deep.code"], [{"info": infos[deleted]}])

    compacted(catalog)

    assert sorted(set(written(table)["id"].to_pylist())) == [number for number in range(4) if number != deleted]


def test_second_nested_key_with_the_same_java_hash_deletes_nothing_as_in_java(catalog: SqlCatalog) -> None:
    info = StructType(NestedField(3, "code", IntegerType(), required=False))
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "info", info, required=False))
    table = create(catalog, schema)
    for _ in range(5):
        put_rows(table, FileFormat.PARQUET, [{"id": 0, "info": {"code": None}}, {"id": 1, "info": {"code": 0}}])
    delete_equal_in(table, FileFormat.PARQUET, ["info.code"], [{"info": {"code": None}}, {"info": {"code": 0}}])

    compacted(catalog)

    assert written(table)["id"].to_pylist() == [1] * 5


@pytest.mark.parametrize("file_format", FOREIGN)
def test_files_of_older_schemas_come_out_in_the_current_one(catalog: SqlCatalog, file_format: FileFormat) -> None:
    items = ListType(5, StructType(NestedField(6, "sku", StringType(), required=False)), element_required=False)
    older = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "price", FloatType(), required=False),
        NestedField(3, "gone", StringType(), required=False),
        NestedField(4, "items", items, required=False),
        NestedField(7, "amount", DecimalType(9, 2), required=False),
        NestedField(8, "by_number", MapType(9, IntegerType(), 10, FloatType(), value_required=False), required=False),
    )
    table = create(catalog, older)
    rows: list[dict[str, Any]] = [
        {"id": 1, "price": 0.5, "gone": "x", "items": [{"sku": "a"}, None], "amount": Decimal("-1.10")},
        {"id": 2, "items": [], "by_number": [(7, 0.25), (8, None)]},
        {"id": 3},
    ]
    for _ in range(5):
        put_rows(table, file_format, rows)
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("price", DoubleType())
        update.update_column("amount", DecimalType(20, 2))
        update.update_column("by_number.value", DoubleType())
        update.rename_column("price", "cost")
        update.delete_column("gone")
        update.add_column("gone", IntegerType())  # another column of the same name
        update.add_column(("items", "quantity"), IntegerType())
        update.move_first("price")

    compacted(catalog)

    found = written(table)
    assert found.schema.field("id").type == pa.int64()
    assert found.slice(0, 3).to_pylist() == [
        {
            "cost": 0.5,
            "id": 1,
            "items": [{"sku": "a", "quantity": None}, None],
            "amount": Decimal("-1.10"),
            "by_number": None,
            "gone": None,
        },
        {"cost": None, "id": 2, "items": [], "amount": None, "by_number": [(7, 0.25), (8, None)], "gone": None},
        {"cost": None, "id": 3, "items": None, "amount": None, "by_number": None, "gone": None},
    ]
    assert found.num_rows == 15


@pytest.mark.parametrize("file_format", FOREIGN)
def test_files_without_field_ids_are_read_by_the_tables_name_mapping(
    catalog: SqlCatalog, file_format: FileFormat
) -> None:
    tags = ListType(5, StructType(NestedField(6, "k", StringType(), required=False)), element_required=False)
    counts = MapType(8, IntegerType(), 9, LongType(), value_required=False)
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(4, "tags", tags, required=False),
        NestedField(7, "counts", counts, required=False),
    )
    table = create(catalog, schema)
    ids = {name: table.schema().find_field(name).field_id for name in table.schema().column_names}
    mapping = [
        {"field-id": ids["id"], "names": ["id", "old_id"]},
        {
            "field-id": ids["tags"],
            "names": ["tags"],
            "fields": [
                {
                    "field-id": ids["tags.element"],
                    "names": ["element"],
                    "fields": [{"field-id": ids["tags.element.k"], "names": ["old_k"]}],
                }
            ],
        },
        {
            "field-id": ids["counts"],
            "names": ["counts"],
            "fields": [
                {"field-id": ids["counts.key"], "names": ["key"]},
                {"field-id": ids["counts.value"], "names": ["value"]},
            ],
        },
    ]
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    old_tags = ListType(5, StructType(NestedField(6, "old_k", StringType(), required=False)), element_required=False)
    old = Schema(
        NestedField(1, "old_id", LongType(), required=True),
        NestedField(2, "unmapped", StringType(), required=False),
        NestedField(4, "tags", old_tags, required=False),
        NestedField(7, "counts", counts, required=False),
    )
    for number in range(5):
        row = {"old_id": number, "unmapped": "x", "tags": [{"old_k": "a"}, None], "counts": [(1, None), (2, 3)]}
        put_rows(table, file_format, [row], schema=old, field_ids=False)

    compacted(catalog)

    expected = [{"id": i, "tags": [{"k": "a"}, None], "counts": [(1, None), (2, 3)]} for i in range(5)]
    assert sorted(written(table).to_pylist(), key=lambda row: row["id"]) == expected


@pytest.mark.parametrize("file_format", FOREIGN)
def test_a_file_without_field_ids_and_without_a_name_mapping_is_not_guessed_at(
    catalog: SqlCatalog, file_format: FileFormat
) -> None:
    table = create(catalog)
    append_many(table, 4)
    put_rows(table, file_format, plain(0, 1), field_ids=False)

    with pytest.raises(UnreadableDataFile, match="no field ids, and the table has no name mapping"):
        compacted(catalog)


@pytest.mark.parametrize("file_format", FOREIGN)
def test_a_partition_column_that_files_lack_takes_the_partitions_value(
    catalog: SqlCatalog, file_format: FileFormat
) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    without = table.schema().select("id", "quantity")
    for number in range(5):
        put_rows(table, file_format, plain(number, 1), schema=without, partition=Record("Pune"))

    compacted(catalog)

    assert written(table)["city"].to_pylist() == ["Pune"] * 5


@pytest.mark.parametrize("file_format", FOREIGN)
def test_position_deletes_in_the_format_are_applied(catalog: SqlCatalog, file_format: FileFormat) -> None:
    table = create(catalog)
    paths = put_many(table, file_format, 5)
    delete_positions_in(table, file_format, {paths[0]: [0, 9], paths[3]: [5]})

    result = compacted(catalog)

    assert result.rows_deleted == 3
    assert sorted(written(table)["id"].to_pylist()) == [i for i in range(50) if i not in (0, 9, 35)]


@pytest.mark.parametrize("file_format", FOREIGN)
def test_equality_deletes_in_the_format_are_applied(catalog: SqlCatalog, file_format: FileFormat) -> None:
    table = create(catalog)
    put_many(table, file_format, 5)
    delete_equal_in(table, file_format, ["id"], [{"id": 4}, {"id": 41}])
    delete_equal_in(table, file_format, ["city", "quantity"], [{"city": None, "quantity": 7}, {"city": "x"}])
    put_rows(table, file_format, [{"id": 4, "city": "again"}])

    result = compacted(catalog)

    assert result.rows_deleted == 3
    assert sorted(written(table)["id"].to_pylist()) == sorted([*(i for i in range(50) if i not in (4, 7, 41)), 4])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def damage(path: Path) -> None:
    """The length stays, and so does the beginning."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle:] = bytes(byte ^ 0x55 for byte in content[middle:])
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("file_format", FOREIGN)
@pytest.mark.parametrize(
    ("break_it", "reason"),
    [(Path.unlink, "does not exist"), (truncate, "bytes, and its manifest says"), (damage, r"\.(orc|avro): ")],
)
def test_a_broken_file_fails_the_run_with_its_name_and_leaves_the_table_as_it_was(
    catalog: SqlCatalog, file_format: FileFormat, break_it: Callable[[Path], None], reason: str
) -> None:
    table = create(catalog)
    broken = put_many(table, file_format, 6, rows=50)[3]
    break_it(Path(broken.removeprefix("file://")))
    folder = Path(table.location().removeprefix("file://"))
    before = {path for path in folder.rglob("*") if path.is_file()}

    with pytest.raises(UnreadableDataFile, match=reason) as failure:
        compacted(catalog)

    assert failure.value.path == broken
    assert {path for path in folder.rglob("*") if path.is_file()} == before
    assert len(table.refresh().metadata.snapshots) == 6


@pytest.mark.parametrize("file_format", FOREIGN)
@pytest.mark.parametrize("said", [9, 11])
def test_a_wrong_row_count_in_a_manifest_is_noticed(catalog: SqlCatalog, file_format: FileFormat, said: int) -> None:
    table = create(catalog)
    append_many(table, 4)
    path = put_content(table, file_format, encoded(file_format, table.schema(), plain(0, 10)), said)

    with pytest.raises(UnreadableDataFile, match=f"10 rows, and its manifest says {said}") as failure:
        compacted(catalog)

    assert failure.value.path == path


@pytest.mark.parametrize("file_format", FOREIGN)
def test_a_wrong_count_of_deletes_in_a_manifest_is_noticed(catalog: SqlCatalog, file_format: FileFormat) -> None:
    table = create(catalog)
    [path, *_] = put_many(table, file_format, 5)
    deletes = delete_positions_in(table, file_format, {path: [1, 2]})
    other = encoded(file_format, Schema(*table.schema().fields), plain(0, 2))
    local = Path(deletes.removeprefix("file://"))
    local.write_bytes(other.ljust(local.stat().st_size, b"\0")[: local.stat().st_size])

    with pytest.raises(UnreadableDataFile) as failure:
        compacted(catalog)

    assert failure.value.path == deletes


@pytest.mark.parametrize("file_format", FOREIGN)
def test_a_null_in_a_required_column_is_never_written_as_something_else(
    catalog: SqlCatalog, file_format: FileFormat
) -> None:
    table = create(catalog)
    append_many(table, 4)
    nullable = Schema(*(NestedField(f.field_id, f.name, f.field_type, required=False) for f in table.schema().fields))
    put_rows(table, file_format, [{"id": None}], schema=nullable)

    with pytest.raises(UnreadableDataFile, match="required column 'id'"):
        compacted(catalog)


def test_an_orc_timestamp_that_cannot_be_read_exactly_is_refused(catalog: SqlCatalog) -> None:
    schema = Schema(NestedField(1, "ts", TimestampType(), required=False))
    table = create(catalog, schema)
    far = pa.schema([pa.field("ts", pa.timestamp("us"), metadata={"iceberg.id": "1"})])
    for year in (2026, 9999, 2026, 1, 2026):
        sink = pa.BufferOutputStream()
        orc.write_table(pa.table([[datetime(year, 12, 31)]], schema=far), sink)  # noqa: DTZ001
        put_content(table, FileFormat.ORC, sink.getvalue().to_pybytes(), 1)
    before = table.refresh().metadata

    with pytest.raises(UnreadableDataFile, match="out of range for nanosecond resolution"):
        compacted(catalog)

    assert table.refresh().metadata == before


def test_an_orc_timestamp_without_a_zone_is_not_taken_for_an_instant(catalog: SqlCatalog) -> None:
    instant = EVERYTHING.select("timestamptz")
    table = create(catalog, instant)
    local = Schema(NestedField(1, "timestamptz", TimestampType(), required=False))
    for _ in range(5):
        put_rows(table, FileFormat.ORC, [{"timestamptz": datetime(2026, 1, 1)}], schema=local)  # noqa: DTZ001

    with pytest.raises(UnreadableDataFile, match=r"is timestamp\[ns\] in ORC, and timestamp\[us, tz=UTC\]"):
        compacted(catalog)


@pytest.mark.parametrize("notes", [{"iceberg.id": "x"}, {"iceberg.id": "1", "iceberg.binary-type": "FIXED"}])
def test_orc_attributes_that_say_nothing_are_refused(catalog: SqlCatalog, notes: dict[str, str]) -> None:
    table = create(catalog, EVERYTHING.select("fixed"))
    for _ in range(5):
        sink = pa.BufferOutputStream()
        field = pa.field("fixed", pa.binary(), metadata=notes)
        orc.write_table(pa.table([[b"1234"]], schema=pa.schema([field])), sink)
        put_content(table, FileFormat.ORC, sink.getvalue().to_pybytes(), 1)

    with pytest.raises(UnreadableDataFile, match="attributes are not as Iceberg's"):
        compacted(catalog)


def test_an_orc_value_of_another_length_than_its_column_says_is_refused(catalog: SqlCatalog) -> None:
    table = create(catalog, EVERYTHING.select("uuid"))
    notes = {"iceberg.id": "1", "iceberg.binary-type": "UUID"}
    for number in range(5):
        sink = pa.BufferOutputStream()
        value = uuid.uuid4().bytes[number // 4 :]
        orc.write_table(pa.table([[value]], schema=pa.schema([pa.field("uuid", pa.binary(), metadata=notes)])), sink)
        put_content(table, FileFormat.ORC, sink.getvalue().to_pybytes(), 1)

    with pytest.raises(UnreadableDataFile, match="not 16 bytes long"):
        compacted(catalog)


AVRO_ROWS = [long(number) + b"\x02" + text("x") + b"\x00" for number in range(10)]
AVRO_FIELDS = [
    {"name": "id", "type": "long", "field-id": 1},
    {"name": "city", "type": ["null", "string"], "field-id": 2},
    {"name": "quantity", "type": ["null", "int"], "field-id": 3},
]


def avro_block(rows: int, content: bytes) -> bytes:
    return long(rows) + text(content) + SYNC


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "blocks",
    [
        [avro_block(10, b"".join(AVRO_ROWS) + bytes(40))],
        [avro_block(5, b"".join(AVRO_ROWS[:6])), avro_block(5, b"".join(AVRO_ROWS[6:]))],
        [avro_block(6, b"".join(AVRO_ROWS[:5])), avro_block(4, b"".join(AVRO_ROWS[5:]))],
        [avro_block(10, b"".join(AVRO_ROWS[:9]))],
    ],
)
def test_an_avro_block_that_is_longer_or_shorter_than_its_rows_is_refused(
    catalog: SqlCatalog, blocks: Sequence[bytes]
) -> None:
    table = create(catalog)
    append_many(table, 4)
    path = put_content(table, FileFormat.AVRO, header(AVRO_FIELDS) + b"".join(blocks), 10)

    with pytest.raises(UnreadableDataFile, match="has a block") as failure:
        compacted(catalog)

    assert failure.value.path == path


def test_avro_in_other_forms_that_the_specification_allows(catalog: SqlCatalog) -> None:
    table = create(catalog, EVERYTHING)
    for codec in ("null", "deflate"):
        for null_first in (True, False):
            content = avro_file(table.schema(), [[FULL_ROW], [], [NULL_ROW]], codec=codec, null_first=null_first)
            put_content(table, FileFormat.AVRO, content, 2)
    put_content(table, FileFormat.AVRO, avro_file(table.schema(), []), 0)

    compacted(catalog)

    assert rows_of(written(table)) == rows_of(everything([FULL_ROW, NULL_ROW] * 4))


@pytest.mark.parametrize(
    ("city", "reason"),
    [
        (["null", "string", "int"], "a choice of 3 Avro types"),
        ({"type": "enum", "name": "e", "symbols": ["x"]}, "'enum', which is not one of Iceberg's"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, "a decimal of varying length"),
        ({"type": "record", "name": "r", "fields": []}, "without fields"),
        ("elsewhere.defined", "does not define"),
        (
            {
                "type": "record",
                "name": "r",
                "fields": [
                    {"name": "a", "type": {"type": "fixed", "name": "x", "namespace": "one", "size": 1}},
                    {"name": "b", "type": {"type": "fixed", "name": "x", "namespace": "other", "size": 2}},
                    {"name": "c", "type": "x"},
                ],
            },
            "'x', which its schema does not define once before",
        ),
    ],
)
def test_avro_that_iceberg_does_not_write_is_refused(catalog: SqlCatalog, city: Any, reason: str) -> None:
    table = create(catalog)
    append_many(table, 4)
    fields = [AVRO_FIELDS[0], {"name": "city", "type": city, "field-id": 2}]
    put_content(table, FileFormat.AVRO, header(fields) + block([long(1) + b"\x00"]), 1)

    with pytest.raises(UnreadableDataFile, match=reason):
        compacted(catalog)


def test_a_second_compaction_finds_nothing_to_do(catalog: SqlCatalog) -> None:
    table = create(catalog)
    put_many(table, FileFormat.ORC, 5)

    assert compacted(catalog).snapshot_id is not None
    assert compacted(catalog).snapshot_id is None
    assert sum(scanned_rows(table.refresh()).values()) == 50
