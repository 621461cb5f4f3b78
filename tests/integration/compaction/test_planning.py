"""Which files a plan takes, and in which order their rows come out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tableformat.errors import PermanentError
from tableformat.maintenance.compaction import CompactionOptions, OrderColumn, Strategy, plan_compaction
from tests.integration.compaction.deletes import delete_positions
from tests.integration.compaction.tables import (
    NOW,
    SMALL_TARGET,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    put_file,
    put_files,
    stored_rows,
)

BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))


def options(**changes: object) -> CompactionOptions:
    return CompactionOptions.model_validate({"target_file_bytes": 1024 * 1024, **changes})


def column_of_files(table: Table, column: str) -> list[list[Any]]:
    columns = []
    for file in data_files(table.refresh()):
        with table.io.new_input(file.file_path).open() as stream:
            columns.append(pq.read_table(stream)[column].to_pylist())
    return columns


def test_rows_come_out_sorted_by_the_columns_that_are_named(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5, rows=30)
    before = stored_rows(table)
    order = (OrderColumn(name="city", descending=True), OrderColumn(name="id"))

    compacted(catalog, options(strategy=Strategy.SORT, order=order))

    [cities], [ids] = column_of_files(table, "city"), column_of_files(table, "id")
    rows = list(zip(cities, ids, strict=True))
    by_id = sorted(rows, key=lambda row: row[1])
    assert rows == sorted(by_id, key=lambda row: row[0] or "", reverse=True)
    assert cities[-1] is None
    assert stored_rows(table) == before


def test_a_z_ordered_table_has_the_same_rows(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5, rows=1000)
    before = stored_rows(table)
    order = [OrderColumn(name="city"), OrderColumn(name="quantity")]
    clustered = options(strategy="zorder", order=order, target_file_bytes=8 * 1024, task_memory_bytes=1024 * 1024)

    compacted(catalog, clustered)

    assert stored_rows(table.refresh()) == before
    assert plan_compaction(table, clustered, now=NOW).is_empty


def test_files_that_lack_the_tables_sort_order_are_candidates_once(catalog: SqlCatalog) -> None:
    table = create(catalog)
    with table.update_sort_order() as update:
        update.desc("quantity", IdentityTransform())
    put_file(table, plain_rows(0, 50))
    wanted = options(strategy="sort")

    compacted(catalog, wanted)

    [file] = data_files(table.refresh())
    assert file.sort_order_id == table.sort_order().order_id == 1
    assert column_of_files(table, "quantity") == [list(range(49, -1, -1))]
    assert plan_compaction(table, wanted, now=NOW).is_empty


def test_an_order_that_is_named_and_the_tables_own_reaches_files_of_a_good_size(catalog: SqlCatalog) -> None:
    table = create(catalog)
    with table.update_sort_order() as update:
        update.asc("quantity", IdentityTransform(), NullOrder.NULLS_FIRST)
    put_file(table, plain_rows(50, 100))
    size = data_files(table)[0].file_size_in_bytes
    named = options(strategy="sort", order=[{"name": "quantity"}], target_file_bytes=size)
    other = options(strategy="sort", order=[{"name": "quantity", "descending": True}], target_file_bytes=size)
    assert plan_compaction(table, other, now=NOW).is_empty

    compacted(catalog, named)

    [file] = data_files(table.refresh())
    assert file.sort_order_id == table.sort_order().order_id == 1
    assert column_of_files(table, "quantity") == [list(range(100))]
    assert plan_compaction(table, named, now=NOW).is_empty


def test_a_small_file_out_of_order_waits_while_more_beside_it_is_in_order(catalog: SqlCatalog) -> None:
    table = create(catalog)
    with table.update_sort_order() as update:
        update.asc("quantity", IdentityTransform())
    wanted = options(strategy="sort")
    put_file(table, plain_rows(0, 3000))
    compacted(catalog, wanted)
    put_file(table.refresh(), plain_rows(0, 10))
    assert plan_compaction(table.refresh(), wanted, now=NOW).is_empty
    put_file(table, plain_rows(0, 6000))
    assert plan_compaction(table.refresh(), wanted, now=NOW).source_files == 3


def test_a_sort_takes_no_more_than_a_run_may_and_later_runs_the_rest(catalog: SqlCatalog) -> None:
    table = create(catalog)
    with table.update_sort_order() as update:
        update.asc("quantity", IdentityTransform())
    for number in range(12):
        put_file(table, plain_rows(number * 500, 500))
    before, size = stored_rows(table), data_files(table)[0].file_size_in_bytes
    limit = 4 * size
    wanted = options(strategy="sort", target_file_bytes=size * 3 // 2, max_bytes_per_run=limit)

    runs = 0
    while not (plan := plan_compaction(table.refresh(), wanted, now=NOW)).is_empty:
        assert plan.source_bytes <= limit + size
        compacted(catalog, wanted)
        runs += 1

    assert 3 <= runs <= 5
    assert stored_rows(table) == before
    assert {file.sort_order_id for file in data_files(table)} == {1}


def test_every_file_is_rewritten_where_that_is_asked_for(catalog: SqlCatalog) -> None:
    table = create(catalog)
    put_file(table, plain_rows(0, 100))
    size = data_files(table)[0].file_size_in_bytes
    order = [{"name": "quantity"}, {"name": "id"}]
    clustered = options(strategy="zorder", order=order, target_file_bytes=size)
    assert plan_compaction(table, clustered, now=NOW).is_empty
    assert plan_compaction(table, clustered.model_copy(update={"rewrite_all": True}), now=NOW).source_files == 1


def test_files_that_are_hardly_more_than_footers_become_files_that_stay(catalog: SqlCatalog) -> None:
    table = create(catalog)
    put_files(table, [plain_rows(number * 40, 40) for number in range(600)])
    wanted = options(target_file_bytes=30_000)

    compacted(catalog, wanted)

    assert plan_compaction(table.refresh(), wanted, now=NOW).is_empty


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"strategy": "sort"}, "has no sort order"),
        ({"strategy": "sort", "order": [{"name": "nowhere"}]}, "no column 'nowhere'"),
        ({"filter": "nowhere = 1"}, "filter"),
        ({"filter": "city = ="}, "cannot be read"),
    ],
)
def test_what_a_plan_cannot_mean_is_said(catalog: SqlCatalog, changes: dict[str, object], reason: str) -> None:
    table = create(catalog)
    append_many(table, 5)
    with pytest.raises(PermanentError, match=reason):
        plan_compaction(table, options(**changes), now=NOW)


@pytest.mark.parametrize(
    "changes",
    [{"strategy": "zorder", "order": [{"name": "id"}]}, {"order": [{"name": "id"}]}, {"strategy": "random"}],
)
def test_options_that_contradict_each_other_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"order|strategy"):
        options(**changes)


def test_a_filter_takes_partitions_that_can_match(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=BY_CITY)
    for city in ("Agra", "Pune"):
        for number in range(5):
            put_file(table, plain_rows(number, 1), partition=Record(city))

    plan = plan_compaction(table, options(filter="city = 'Pune' and quantity > 3"), now=NOW)

    assert [task.partition_path for task in plan.tasks] == ["city=Pune"]


def test_a_filter_speaks_of_columns_as_they_are_now_though_old_partitions_lost_theirs(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=BY_CITY)
    for number in range(6):
        put_file(table, plain_rows(number, 1), partition=Record("Pune"))
    with table.update_spec() as spec:
        spec.remove_field("city")
    with table.update_schema() as schema:
        schema.delete_column("city")
    with table.update_schema() as schema:
        schema.rename_column("id", "number")

    assert plan_compaction(table, options(filter="number > 3"), now=NOW).source_files == 6


def test_partitions_that_are_being_written_to_are_left_alone(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=BY_CITY)
    for city in ("Agra", "Pune"):
        for number in range(5):
            put_file(table, plain_rows(number, 1), partition=Record(city))
    written = [datetime.fromtimestamp(s.timestamp_ms / 1000, UTC) for s in table.metadata.snapshots]
    between = (written[9] - written[4]).total_seconds()
    now = written[9] + timedelta(seconds=100)
    patient = options(cool_down_seconds=100 + int(between) + 1)

    assert plan_compaction(table, patient, now=now).is_empty
    later = now + timedelta(seconds=patient.cool_down_seconds)
    assert len(plan_compaction(table, patient, now=later).tasks) == 2
    assert len(plan_compaction(table, SMALL_TARGET, now=now).tasks) == 2


def test_a_plan_says_what_it_left_for_being_new_or_for_being_too_much(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=BY_CITY)
    for city in ("Agra", "Pune"):
        for number in range(5):
            put_file(table, plain_rows(number, 1), partition=Record(city))
    now = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC) + timedelta(seconds=100)

    def left(**changes: object) -> tuple[int, bool, bool]:
        plan = plan_compaction(table, options(**changes), now=now)
        return len(plan.tasks), plan.more_left, plan.too_new

    assert left() == (2, False, False)
    assert left(max_bytes_per_run=1) == (1, True, False)
    assert left(max_bytes_per_run=10**9, cool_down_seconds=50) == (2, False, False)
    assert left(cool_down_seconds=10**6) == (0, False, True)
    assert left(min_input_files=6, cool_down_seconds=10**6) == (0, False, False), "it would not be worth it either way"


def test_a_compaction_is_no_writing_that_partitions_must_cool_down_from(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = [put_file(table, plain_rows(number, 1)) for number in range(5)]
    delete_positions(table, {paths[0]: [0]})
    compacted(catalog)
    [snapshot] = [s for s in table.refresh().metadata.snapshots if s.summary and s.summary.operation.value == "replace"]
    eager = options(
        min_input_files=1, target_file_bytes=2048, min_file_bytes=0, max_file_bytes=10**6, cool_down_seconds=1
    )
    at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC) + timedelta(seconds=0.5)
    assert plan_compaction(table, eager, now=at).is_empty


def test_oversized_files_are_divided(catalog: SqlCatalog) -> None:
    table = create(catalog)
    rows = plain_rows(0, 50_000)
    incompressible = pa.array(np.random.default_rng(0).integers(0, 2**63, rows.num_rows))
    put_file(table, rows.set_column(0, rows.schema.field("id"), incompressible))
    before = stored_rows(table)
    size = data_files(table)[0].file_size_in_bytes

    compacted(catalog, options(target_file_bytes=size // 4))

    sizes = [file.file_size_in_bytes for file in data_files(table.refresh())]
    assert len(sizes) >= 2
    assert max(sizes) < 0.45 * size
    assert stored_rows(table) == before


def test_a_plan_says_what_it_would_do(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5)
    text = str(plan_compaction(table, SMALL_TARGET, now=NOW))
    assert "compaction of db.events at snapshot" in text
    assert "5 files" in text
    assert "50 rows" in text
