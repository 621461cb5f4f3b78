"""Row retention inside files: rows that are too old go, in every write mode and format version, and no others do."""

import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    FixedType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UnknownType,
)

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.inspection import LiveFile, snapshot_files
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, Progress, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, apply_holds
from tableformat.maintenance.retention import (
    RowRetentionOptions,
    RowRetentionResult,
    plan_row_retention,
    remove_old_rows,
)
from tableformat.maintenance.rollback import RollbackOptions, roll_back
from tests.data_files import FOREIGN
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.formats import delete_positions_in, put_rows
from tests.integration.compaction.test_refusals import append_file
from tests.integration.maintenance.faults import MortalCatalog, killed_after_every_call
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, head, later, on_disk, reachable, read

NOW = datetime.now(UTC) + timedelta(hours=2)  # ahead of what is committed, however long the suite has been running
DAY_MS = 24 * 3600 * 1000
MONTH = RowRetentionOptions(column="at", max_age_ms=30 * DAY_MS)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "name", StringType(), required=False),
)
ARROW = SCHEMA.as_arrow()
MODES = [("copy-on-write", 2), ("merge-on-read", 2), ("copy-on-write", 3), ("merge-on-read", 3)]
in_every_mode = pytest.mark.parametrize(("mode", "version"), MODES)
Days = float | None


def make(catalog: LocalCatalog, mode: str, *, partitioned: bool = False, version: int = 2) -> Table:
    catalog.create_namespace_if_not_exists("db")
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "bucket")) if partitioned else PartitionSpec()
    properties = {"write.delete.mode": mode, "format-version": str(version)}
    return catalog.create_table(IDENTIFIER, SCHEMA, partition_spec=spec, properties=properties)


def put(table: Table, *rows: tuple[int, Days]) -> None:
    """Each row is an id, and how many days old it is."""
    at = [None if days is None else NOW - timedelta(days=days) for _, days in rows]
    ids = [each for each, _ in rows]
    table.append(
        pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "at": pa.array(at, pa.timestamp("us", "UTC")),
                "name": [f"row {each}" for each in ids],
            }
        )
    )


def at_version(table: Table, version: int) -> Table:
    """PyIceberg writes no data into tables of version 3, so they are upgraded once they have it."""
    if version == 3:
        table.catalog.commit_table(table, (), (WriteFormatV3Update(),))
    return table.refresh()


def run(table: Table, run_id: str = "run") -> RowRetentionResult:
    result = remove_old_rows(table.catalog, IDENTIFIER, MONTH, run_id=run_id, now=NOW + timedelta(minutes=1))
    table.refresh()
    return result


def ids(table: Table) -> list[int]:
    return read(table, head(table).snapshot_id)


def deletes(table: Table) -> list[LiveFile]:
    files = snapshot_files(table.io, head(table))
    return files.delete_files(np.arange(files.deletes.num_rows))


def paths(table: Table) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


@in_every_mode
@pytest.mark.parametrize("partitioned", [False, True])
def test_old_rows_go_and_the_others_stay_as_they_are(
    catalog: LocalCatalog, mode: str, version: int, partitioned: bool
) -> None:
    table = make(catalog, mode, partitioned=partitioned)
    put(table, *((number, number * 10) for number in range(7)), (7, None))
    put(table, (8, 1), (9, 2))
    table = at_version(table, version)
    before = paths(table)

    result = run(table)

    assert ids(table) == [0, 1, 2, 7, 8, 9]
    assert result.rows_removed == 4
    assert table.scan().to_arrow().sort_by("id")["name"].to_pylist() == [f"row {each}" for each in ids(table)]
    assert table.metadata.format_version == version
    if mode == "merge-on-read":
        assert set(paths(table)) == set(before)
        assert (result.files_removed, result.files_added) == (0, 0)
        assert {file.file_format for file in deletes(table)} == {
            FileFormat.PUFFIN if version == 3 else FileFormat.PARQUET
        }
        assert len(deletes(table)) == result.delete_files_added
    else:
        assert deletes(table) == []
        assert result.files_removed == result.files_added > 0
    assert run(table, "another").snapshot_id is None
    assert reachable(table) <= on_disk(table)


@in_every_mode
def test_rows_that_were_deleted_before_stay_deleted(catalog: LocalCatalog, mode: str, version: int) -> None:
    table = make(catalog, mode)
    put(table, *((number, number * 10) for number in range(8)))
    (path,) = paths(table)
    delete_positions(table, {path: [1, 5]})
    delete_equal(table, ["id"], [{"id": 2}])
    table = at_version(table, version)

    result = run(table)

    assert result.rows_removed == 4  # 3, 4, 6 and 7: of the old ones, 5 was deleted before
    by_position = [file for file in deletes(table) if not file.equality_ids]
    if mode == "copy-on-write":
        assert by_position == []
    elif version == 2:
        assert sorted(file.records for file in by_position) == [2, 4]
    else:
        assert [file.records for file in by_position] == [6]  # one vector, which took over the older deletes
    compact(
        table.catalog,
        IDENTIFIER,
        CompactionOptions(min_input_files=1, delete_ratio_percent=1),
        executor=InProcessExecutor(),
        run_id="compaction",
        now=later(table),
    )
    assert ids(table.refresh()) == [0]


@in_every_mode
def test_a_file_without_a_row_left_goes_as_a_whole(catalog: LocalCatalog, mode: str, version: int) -> None:
    """Its statistics do not prove it, because a young row of it was deleted before."""
    table = make(catalog, mode)
    put(table, (1, 90), (2, 1))
    (old,) = paths(table)
    delete_positions(table, {old: [1]})
    put(table, (3, 1))
    table = at_version(table, version)

    result = run(table)

    assert (result.files_removed, result.files_added, result.delete_files_added, result.rows_removed) == (1, 0, 0, 1)
    assert old not in paths(table)
    assert deletes(table) == []
    assert ids(table) == [3]


@in_every_mode
def test_a_file_that_is_compacted_meanwhile_is_looked_at_again(
    catalog: LocalCatalog, tmp_path: Path, mode: str, version: int
) -> None:
    table = make(catalog, mode)
    put(table, (1, 90), (2, 1))
    put(table, (3, 90), (4, 1))
    at_version(table, version)

    def compact_all(own: Table) -> None:
        options = CompactionOptions(target_file_bytes=1024 * 1024, min_input_files=2)
        executor = InProcessExecutor()
        result = compact(own.catalog, IDENTIFIER, options, executor=executor, run_id="compaction", now=later(own))
        assert result.files_rewritten == 2

    race(catalog, tmp_path, compact_all)

    assert ids(table.refresh()) == [2, 4]
    files = snapshot_files(table.io, head(table))
    assert len(files.data) == 1
    assert len(files.deletes) == (1 if mode == "merge-on-read" else 0)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_that_others_delete_meanwhile_stay_deleted(catalog: LocalCatalog, tmp_path: Path, mode: str) -> None:
    table = make(catalog, mode)
    put(table, (1, 90), (2, 1), (3, 2), (4, 3))
    (path,) = paths(table)

    def delete_some(own: Table) -> None:
        delete_positions(own, {path: [1]})
        delete_equal(own, ["id"], [{"id": 4}])

    race(catalog, tmp_path, delete_some)

    compact(
        catalog,
        IDENTIFIER,
        CompactionOptions(min_input_files=1, delete_ratio_percent=1),
        executor=InProcessExecutor(),
        run_id="compaction",
        now=later(table.refresh()),
    )
    assert ids(table.refresh()) == [3]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_an_equality_delete_that_came_meanwhile_applies_to_a_rewritten_file(
    catalog: LocalCatalog, tmp_path: Path, mode: str
) -> None:
    table = make(catalog, mode)
    put(table, (1, 90), (2, 1), (3, 2))

    race(catalog, tmp_path, lambda own: [delete_equal(own, ["id"], [{"id": 3}])])

    compact(
        catalog,
        IDENTIFIER,
        CompactionOptions(min_input_files=1, delete_ratio_percent=1),
        executor=InProcessExecutor(),
        run_id="compaction",
        now=later(table.refresh()),
    )
    assert ids(table.refresh()) == [2]


@in_every_mode
def test_a_delete_that_is_rolled_back_meanwhile_is_not_applied(
    catalog: LocalCatalog, tmp_path: Path, mode: str, version: int
) -> None:
    table = make(catalog, mode)
    put(table, (1, 90), (2, 1), (3, 2))
    kept = head(table).snapshot_id
    delete_equal(table, ["id"], [{"id": 3}])
    at_version(table, version)

    def go_back(own: Table) -> None:
        target = RollbackOptions(snapshot_id=kept, allow_losing_commits=True)
        roll_back(own.catalog, IDENTIFIER, target, run_id="back", now=NOW + timedelta(minutes=1))

    race(catalog, tmp_path, go_back)

    assert ids(table.refresh()) == [2, 3]


def race(catalog: LocalCatalog, folder: Path, act: Callable[[Table], object]) -> None:
    """A run that loses its first race to somebody who does `act`."""

    class Racing(LocalCatalog):
        raced = False

        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            if not self.raced:
                self.raced = True
                act(catalog.load_table(IDENTIFIER))
            return super().commit_table(table, requirements, updates)

    racing = Racing(folder)
    remove_old_rows(racing, IDENTIFIER, MONTH, run_id="run", now=NOW + timedelta(minutes=1), sleep=lambda _: None)
    racing.close()


def test_a_hold_shows_the_rows_that_have_gone_since(catalog: LocalCatalog) -> None:
    table = make(catalog, "copy-on-write")
    put(table, (1, 90), (2, 1))
    hold = Hold(name="audit", as_of=later(table), until=later(table, days=100))
    apply_holds(catalog, IDENTIFIER, [hold], now=later(table, seconds=1))

    run(table)
    expire_snapshots(
        catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=1), now=later(table, minutes=1)
    )

    table.refresh()
    assert ids(table) == [2]
    assert read(table, table.metadata.refs["tablewright-hold-audit"].snapshot_id) == [1, 2]


def test_a_column_inside_a_struct_has_an_age_too(catalog: LocalCatalog) -> None:
    catalog.create_namespace_if_not_exists("db")
    event = StructType(NestedField(3, "at", TimestamptzType(), required=False))
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "event", event, required=False))
    table = catalog.create_table(IDENTIFIER, schema, properties={"write.delete.mode": "merge-on-read"})
    times = [NOW - timedelta(days=90), NOW, None]
    events = pa.array([*({"at": time} for time in times), None], pa.struct([pa.field("at", pa.timestamp("us", "UTC"))]))
    table.append(pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "event": events}))

    options = RowRetentionOptions(column="event.at", max_age_ms=30 * DAY_MS)
    remove_old_rows(catalog, IDENTIFIER, options, run_id="run", now=NOW + timedelta(minutes=1))

    assert ids(table.refresh()) == [2, 3, 4]


def test_a_column_inside_a_struct_has_an_age_where_no_row_lacks_it(catalog: LocalCatalog) -> None:
    catalog.create_namespace_if_not_exists("db")
    event = StructType(NestedField(3, "at", TimestamptzType(), required=False))
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "event", event, required=False))
    table = catalog.create_table(IDENTIFIER, schema, properties={"write.delete.mode": "merge-on-read"})
    of_event = pa.struct([pa.field("at", pa.timestamp("us", "UTC"))])
    for number, days in enumerate((90, 1)):
        events = pa.array([{"at": NOW - timedelta(days=days)}], of_event)
        table.append(pa.table({"id": pa.array([number], pa.int64()), "event": events}))

    options = RowRetentionOptions(column="event.at", max_age_ms=30 * DAY_MS)
    remove_old_rows(catalog, IDENTIFIER, options, run_id="run", now=NOW + timedelta(minutes=1))

    assert ids(table.refresh()) == [1]


@in_every_mode
def test_a_row_without_a_time_stays_where_nobody_counted_those(
    catalog: LocalCatalog, tmp_path: Path, mode: str, version: int
) -> None:
    """Writers may leave the counts out; what is not counted may be there."""
    table = make(catalog, mode)
    times = pa.array([NOW - timedelta(days=90), None], pa.timestamp("us", "UTC"))
    path = tmp_path / "uncounted.parquet"
    fields = [pa.field(f.name, f.type, metadata={"PARQUET:field_id": f.metadata[b"PARQUET:field_id"]}) for f in ARROW]
    rows = pa.table([pa.array([1, 2], pa.int64()), times, ["a", "b"]], schema=pa.schema(fields))
    pq.write_table(rows, path)
    old = int((NOW - timedelta(days=90)).timestamp() * 1_000_000)
    bounds = {2: old.to_bytes(8, "little", signed=True)}
    append_file(
        table,
        file_path=f"file://{path}",
        record_count=2,
        file_size_in_bytes=path.stat().st_size,
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
    table = at_version(table, version)

    assert run(table).rows_removed == 1

    assert ids(table) == [2]


def test_a_file_that_cannot_be_read_exactly_stays_and_is_told(catalog: LocalCatalog) -> None:
    table = make(catalog, "copy-on-write")
    put(table, (1, 90))
    append_file(table, file_format=FileFormat.PUFFIN)  # and without statistics, so it may have rows of any age

    plan = plan_row_retention(table, MONTH, now=NOW)
    result = run(table)

    assert len(plan.left_alone) == 1
    assert "does not read" in plan.left_alone[0]
    assert (result.rows_removed, result.files_left_alone) == (1, 1)


def test_file_with_deletes_by_a_key_that_engines_disagree_on_stays_unless_its_rows_go_by_position(
    catalog: LocalCatalog,
) -> None:
    table = make(catalog, "copy-on-write")
    with table.update_schema() as update:
        update.add_column("code", FixedType(2))
    put(table.refresh(), (1, 90), (2, 1))
    delete_equal(table, ["code"], [{"code": b"ab"}])

    plan = plan_row_retention(table.refresh(), MONTH, now=NOW)
    assert "engines disagree on equality deletes by 'code' (fixed[2])" in plan.left_alone[0]
    assert (run(table).rows_removed, run(table).files_left_alone) == (0, 1)

    table.transaction().set_properties({"write.delete.mode": "merge-on-read"}).commit_transaction()
    assert run(table, "another").rows_removed == 1


def test_a_table_with_a_column_that_cannot_be_written_exactly_loses_rows_by_deletes_alone(
    catalog: LocalCatalog,
) -> None:
    kind = ListType(5, UnknownType(), element_required=False)
    table = make(catalog, "copy-on-write")
    put(table, (1, 90))
    put(table, (2, 90), (3, 1))
    at_version(table, 3)
    shape = Schema(*SCHEMA.fields, NestedField(4, "shape", kind, required=False), schema_id=1)
    new_schema = (AddSchemaUpdate(schema_=shape), SetCurrentSchemaUpdate(schema_id=1))
    catalog.commit_table(table, (), (WriteFormatV3Update(), *new_schema))

    result = run(table)

    assert (result.rows_removed, result.files_left_alone) == (1, 1)
    assert "'shape'" in plan_row_retention(table, MONTH, now=NOW).left_alone[0]

    merge = SetPropertiesUpdate(updates={"write.delete.mode": "merge-on-read"})
    catalog.commit_table(table, (), (WriteFormatV3Update(), merge))
    assert run(table, "another").rows_removed == 1


@in_every_mode
@pytest.mark.parametrize("file_format", FOREIGN)
def test_old_rows_go_from_files_that_are_not_parquet(
    catalog: LocalCatalog, mode: str, version: int, file_format: FileFormat
) -> None:
    table = make(catalog, mode)
    for first in (1, 4):
        days = (90, 1, None)
        at = [None if age is None else NOW - timedelta(days=age) for age in days]
        path = put_rows(table, file_format, [{"id": first + place, "at": when} for place, when in enumerate(at)])
    delete_positions_in(table, file_format, {path: [1]})
    table = at_version(table, version)

    assert run(table).rows_removed == 2

    options = CompactionOptions(target_file_bytes=10**6, min_input_files=2, delete_ratio_percent=1)
    compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="pack", now=later(table))
    assert ids(table.refresh()) == [2, 3, 6]


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 3)])
def test_killed_after_every_call_and_run_again_it_ends_the_same(tmp_path: Path, mode: str, version: int) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = make(catalog, mode)
    put(table, (1, 90), (2, 1))
    put(table, (3, 90))
    at_version(table, version)
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
        assert run(table).rows_removed == 2
        assert (ids(table), len(table.metadata.snapshots)) == ([2], 3)
        assert reachable(table) <= on_disk(table)
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 8


@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 60)), min_size=1, max_size=8), min_size=1, max_size=4),
    st.sampled_from(MODES),
    st.booleans(),
)
@settings(max_examples=15)
def test_exactly_the_rows_that_are_too_old_go(files: list[list[Days]], how: tuple[str, int], partitioned: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = LocalCatalog(Path(folder))
        table = make(catalog, how[0], partitioned=partitioned)
        young: list[int] = []
        for number, days in enumerate(files):
            rows = [(number * 10 + place, age) for place, age in enumerate(days)]
            put(table, *rows)
            young += [each for each, age in rows if age is None or age < 30]
        table = at_version(table, how[1])
        total = sum(len(days) for days in files)

        result = run(table)

        assert ids(table) == young
        assert result.rows_removed == total - len(young)
        catalog.close()


def test_a_summary_counts_a_deletion_vector_with_its_own_bytes_as_java_does(catalog: LocalCatalog) -> None:
    table = make(catalog, "merge-on-read")
    put(table, *((number, number) for number in range(40)))
    put(table, *((number, number) for number in range(100)))
    table = at_version(table, 3)

    def summary(key: str) -> int:
        told = head(table).summary
        assert told is not None
        return int(told[key] or 0)

    def data_bytes() -> int:
        return sum(snapshot_files(table.io, head(table)).data["size_bytes"].to_pylist())

    before = data_bytes()
    run(table)
    vectors = [file.content_range[1] for file in deletes(table) if file.content_range is not None]
    assert len(vectors) == 2
    assert sum(vectors) < sum(file.size_bytes for file in deletes(table))
    assert summary("added-files-size") == sum(vectors)
    assert summary("total-files-size") == before + sum(vectors)

    options = CompactionOptions(min_input_files=2)
    compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="compaction", now=NOW)
    table.refresh()
    assert not deletes(table)
    assert summary("removed-files-size") == before + sum(vectors)
    assert summary("total-files-size") == data_bytes()


def test_how_far_the_files_are_that_are_written_anew_is_told_one_by_one(catalog: LocalCatalog) -> None:
    table = make(catalog, "copy-on-write")
    put(table, (1, 90), (2, 1))
    put(table, (3, 90), (4, 1))
    put(table, (5, 90))  # goes as a whole, and takes no work
    sizes = sum(each.file.file_size_in_bytes for each in table.scan().plan_files() if each.file.record_count == 2)
    told: list[Progress] = []

    remove_old_rows(
        table.catalog, IDENTIFIER, MONTH, run_id="run", now=NOW + timedelta(minutes=1), progress=told.append
    )

    assert [(each.tasks_done, each.tasks, each.files_rewritten, each.files) for each in told] == [
        (0, 2, 0, 2),
        (1, 2, 1, 2),
        (2, 2, 2, 2),
    ]
    assert (told[0].bytes_rewritten, told[-1].bytes_rewritten, told[-1].bytes) == (0, sizes, sizes)
