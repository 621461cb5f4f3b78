"""Partition and sort transforms in compactions: rows move to the current spec, and come in the table's own order."""

import math
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.inspection import table_health
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, Strategy, compact, plan_compaction
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.faults import Meanwhile
from tests.integration.compaction.naive import entries, live_rows
from tests.integration.compaction.tables import (
    IDENTIFIER,
    NOW,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    put_file,
    scanned_rows,
)

TENANT = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def moving(**changes: Any) -> CompactionOptions:
    known = {"target_file_bytes": 10**6, "use_current_spec": True, "verify_contents": True}
    return CompactionOptions.model_validate(known | changes)


def partition_by_city(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("city", IdentityTransform(), "city")


def stored(table: Table) -> list[tuple[int, Record, list[dict[str, Any]]]]:
    return [
        (file.spec_id, file.partition, pq.read_table(file.file_path.removeprefix("file://")).to_pylist())
        for file in data_files(table)
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"strategy": "sort", "order": [{"name": "id", "descending": True}]},
        {"strategy": "zorder", "order": [{"name": "id"}, {"name": "quantity"}]},
        {"strategy": "sort", "order": [{"name": "quantity"}], "task_memory_bytes": 1 << 20},
    ],
    ids=["bin-pack", "sort", "z-order", "sort in little memory"],
)
def test_every_row_goes_to_its_partition_by_all_transforms_of_the_spec(
    catalog: SqlCatalog, changes: dict[str, Any]
) -> None:
    table = create(catalog)
    append_many(table, 3, rows=2000 if "task_memory_bytes" in changes else 50)
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(3), "id_bucket")
        update.add_field("quantity", TruncateTransform(50), "quantity_50")
        update.add_field("city", IdentityTransform(), "city")
    before = scanned_rows(table)
    bucket = BucketTransform(3).transform(table.schema().find_type("id"))

    result = compacted(catalog, moving(**changes))

    assert result.files_rewritten == 3
    assert scanned_rows(table.refresh()) == before
    for spec_id, partition, rows in stored(table):
        assert spec_id == table.spec().spec_id
        places = {(bucket(row["id"]), row["quantity"] - row["quantity"] % 50, row["city"]) for row in rows}
        assert places == {tuple(partition[position] for position in range(3))}
        if changes.get("strategy") == "sort" and changes["order"][0]["name"] == "id":
            assert [row["id"] for row in rows] == sorted((row["id"] for row in rows), reverse=True)
    assert plan_compaction(table, moving(**changes), now=NOW).is_empty


def test_floats_that_are_two_values_go_to_two_partitions_and_those_that_are_one_to_one(catalog: SqlCatalog) -> None:
    """To Python 0.0 equals -0.0, and no NaN equals another; to Iceberg it is the other way round."""
    schema = Schema(NestedField(1, "weight", DoubleType(), required=False))
    table = create(catalog, schema)
    weights = [0.0, -0.0, math.nan, None, 1.5] * 30_000
    for _ in range(2):
        put_file(table, pa.table({"weight": pa.array(weights, pa.float64())}))
    with table.update_spec() as update:
        update.add_field("weight", IdentityTransform(), "weight")

    compacted(catalog, moving())

    found = {str(partition[0]): {str(row["weight"]) for row in rows} for _, partition, rows in stored(table.refresh())}
    assert found == {value: {value} for value in ("0.0", "-0.0", "nan", "None", "1.5")}
    assert len(data_files(table)) == 5


def test_files_stay_where_they_are_unless_asked(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 6)
    partition_by_city(table)

    compacted(catalog, moving(use_current_spec=False))

    assert table_health(table.refresh(), small_file_bytes=1).old_spec_files == len(data_files(table)) > 0
    assert {spec_id for spec_id, _, _ in stored(table.refresh())} == {0}


def test_files_move_to_a_spec_without_partitions_and_are_packed_by_the_next_run(catalog: SqlCatalog) -> None:
    table = create(catalog)
    partition_by_city(table)
    for _ in range(3):
        table.append(plain_rows(0, 10))
    with table.update_spec() as update:
        update.remove_field("city")
    before = scanned_rows(table)

    compacted(catalog, moving(min_input_files=2))
    compacted(catalog, moving(min_input_files=2))

    [(spec_id, _, rows)] = stored(table.refresh())
    assert (spec_id, len(rows)) == (table.spec().spec_id, 30)
    assert scanned_rows(table) == before


def test_deletes_of_the_old_partition_are_applied_and_go(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = [put_file(table, plain_rows(start, 10)) for start in (0, 10)]
    delete_positions(table, {paths[0]: [1]})
    delete_equal(table, ["id"], [{"id": 12}], spec_id=0)
    partition_by_city(table)

    result = compacted(catalog, moving())

    assert result.rows_deleted == 2
    assert {entry.data_file.content.value for entry in entries(table.refresh())} == {0}
    assert sorted(row[1] for _, _, row in live_rows(table)) == [i for i in range(20) if i not in (1, 12)]


def run_meanwhile(catalog: SqlCatalog, happening: Callable[[], object]) -> CompactionResult:
    return compact(catalog, IDENTIFIER, moving(), executor=Meanwhile(happening), run_id=uuid.uuid4().hex, now=NOW)


def test_an_equality_delete_in_the_partition_that_rows_leave_is_not_lost(catalog: SqlCatalog) -> None:
    table = create(catalog)
    partition_by_city(table)
    old = table.spec().spec_id
    table.append(plain_rows(0, 10))
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(2), "id_bucket")

    def delete() -> None:
        other = catalog.load_table(IDENTIFIER)
        delete_equal(other, ["id"], [{"id": 1}], partition=Record("city 1"), spec_id=old)

    result = run_meanwhile(catalog, delete)

    assert result.replans == 1
    assert sorted(row[1] for _, _, row in live_rows(table.refresh())) == [0, *range(2, 10)]


def test_an_equality_delete_in_the_partition_that_rows_enter_does_not_take_them(catalog: SqlCatalog) -> None:
    table = create(catalog)
    table.append(plain_rows(0, 10))
    partition_by_city(table)

    def delete() -> None:
        other = catalog.load_table(IDENTIFIER)
        delete_equal(other, ["id"], [{"id": 1}], partition=Record("city 1"), spec_id=other.spec().spec_id)

    result = run_meanwhile(catalog, delete)

    assert result.replans == 1
    assert sorted(row[1] for _, _, row in live_rows(table.refresh())) == list(range(10))


@pytest.mark.parametrize(
    ("kind", "written", "in_manifest"),
    [
        (UUIDType(), TENANT, TENANT),
        (FixedType(4), b"\xff\x00\x7f\x80", b"\xff\x00\x7f\x80"),
        (BinaryType(), b"\xff", b"\xff"),
        (DecimalType(9, 2), Decimal("-1.50"), Decimal("-1.50")),
        (DecimalType(38, 10), Decimal("-1.5000000000"), Decimal("-1.5000000000")),
        (BooleanType(), True, True),
        (FloatType(), 0.1, pa.scalar(0.1, pa.float32()).as_py()),
        (DateType(), date(1969, 12, 31), -1),
        (TimeType(), time(0, 0, 1), 10**6),
        (TimestampType(), datetime(1969, 12, 31, 23, 59, 59), -(10**6)),  # noqa: DTZ001
        (TimestamptzType(), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 10**6),
    ],
    ids=str,
)
def test_deletes_are_found_in_the_partition_that_rows_enter_by_a_value_of_any_type(
    catalog: SqlCatalog, kind: PrimitiveType, written: Any, in_manifest: Any
) -> None:
    """To find them, what the kernel makes of a row must be equal to what is read from a manifest."""
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "key", kind, required=False))
    table = create(catalog, schema)
    rows = [{"id": number, "key": written if number % 2 else None} for number in range(10)]
    put_file(table, pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema())))
    with table.update_spec() as update:
        update.add_field("key", IdentityTransform(), "key")

    def delete() -> None:
        other = catalog.load_table(IDENTIFIER)
        delete_equal(other, ["id"], [{"id": 1}], partition=Record(in_manifest), spec_id=other.spec().spec_id)

    result = run_meanwhile(catalog, delete)

    assert result.replans == 1
    assert sorted(row[1] for _, _, row in live_rows(table.refresh())) == list(range(10))


def test_rows_go_to_the_folder_of_their_uuid_as_text(catalog: SqlCatalog) -> None:
    schema = Schema(NestedField(1, "tenant", UUIDType(), required=False))
    table = create(catalog, schema)
    put_file(table, pa.Table.from_pylist([{"tenant": TENANT}], schema=schema_to_pyarrow(table.schema())))
    with table.update_spec() as update:
        update.add_field("tenant", IdentityTransform(), "tenant")

    compacted(catalog, moving(min_input_files=1))

    [file] = data_files(table.refresh())
    assert file.partition == Record(TENANT)
    assert f"/tenant={TENANT}/" in file.file_path


def test_an_equality_delete_of_the_whole_table_is_no_conflict(catalog: SqlCatalog) -> None:
    table = create(catalog)
    table.append(plain_rows(0, 10))
    partition_by_city(table)

    result = run_meanwhile(
        catalog, lambda: delete_equal(catalog.load_table(IDENTIFIER), ["id"], [{"id": 1}], spec_id=0)
    )

    assert result.replans == 0
    assert sorted(row[1] for _, _, row in live_rows(table.refresh())) == [0, *range(2, 10)]


def test_rows_are_in_the_tables_sort_order_where_that_has_transforms(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5, rows=40)
    with table.update_sort_order() as update:
        update.desc("id", BucketTransform(4), NullOrder.NULLS_LAST)
        update.asc("city", TruncateTransform(6), NullOrder.NULLS_FIRST)
        update.asc("quantity", IdentityTransform(), NullOrder.NULLS_FIRST)
    before = scanned_rows(table)
    bucket = BucketTransform(4).transform(table.schema().find_type("id"))

    compacted(catalog, CompactionOptions(target_file_bytes=10**6, strategy=Strategy.SORT))

    [(_, _, rows)] = stored(table.refresh())
    keys = [(-(bucket(row["id"]) or 0), (row["city"] or "")[:6], row["quantity"]) for row in rows]
    assert keys == sorted(keys)
    assert [file.sort_order_id for file in data_files(table)] == [table.sort_order().order_id]
    assert scanned_rows(table) == before


def test_a_move_into_the_current_spec_is_planned_with_the_files_that_it_makes(catalog: SqlCatalog) -> None:
    """Each partition gets a file of its own: a plan that counted bytes alone would promise one."""
    table = create(catalog)
    times = pa.array([date(2026, 1, 1 + day % 6) for day in range(24)]).cast(pa.timestamp("us"))
    with table.update_schema() as update:
        update.add_column("seen", TimestampType())
    for start in (0, 12):
        rows = plain_rows(start, 12)
        table.append(rows.append_column("seen", times.slice(start, 12)))
    with table.update_spec() as update:
        update.add_field("seen", DayTransform(), "seen_day")
    plan = plan_compaction(table, moving(), now=NOW)
    assert plan.expected_files == 6
    compacted(catalog, moving())
    assert len(data_files(catalog.load_table(IDENTIFIER))) == 6


def test_a_move_by_buckets_is_planned_with_a_file_a_bucket(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 2, rows=100)
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    plan = plan_compaction(table, moving(), now=NOW)
    assert plan.expected_files == 4
    compacted(catalog, moving())
    assert len(data_files(catalog.load_table(IDENTIFIER))) == 4
