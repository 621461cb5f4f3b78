"""A sort of a large group on real Spark: divided into ranges through its shuffle, retried by it, and never doubled."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tableformat.engine import UnreadableDataFile
from tableformat.engine.division import ranges_of
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, compact, plan_compaction
from tablejobs import executor
from tablejobs.executor import SessionExecutor, _joined
from tablejobs.spark_errors import TaskFailed
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.tables import (
    IDENTIFIER,
    NOW,
    assert_near_the_target_and_in_order,
    create,
    data_files,
    repeated_cities,
    scanned_rows,
    shuffled_files,
)
from tests.servers.spark import LocalSpark

pytestmark = pytest.mark.xdist_group("spark")


def options(table: Table, **changes: Any) -> CompactionOptions:
    size = sum(file.file_size_in_bytes for file in data_files(table))
    known = {
        "target_file_bytes": size // 12,  # in order, rows take far less
        "min_file_bytes": size // 12 - 1,
        "strategy": "sort",
        "order": [{"name": "id"}],
        "min_input_files": 1,
        "delete_ratio_percent": 1,
        "verify_contents": True,
    }
    return CompactionOptions.model_validate(known | changes)


def compacted_on_spark(catalog: SqlCatalog, spark: LocalSpark, wanted: CompactionOptions) -> CompactionResult:
    executor = SessionExecutor(spark.session)
    return compact(catalog, IDENTIFIER, wanted, executor=executor, run_id=uuid.uuid4().hex, now=NOW)


def ids_by_file(table: Table) -> list[list[int]]:
    return sorted(pq.read_table(file.file_path.removeprefix("file://"))["id"].to_pylist() for file in data_files(table))


def test_a_large_sort_goes_through_the_shuffle_and_comes_out_in_one_order(
    catalog: SqlCatalog, spark: LocalSpark
) -> None:
    table = create(catalog)
    paths = shuffled_files(table)
    delete_positions(table, {paths[0]: [0, 1], paths[3]: [5]})
    gone = {
        row["id"]
        for path, places in ((paths[0], [0, 1]), (paths[3], [5]))
        for row in pq.read_table(path.removeprefix("file://")).take(places).to_pylist()
    }
    delete_equal(table, ["id"], [{"id": 7}, {"id": 11_111}])
    gone |= {7, 11_111}

    result = compacted_on_spark(catalog, spark, options(table))

    found = ids_by_file(table.refresh())
    assert len(found) > 2
    assert [i for ids in found for i in ids] == [i for i in range(12_000) if i not in gone]
    assert result.rows_deleted == len(gone)
    assert result.tasks == 1


def test_files_are_near_the_target_though_rows_in_order_take_far_less_than_their_sources(
    catalog: SqlCatalog, spark: LocalSpark
) -> None:
    table = create(catalog)
    repeated_cities(table)
    target = sum(file.file_size_in_bytes for file in data_files(table)) // 12
    order = [{"name": "city"}, {"name": "id"}]

    compacted_on_spark(catalog, spark, options(table, order=order, target_file_bytes=target, min_file_bytes=target - 1))

    assert_near_the_target_and_in_order(table.refresh(), target)


def test_ranges_are_joined_with_their_neighbours_in_any_session(
    spark: LocalSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered = spark.session.sparkContext.parallelize(range(16), 2).map(lambda number: (number, bytes([number])))
    ranges = numbered.partitionBy(16, lambda number: number)
    neighbours = [list(ranges_of(part, parts=5, ranges=16)) for part in range(5)]
    assert _parts(_joined(ranges, 5, 16)) == neighbours
    assert _joined(ranges, 16, 16) is ranges

    # As if Spark had joined others, which it does where it prefers those that are near each other.
    monkeypatch.setattr(executor, "ranges_of", lambda *_, **__: range(0))
    assert _parts(_joined(ranges, 5, 16)) == neighbours


def _parts(joined: Any) -> list[list[int]]:
    return [[number for number, _ in sorted(part)] for part in joined.glom().collect()]


def test_a_z_order_of_a_large_group_keeps_every_row(catalog: SqlCatalog, spark: LocalSpark) -> None:
    table = create(catalog)
    shuffled_files(table)
    before = scanned_rows(table)
    wanted = options(
        table,
        strategy="zorder",
        order=[{"name": "id"}, {"name": "quantity"}],
    )

    compacted_on_spark(catalog, spark, wanted)

    assert len(data_files(table.refresh())) > 2
    assert scanned_rows(table) == before


def test_a_file_that_cannot_be_read_fails_the_divided_run_and_leaves_the_table_as_it_was(
    catalog: SqlCatalog, spark: LocalSpark
) -> None:
    table = create(catalog)
    paths = shuffled_files(table)
    before = table.refresh().metadata.current_snapshot_id
    wanted = options(table)
    assert not plan_compaction(table, wanted, now=NOW).is_empty
    broken = Path(paths[4].removeprefix("file://"))
    broken.write_bytes(broken.read_bytes()[:-1])

    files = set(broken.parent.iterdir())

    with pytest.raises(UnreadableDataFile, match=r"bytes, and its manifest says") as failure:
        compacted_on_spark(catalog, spark, wanted)

    assert failure.value.path == paths[4]
    assert table.refresh().metadata.current_snapshot_id == before
    assert set(broken.parent.iterdir()) == files


def test_an_error_that_spark_gives_up_on_is_told_in_one_line_without_java(
    catalog: SqlCatalog, spark: LocalSpark
) -> None:
    """This session tries a task once."""
    table = create(catalog, properties={"write.data.path": "file:///dev/full/data"})
    shuffled_files(table)

    for changes in ({}, {"strategy": "binpack", "order": ()}):
        with pytest.raises(TaskFailed, match=r"data file file:///dev/full/data/.* cannot be written") as failure:
            compacted_on_spark(catalog, spark, options(table, **changes))
        assert "\n" not in str(failure.value)
        assert "org.apache" not in str(failure.value)
