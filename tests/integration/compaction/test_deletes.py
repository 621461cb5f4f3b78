"""Rows that other engines deleted are gone after a rewrite, no other row is, and deletes without a use go with them."""

import math
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
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
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.engine import UnreadableDataFile
from tableformat.maintenance import UnsupportedTable
from tableformat.maintenance.compaction import CompactionOptions, plan_compaction
from tableformat.maintenance.summaries import summarize
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.formats import delete_equal_in, put_rows
from tests.integration.compaction.tables import (
    NOW,
    SMALL_TARGET,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    put_file,
    scanned_rows,
)


def live_column(table: Table, column: str) -> list[Any]:
    """The column's values as the data files have them; there must be no deletes left to apply."""
    files = data_files(table.refresh())
    assert {file.content for file in files} == {DataFileContent.DATA}
    values: list[Any] = []
    for file in files:
        with table.io.new_input(file.file_path).open() as stream:
            values += pq.read_table(stream)[column].to_pylist()
    return sorted(values, key=repr)


def put_plain(table: Table, files: int, rows: int = 10) -> list[str]:
    return [put_file(table, plain_rows(number * rows, rows)) for number in range(files)]


def summary_of(table: Table) -> dict[str, str]:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary.additional_properties


def test_rows_deleted_by_position_are_gone_and_so_is_the_delete_file(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = put_plain(table, 5)
    delete_positions(table, {paths[0]: [0, 9], paths[3]: [5]})
    before = scanned_rows(table)

    result = compacted(catalog)

    assert scanned_rows(table.refresh()) == before
    assert live_column(table, "id") == sorted((i for i in range(50) if i not in {0, 9, 35}), key=repr)
    assert (result.rows, result.rows_deleted, result.delete_files_removed) == (47, 3, 1)
    assert summary_of(table)["removed-position-delete-files"] == "1"


def test_the_same_row_deleted_twice_is_one_row(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = put_plain(table, 5)
    delete_positions(table, {paths[0]: [1, 2]})
    delete_positions(table, {paths[0]: [2, 3]}, bounds=False)

    assert compacted(catalog).rows == 47
    assert len(live_column(table, "id")) == 47


def test_a_delete_file_that_still_applies_to_a_file_outside_the_plan_stays(catalog: SqlCatalog) -> None:
    table = create(catalog)
    large = put_file(table, plain_rows(1000, 200_000))
    paths = put_plain(table, 5)
    delete_positions(table, {large: [7], paths[0]: [0]})
    before = scanned_rows(table)

    compacted(catalog, CompactionOptions(target_file_bytes=64 * 1024, max_file_bytes=10**9))

    assert scanned_rows(table.refresh()) == before
    contents = sorted(file.content for file in data_files(table))
    assert contents == [DataFileContent.DATA, DataFileContent.DATA, DataFileContent.POSITION_DELETES]


def test_a_file_is_rewritten_alone_when_most_of_it_is_deleted(catalog: SqlCatalog) -> None:
    table = create(catalog)
    [path] = put_plain(table, 1, rows=100)
    options = CompactionOptions(target_file_bytes=1024 * 1024, delete_ratio_percent=40)
    delete_positions(table, {path: range(39)})
    assert plan_compaction(table, options, now=NOW).is_empty

    delete_positions(table, {path: [99]})
    compacted(catalog, options)

    assert live_column(table, "id") == sorted(range(39, 99), key=repr)
    assert plan_compaction(table.refresh(), options, now=NOW).is_empty


def test_a_file_whose_rows_are_all_deleted_goes_without_a_successor(catalog: SqlCatalog) -> None:
    table = create(catalog)
    [path] = put_plain(table, 1)
    delete_positions(table, {path: range(10)})

    result = compacted(catalog)

    assert (result.files_rewritten, result.files_added, result.rows_deleted) == (1, 0, 10)
    assert data_files(table.refresh()) == []


def test_equality_deletes_apply_to_older_rows_only(catalog: SqlCatalog) -> None:
    table = create(catalog)
    put_plain(table, 3)
    delete_equal(table, ["id"], [{"id": 4}, {"id": 15}, {"id": 999}])
    put_file(table, plain_rows(4, 1))  # inserted again after the delete
    put_plain(table, 1)  # and once more, with the other rows 0 to 9

    result = compacted(catalog)

    assert live_column(table, "id") == sorted([*range(4), *range(5, 15), *range(16, 30), 4, *range(10)], key=repr)
    assert (result.rows_deleted, result.delete_files_removed) == (2, 1)
    assert summary_of(table)["removed-equality-deletes"] == "3"


def test_each_file_sees_the_deletes_that_came_after_it(catalog: SqlCatalog) -> None:
    table = create(catalog)
    for _ in range(5):
        put_file(table, plain_rows(0, 3))
        delete_equal(table, ["id"], [{"id": 1}])
    put_file(table, plain_rows(0, 3))

    compacted(catalog)

    assert live_column(table, "id") == sorted([0, 2] * 5 + [0, 1, 2], key=repr)


def test_several_key_sets_and_nulls(catalog: SqlCatalog) -> None:
    table = create(catalog)
    put_plain(table, 5, rows=20)
    rows = [row for number in range(5) for row in plain_rows(number * 20, 20).to_pylist()]
    delete_equal(table, ["city"], [{"city": None}])
    delete_equal(table, ["city", "quantity"], [{"city": "city 1", "quantity": 11}, {"city": "city 2", "quantity": 1}])
    delete_equal(table, ["quantity", "city"], [{"quantity": 36, "city": "city 1"}])

    compacted(catalog)

    survivors = [
        row["id"]
        for row in rows
        if row["city"] is not None and (row["city"], row["quantity"]) not in {("city 1", 11), ("city 1", 36)}
    ]
    assert live_column(table, "id") == sorted(survivors, key=repr)


@pytest.mark.parametrize(
    ("column_type", "values", "deleted", "survivors"),
    [
        (BooleanType(), [True, False, None], [True], [False, None]),
        (IntegerType(), [1, -1, None], [-1, None], [1]),
        (DoubleType(), [0.0, -0.0, math.nan, 1.5], [-0.0, math.nan], [0.0, 1.5]),
        (DecimalType(20, 2), ["1.10", "-1.10"], ["1.10"], ["-1.10"]),
        (DateType(), [0, 1, -1], [-1], [0, 1]),
        (TimeType(), [0, 1], [1], [0]),
        (TimestamptzType(), [0, 1], [1], [0]),
        (StringType(), ["", "a", None], [""], ["a", None]),
        (BinaryType(), [b"", b"\xff"], [b"\xff"], [b""]),
    ],
)
def test_equality_is_icebergs_for_every_type(
    catalog: SqlCatalog, column_type: IcebergType, values: list[Any], deleted: list[Any], survivors: list[Any]
) -> None:
    table = create(catalog, Schema(NestedField(1, "key", column_type, required=False)))
    arrow = table.schema().as_arrow().field("key").type

    def column(items: Sequence[Any]) -> list[Any]:
        text = isinstance(column_type, DecimalType)
        array = pa.array(items, pa.string()).cast(arrow) if text else pa.array(items, arrow)
        return list(array.to_pylist())

    for value in column(values):
        put_file(table, pa.Table.from_pylist([{"key": value}], schema=table.schema().as_arrow()))
    delete_equal(table, ["key"], [{"key": value} for value in column(deleted)])

    compacted(catalog, CompactionOptions(target_file_bytes=10**6, min_input_files=1, delete_ratio_percent=1))

    assert live_column(table, "key") == sorted(column(survivors), key=repr)


@pytest.mark.parametrize(
    ("kind", "file_format", "values"),
    [
        (FixedType(2), FileFormat.PARQUET, [b"ab", b"ac", b"ad"]),
        (FixedType(2), FileFormat.AVRO, [b"ab", b"ac", b"ad"]),
        (UUIDType(), FileFormat.PARQUET, [uuid.UUID(int=1), uuid.UUID(int=2**127), uuid.UUID(int=3)]),
    ],
)
def test_files_with_deletes_by_a_key_that_engines_disagree_on_stay_and_the_plan_names_the_key(
    catalog: SqlCatalog, kind: IcebergType, file_format: FileFormat, values: list[Any]
) -> None:
    table = create(catalog, Schema(NestedField(1, "key", kind, required=False)))
    for value in values:
        put_rows(table, FileFormat.PARQUET, [{"key": value}])
    delete_equal_in(table, file_format, ["key"], [{"key": value} for value in values[:2]])
    old = {file.file_path for file in data_files(table.refresh())}
    for value in values * 2:
        put_rows(table, FileFormat.PARQUET, [{"key": value}])

    plan = plan_compaction(table.refresh(), SMALL_TARGET, now=NOW)
    result = compacted(catalog)

    [reason] = plan.left_alone
    assert f"left alone: 3 data files: engines disagree on equality deletes by 'key' ({kind})" in reason
    assert reason in summarize(plan).lines
    assert (plan.source_files, result.files_rewritten, result.rows_deleted) == (6, 6, 0)
    assert old < {file.file_path for file in data_files(table.refresh())}


@pytest.mark.parametrize(
    ("kind", "file_format", "values"),
    [
        (FixedType(2), FileFormat.ORC, [b"ab", b"ac"]),
        (UUIDType(), FileFormat.AVRO, [uuid.UUID(int=1), uuid.UUID(int=2**127)]),
        (UUIDType(), FileFormat.ORC, [uuid.UUID(int=1), uuid.UUID(int=2**127)]),
    ],
)
def test_deletes_by_fixed_and_uuid_keys_are_applied_where_engines_agree(
    catalog: SqlCatalog, kind: IcebergType, file_format: FileFormat, values: list[Any]
) -> None:
    table = create(catalog, Schema(NestedField(1, "key", kind, required=False)))
    for value in values:
        put_rows(table, FileFormat.PARQUET, [{"key": value}] * 3)
    delete_equal_in(table, file_format, ["key"], [{"key": values[1]}])

    result = compacted(catalog, CompactionOptions(target_file_bytes=10**6, min_input_files=1, delete_ratio_percent=1))

    assert (result.rows, result.rows_deleted, result.delete_files_removed) == (3, 3, 1)


@pytest.mark.parametrize(
    ("required", "delete_format", "data_format", "stays"),
    [
        (False, FileFormat.ORC, FileFormat.PARQUET, True),
        (False, FileFormat.PARQUET, FileFormat.ORC, True),
        (True, FileFormat.PARQUET, FileFormat.PARQUET, True),
        (False, FileFormat.PARQUET, FileFormat.PARQUET, False),
        (True, FileFormat.AVRO, FileFormat.PARQUET, False),
    ],
)
def test_file_stays_where_java_skips_deletes_by_null_counts_of_a_struct_field(
    catalog: SqlCatalog, required: bool, delete_format: FileFormat, data_format: FileFormat, stays: bool
) -> None:
    place = StructType(NestedField(3, "city", StringType(), required=required))
    table = create(catalog, Schema(NestedField(2, "place", place, required=False)))
    put_rows(table, data_format, [{"place": None}, {"place": {"city": "Pune"}}])
    delete_equal_in(table, delete_format, ["place.city"], [{"place": None}])

    plan = plan_compaction(table.refresh(), CompactionOptions(rewrite_all=True, min_input_files=1), now=NOW)

    assert plan.is_empty is stays
    assert ["'place.city' (string)" in reason for reason in plan.left_alone] == [True] * stays


def test_struct_without_fields_is_refused_before_anything_is_written(catalog: SqlCatalog) -> None:
    inner = StructType(NestedField(2, "only", StringType(), required=False))
    table = create(catalog, Schema(NestedField(1, "id", LongType()), NestedField(3, "place", inner, required=False)))
    for number in range(5):
        put_rows(table, FileFormat.PARQUET, [{"id": number, "place": {"only": "x"}}])
    with table.update_schema() as update:
        update.delete_column("place.only")

    with pytest.raises(UnsupportedTable, match=r"column 'place' is a struct of .* none at all"):
        compacted(catalog)


def test_equality_deletes_by_a_nested_and_by_a_dropped_column(catalog: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "place", StructType(NestedField(3, "city", StringType(), required=False)), required=False),
        NestedField(4, "gone", IntegerType(), required=False),
    )
    table = create(catalog, schema)
    rows = [
        {"id": 0, "place": {"city": "Pune"}, "gone": 1},
        {"id": 1, "place": {"city": "Agra"}, "gone": 2},
        {"id": 2, "place": None, "gone": 3},
        {"id": 3, "place": {"city": None}, "gone": None},
    ]
    for row in rows * 2:
        put_file(table, pa.Table.from_pylist([row], schema=schema.as_arrow()))
    delete_equal(table, ["place.city"], [{"place": {"city": "Pune"}}])
    delete_equal(table, ["gone"], [{"gone": 3}])
    with table.update_schema() as update:
        update.delete_column("gone")
        update.add_column("gone", StringType())  # the name is in use again

    compacted(catalog)

    assert live_column(table, "id") == [1, 1, 3, 3]


def test_equality_deletes_of_a_partition_stay_in_it_and_global_ones_do_not(catalog: SqlCatalog) -> None:
    table = create(catalog)  # spec 0 has no partitions
    with table.update_spec() as update:
        update.add_field("city", IdentityTransform(), "city")
    for city in ("Pune", "Agra"):
        for number in range(5):
            rows = pa.table({"id": [number], "city": [city], "quantity": [number]}, schema=plain_rows(0, 1).schema)
            put_file(table, rows, partition=Record(city))
    delete_equal(table, ["id"], [{"id": 1}], partition=Record("Pune"))
    delete_equal(table, ["id"], [{"id": 3}], spec_id=0)

    compacted(catalog)

    assert live_column(table, "id") == sorted([0, 2, 4, 0, 1, 2, 4])


def test_position_deletes_for_files_of_one_task_are_none_of_the_others(catalog: SqlCatalog) -> None:
    """A delete file that names no paths in its bounds may be for any file, so that all tasks read it."""
    table = create(catalog)
    append_many(table, 8)
    files = data_files(table)
    delete_positions(table, {files[0].file_path: [0, 3]}, bounds=False)
    size = max(file.file_size_in_bytes for file in files)
    options = CompactionOptions(target_file_bytes=2 * size, max_bytes_per_task=2 * size, min_input_files=2)

    result = compacted(catalog, options)

    assert result.tasks > 1
    assert result.rows_deleted == 2
    assert sum(file.record_count for file in data_files(table.refresh()) if not file.content.value) == 78


def test_position_deletes_of_another_partition_do_not_apply(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    paths = [put_file(table, plain_rows(1, 1), partition=Record("city 1")) for _ in range(5)]
    delete_positions(table, {paths[0]: [0]}, partition=Record("elsewhere"))

    assert compacted(catalog).rows == 5
    assert len(live_column(table, "id")) == 5


def test_deletes_that_were_dangling_before_go_as_well(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = put_plain(table, 1)
    delete_positions(table, {paths[0]: [0]})
    table.refresh().delete("id >= 0")
    append_many(table, 5, start=100)
    assert any(file.content != DataFileContent.DATA for file in data_files(table))

    compacted(catalog)

    assert live_column(table, "id") == sorted(range(100, 150), key=repr)


def test_dangling_deletes_go_though_there_is_no_file_to_rewrite(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = put_plain(table, 1)
    delete_positions(table, {paths[0]: [0]})
    table.refresh().delete("id >= 0")
    delete_equal(table, ["id"], [{"id": 1}])
    put_plain(table, 1)
    plan = plan_compaction(table.refresh(), SMALL_TARGET, now=NOW)
    assert (plan.tasks, plan.dangling_deletes) == ((), 2)

    result = compacted(catalog)

    assert (result.files_rewritten, result.delete_files_removed) == (0, 2)
    assert live_column(table, "id") == list(range(10))
    assert plan_compaction(table.refresh(), SMALL_TARGET, now=NOW).is_empty


def test_a_delete_for_a_row_that_the_file_does_not_have_stops_the_run(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = put_plain(table, 5)
    delete_positions(table, {paths[2]: [10]})

    with pytest.raises(UnreadableDataFile, match="a delete names row 10, and the file has 10 rows"):
        compacted(catalog)


def test_equality_deletes_by_an_unknown_column_are_refused(catalog: SqlCatalog) -> None:
    table = create(catalog)
    put_plain(table, 5)
    delete_equal(table, ["id"], [{"id": 1}], equality_ids=[77])

    with pytest.raises(UnsupportedTable, match="compare rows by field 77"):
        plan_compaction(table, SMALL_TARGET, now=NOW)


def test_file_stays_where_a_struct_of_the_key_has_an_identity_partition_field(catalog: SqlCatalog) -> None:
    """Java puts the partition's value into the struct before it compares, also into a null one."""
    place = StructType(
        NestedField(3, "city", StringType(), required=False), NestedField(4, "zone", LongType(), required=False)
    )
    schema = Schema(NestedField(2, "place", place, required=False))
    table = create(catalog, schema, spec=PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "zone")))
    put_rows(table, FileFormat.PARQUET, [{"place": None}], partition=Record(None))
    delete_equal_in(table, FileFormat.AVRO, ["place.city"], [{"place": {"city": None}}], partition=Record(None))

    plan = plan_compaction(table.refresh(), CompactionOptions(rewrite_all=True, min_input_files=1), now=NOW)

    assert plan.is_empty
    assert "'place.city' (string)" in plan.left_alone[0]


@pytest.mark.parametrize(
    ("statistics", "stays"),
    [
        ({"nan_value_counts": {1: 1}}, True),
        ({}, True),
        ({"nan_value_counts": {1: 0}}, False),
        ({"nan_value_counts": {1: 1}, "lower_bounds": {}}, False),
    ],
    ids=["NaN outside the bounds", "NaN not counted", "no NaN", "no bounds"],
)
def test_file_stays_where_java_skips_deletes_by_bounds_that_leave_nan_out(
    catalog: SqlCatalog, statistics: dict[str, Any], stays: bool
) -> None:
    """The data has 1.0 and NaN, the delete file 5.0 and NaN: by their bounds, no row of one is in the other."""
    table = create(catalog, Schema(NestedField(1, "ratio", DoubleType(), required=False)))
    put_rows(table, FileFormat.PARQUET, [{"ratio": 1.0}, {"ratio": math.nan}])
    bounds = {name: {1: struct.pack("<d", 5.0)} for name in ("lower_bounds", "upper_bounds")}
    keys = [{"ratio": 5.0}, {"ratio": math.nan}]
    delete_equal_in(table, FileFormat.PARQUET, ["ratio"], keys, **{**bounds, **statistics})

    plan = plan_compaction(table.refresh(), CompactionOptions(rewrite_all=True, min_input_files=1), now=NOW)

    assert plan.is_empty is stays
    assert ["'ratio' (double)" in reason for reason in plan.left_alone] == [True] * stays
