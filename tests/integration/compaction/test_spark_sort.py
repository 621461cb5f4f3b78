"""A sort of a large group on real Spark: divided into ranges through its shuffle, retried by it, and never doubled."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, compact, plan_compaction
from tablejobs.executor import SessionExecutor
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.tables import (
    IDENTIFIER,
    NOW,
    create,
    data_files,
    plain_rows,
    put_file,
    scanned_rows,
)
from tests.servers.spark import LocalSpark

pytestmark = pytest.mark.xdist_group("spark")


def shuffled_files(table: Table, files: int = 6, rows: int = 2000) -> list[str]:
    order = np.random.default_rng(3).permutation(files * rows)
    everything = plain_rows(0, files * rows).take(pa.array(order))
    return [put_file(table, everything.slice(number * rows, rows)) for number in range(files)]


def options(table: Table, **changes: Any) -> CompactionOptions:
    size = sum(file.file_size_in_bytes for file in data_files(table))
    known = {
        "target_file_bytes": size // 3,
        "min_file_bytes": size // 3 - 1,
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

    with pytest.raises(Exception, match=r"bytes, and its manifest says"):
        compacted_on_spark(catalog, spark, wanted)

    assert table.refresh().metadata.current_snapshot_id == before
