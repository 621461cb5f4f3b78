"""Row retention by metadata: whole files that are too old leave the table. Rows of others are in `test_edge_files`."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform
from pyiceberg.types import DateType, IcebergType, LongType, NestedField, TimestampType, TimestamptzType

from tableformat.inspection import read_entries, read_manifests
from tableformat.maintenance import UnsupportedTable
from tableformat.maintenance.retention import (
    RowRetentionOptions,
    RowRetentionResult,
    plan_row_retention,
    remove_old_rows,
)
from tests.integration.compaction.deletes import delete_positions
from tests.integration.maintenance.faults import MortalCatalog, killed_after_every_call
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, head, read, tag

NOW = datetime.now(UTC) + timedelta(hours=2)  # ahead of what is committed, however long the suite has been running
DAY_MS = 24 * 3600 * 1000
MONTH = RowRetentionOptions(column="at", max_age_ms=30 * DAY_MS)


def make(catalog: LocalCatalog, kind: IcebergType, spec: PartitionSpec | None = None) -> Table:
    catalog.create_namespace_if_not_exists("db")
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "at", kind, required=False))
    return catalog.create_table(IDENTIFIER, schema, partition_spec=spec or PartitionSpec())


def put(table: Table, *rows: tuple[int, float | None]) -> None:
    """Each row is an id, and how many days old it is."""
    kind = table.schema().find_type("at")
    times = [None if days is None else NOW - timedelta(days=days) for _, days in rows]
    if isinstance(kind, DateType):
        at = pa.array([None if time is None else time.date() for time in times], pa.date32())
    else:
        zone = "UTC" if isinstance(kind, TimestamptzType) else None
        at = pa.array(
            [time if zone or time is None else time.replace(tzinfo=None) for time in times], pa.timestamp("us", zone)
        )
    table.append(pa.table({"id": pa.array([each for each, _ in rows], pa.int64()), "at": at}))


def run(table: Table, options: RowRetentionOptions = MONTH, run_id: str = "run") -> RowRetentionResult:
    result = remove_old_rows(table.catalog, IDENTIFIER, options, run_id=run_id, now=NOW + timedelta(minutes=1))
    table.refresh()
    return result


def ids(table: Table) -> list[int]:
    return read(table, head(table).snapshot_id)


@pytest.mark.parametrize("kind", [DateType(), TimestampType(), TimestamptzType()])
def test_files_with_old_rows_only_go_by_metadata_alone(catalog: LocalCatalog, kind: IcebergType) -> None:
    table = make(catalog, kind)
    put(table, (1, 90), (2, 40))
    put(table, (5, 1))
    plan = plan_row_retention(table, MONTH, now=NOW)
    assert (len(plan.files), plan.records, plan.edges) == (1, 2, ())
    assert "remove 1 file of" in str(plan)

    result = run(table)

    assert (result.files_removed, result.rows_removed, result.files_added, result.delete_files_added) == (1, 2, 0, 0)
    assert ids(table) == [5]
    summary = head(table).summary
    assert summary is not None
    assert (summary.operation.value, summary["total-records"], summary["total-data-files"]) == ("delete", "1", "1")


def test_a_row_without_a_time_has_no_age(catalog: LocalCatalog) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90), (2, None))
    put(table, (3, None))

    assert run(table).rows_removed == 1
    assert ids(table) == [2, 3]


@pytest.mark.parametrize("transform", [DayTransform(), IdentityTransform()])
def test_partitions_prove_what_statistics_do_not(catalog: LocalCatalog, transform: Transform[int, int]) -> None:
    kind = DateType()
    table = make(catalog, kind, PartitionSpec(PartitionField(2, 1000, transform, "day")))
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.default": "none"})
    put(table, (1, 90), (2, 40), (3, 10), (4, None))

    assert run(table).files_removed == 2
    assert ids(table) == [3, 4]


def test_tags_show_what_they_showed(catalog: LocalCatalog) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90))
    put(table, (2, 1))
    tag(table, "audit", head(table).snapshot_id)

    run(table)

    assert ids(table) == [2]
    assert read(table, table.metadata.refs["audit"].snapshot_id) == [1, 2]


def test_deletes_that_name_only_a_removed_file_go_with_it(catalog: LocalCatalog) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90), (2, 90))
    (old,) = [task.file.file_path for task in table.scan().plan_files()]
    put(table, (3, 1), (4, 1))
    (new,) = [task.file.file_path for task in table.scan().plan_files() if task.file.file_path != old]
    delete_positions(table, {old: [0]})
    delete_positions(table, {new: [0]})

    run(table)

    assert ids(table) == [4]
    deletes = [
        entry
        for manifest in read_manifests(table.io, head(table))
        if manifest.content == ManifestContent.DELETES
        for entry in read_entries(table.io, manifest)
    ]
    assert len(deletes) == 1


def test_a_second_run_has_nothing_to_do(catalog: LocalCatalog) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90))
    put(table, (2, 1))
    run(table)
    location = table.metadata_location

    assert run(table, run_id="another").snapshot_id is None
    assert table.metadata_location == location


def test_everything_may_be_too_old(catalog: LocalCatalog) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90))

    run(table)

    assert ids(table) == []


@pytest.mark.parametrize("column", ["id", "none"])
def test_a_column_that_tells_no_age_is_refused(catalog: LocalCatalog, column: str) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90))

    with pytest.raises(UnsupportedTable, match=column):
        run(table, RowRetentionOptions(column=column, max_age_ms=1))


def test_rows_appended_meanwhile_stay(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = make(catalog, TimestamptzType())
    put(table, (1, 90))

    class Racing(LocalCatalog):
        raced = False

        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            if not self.raced:
                self.raced = True
                put(catalog.load_table(IDENTIFIER), (2, 1))
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    remove_old_rows(racing, IDENTIFIER, MONTH, run_id="run", now=NOW + timedelta(minutes=1), sleep=lambda _: None)
    racing.close()
    assert ids(table.refresh()) == [2]


def test_killed_after_every_call_and_run_again_it_ends_the_same(tmp_path: Path) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = make(catalog, TimestamptzType())
    put(table, (1, 90))
    put(table, (2, 1))
    catalog.close()
    shutil.copytree(original, backup)

    def die(mortal: MortalCatalog) -> None:
        now = NOW + timedelta(minutes=1)
        remove_old_rows(mortal, IDENTIFIER, MONTH, run_id="run", now=now, sleep=lambda _: None)

    deaths = 0
    for _ in killed_after_every_call(original, die):
        deaths += 1
        again = LocalCatalog(original)
        table = again.load_table(IDENTIFIER)
        assert run(table).rows_removed == 1
        assert (ids(table), len(table.metadata.snapshots)) == ([2], 3)
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 8
