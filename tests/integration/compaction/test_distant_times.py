"""Times outside Python's calendar, in years before 1 and after 9999, which Java writes like any other.

A wrong unit is enough to make one, and the table that has it must be looked after like any other, too.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.inspection import table_health
from tableformat.maintenance.compaction import CompactionOptions
from tableformat.maintenance.retention import RowRetentionOptions, remove_old_rows
from tests.integration.compaction.tables import (
    IDENTIFIER,
    compacted,
    create,
    data_files,
    put_file,
    put_files_as_java,
)
from tests.integration.maintenance.tables import later

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "at", TimestamptzType(), required=False)
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
MICROS_A_DAY = 86_400 * 10**6
DISTANT, YEAR_0, BEFORE, RECENT = (
    int(np.datetime64(day, "D").astype(np.int64)) for day in ("55840-02-29", "0000-06-01", "-001-12-31", "2026-11-15")
)

Row = tuple[int, int]
"""An id, and a time as the number that is stored."""


def rows_of(day: int, *ids: int) -> list[Row]:
    return [(number, day * MICROS_A_DAY + number) for number in ids]


def arrow(rows: list[Row]) -> pa.Table:
    at = pa.array([time for _, time in rows], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array([number for number, _ in rows], pa.int64()), "at": at})


def put_days(table: Table, *days: int, files: int = 5) -> None:
    """Each day gets so many small files of two rows, with ids from its place on."""
    for place, day in enumerate(days):
        ids = [100 * place + 2 * number for number in range(files)]
        put_files_as_java(table, [arrow(rows_of(day, first, first + 1)) for first in ids], partition=Record(day))


def partitions(table: Table) -> dict[int, list[list[Row]]]:
    """The rows of each file, by the value of its partition."""
    found: dict[int, list[list[Row]]] = {}
    for file in data_files(table):
        rows = pq.read_table(file.file_path.removeprefix("file://"))
        times = rows["at"].cast(pa.int64()).to_pylist()
        found.setdefault(file.partition[0], []).append(sorted(zip(rows["id"].to_pylist(), times, strict=True)))
    return found


def test_health_names_the_partitions_of_every_year(catalog: SqlCatalog) -> None:
    table = create(catalog, SCHEMA, spec=BY_DAY)
    put_days(table, DISTANT, RECENT, BEFORE)

    health = table_health(table, small_file_bytes=10**6)

    assert (health.partitions, health.small_files) == (3, 15)
    names = {partition.partition for partition in health.worst_partitions}
    assert names == {f"at_day={DISTANT}", "at_day=2026-11-15", f"at_day={BEFORE}"}


def test_small_files_of_every_year_are_compacted_and_keep_their_rows(catalog: SqlCatalog) -> None:
    table = create(catalog, SCHEMA, spec=BY_DAY, properties={"write.summary.partition-limit": "10"})
    put_days(table, DISTANT, RECENT, BEFORE)

    result = compacted(catalog)

    assert result.files_rewritten == 15
    assert partitions(table.refresh()) == {
        day: [rows_of(day, *range(100 * place, 100 * place + 10))]
        for place, day in enumerate((DISTANT, RECENT, BEFORE))
    }
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert "added-records=10" in (snapshot.summary[f"partitions.at_day={DISTANT}"] or "")


def test_partitions_before_the_first_year_are_old_and_those_after_the_last_are_not(catalog: SqlCatalog) -> None:
    table = create(catalog, SCHEMA, spec=BY_DAY)
    put_days(table, DISTANT, YEAR_0, RECENT, BEFORE, files=1)

    options = RowRetentionOptions(column="at", max_age_ms=1000 * 365 * 24 * 3600 * 1000)
    result = remove_old_rows(catalog, IDENTIFIER, options, run_id="run", now=later(table, minutes=1))

    assert (result.files_removed, result.rows_removed) == (2, 4)
    assert set(partitions(table.refresh())) == {DISTANT, RECENT}


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (YearTransform(), {55840 - 1970, -1 - 1970}),
        (MonthTransform(), {(55840 - 1970) * 12 + 1, (-1 - 1970) * 12 + 11}),
        (DayTransform(), {DISTANT, BEFORE}),
        (HourTransform(), {24 * DISTANT, 24 * BEFORE}),
        (IdentityTransform(), {DISTANT * MICROS_A_DAY, BEFORE * MICROS_A_DAY}),
    ],
    ids=["year", "month", "day", "hour", "identity"],
)
def test_rows_of_every_year_move_to_their_partition(
    catalog: SqlCatalog, transform: Transform[int, int], expected: set[int]
) -> None:
    table = create(catalog, SCHEMA)
    rows = [(0, DISTANT * MICROS_A_DAY), (1, BEFORE * MICROS_A_DAY)]
    for _ in range(2):
        put_file(table, arrow(rows))
    with table.update_spec() as update:
        update.add_field("at", transform, "part")

    compacted(catalog, CompactionOptions(target_file_bytes=10**6, use_current_spec=True, verify_contents=True))

    found = partitions(table.refresh())
    assert set(found) == expected
    assert sorted(row for files in found.values() for file in files for row in file) == sorted(2 * rows)
