"""What compaction does to a table that somebody else reads: fewer files, the same rows, the whole history."""

import pickle

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform

from tableformat.commits import RUN_ID
from tableformat.inspection import table_health
from tableformat.maintenance.compaction import CompactionOptions, Progress, compact, plan_compaction
from tableformat.maintenance.executor import InProcessExecutor
from tests.integration.compaction.tables import (
    IDENTIFIER,
    NOW,
    SMALL_TARGET,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    scanned_rows,
    stored_rows,
)


def test_many_small_files_become_one_with_the_same_rows(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 12)
    before = scanned_rows(table)

    result = compacted(catalog)

    table.refresh()
    assert len(data_files(table)) == 1
    assert scanned_rows(table) == before
    assert (result.files_rewritten, result.files_added, result.rows) == (12, 1, 120)
    assert result.snapshot_id == table.metadata.current_snapshot_id


def test_every_older_snapshot_reads_as_before(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 6)
    before = {snapshot.snapshot_id: stored_rows(table, snapshot.snapshot_id) for snapshot in table.metadata.snapshots}

    compacted(catalog)

    table.refresh()
    assert {snapshot_id: stored_rows(table, snapshot_id) for snapshot_id in before} == before


def test_a_second_run_on_a_quiet_table_does_nothing(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 12, rows=2000)
    options = CompactionOptions(target_file_bytes=20 * 1024)
    compacted(catalog, options)
    table.refresh()

    assert plan_compaction(table, options, now=NOW).is_empty
    assert compacted(catalog, options).snapshot_id is None
    assert table.refresh().metadata.current_snapshot_id == table.metadata.snapshots[-1].snapshot_id


def test_files_come_out_near_the_target_size(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 10, rows=20_000)
    target = 50 * 1024

    compacted(catalog, CompactionOptions(target_file_bytes=target))

    sizes = [file.file_size_in_bytes for file in data_files(table.refresh())]
    assert len(sizes) > 2
    assert all(0.7 * target < size < 1.8 * target for size in sizes), sizes


def test_the_commit_is_a_replace_with_a_full_summary_and_the_runs_id(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 7)

    compacted(catalog, run_id="run-1")

    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation == Operation.REPLACE
    summary = snapshot.summary.additional_properties
    size = str(data_files(table)[0].file_size_in_bytes)
    assert summary[RUN_ID] == "run-1"
    assert {key: summary[key] for key in summary if key.startswith(("added-", "deleted-", "total-"))} == {
        "added-data-files": "1",
        "added-files-size": size,
        "added-records": "70",
        "deleted-data-files": "7",
        "deleted-records": "70",
        "total-data-files": "1",
        "total-delete-files": "0",
        "total-equality-deletes": "0",
        "total-files-size": size,
        "total-position-deletes": "0",
        "total-records": "70",
    }


def test_new_files_keep_the_starting_snapshots_sequence_number(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5)
    start = table.current_snapshot()
    assert start is not None

    compacted(catalog)

    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    entries = [e for manifest in snapshot.manifests(table.io) for e in manifest.fetch_manifest_entry(table.io)]
    assert [(entry.sequence_number, entry.file_sequence_number) for entry in entries] == [
        (start.sequence_number, snapshot.sequence_number)
    ]


def test_partitions_are_never_mixed(catalog: SqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = create(catalog, spec=spec)
    append_many(table, 6, rows=20)
    before = scanned_rows(table)

    compacted(catalog)

    files = data_files(table.refresh())
    assert len(files) == 6  # five cities, and null
    assert {file.partition[0] for file in files} == {None, *(f"city {i}" for i in range(5))}
    for file in files:
        with table.io.new_input(file.file_path).open() as stream:
            assert set(pq.read_table(stream)["city"].to_pylist()) == {file.partition[0]}
    assert scanned_rows(table) == before


def test_files_of_two_specs_are_never_mixed(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5)
    with table.update_spec() as update:
        update.add_field("city", IdentityTransform(), "city")
    append_many(table, 6, rows=40, start=50)
    before = scanned_rows(table)

    compacted(catalog)

    assert sorted(file.spec_id for file in data_files(table.refresh())) == [0, 1, 1, 1, 1, 1, 1]
    assert scanned_rows(table) == before


def test_a_partition_source_that_was_dropped_is_no_obstacle(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "quantity")))
    for _ in range(5):
        table.append(plain_rows(0, 3))
    with table.update_spec() as update:
        update.remove_field("quantity")
    with table.update_schema() as update_schema:
        update_schema.delete_column("quantity")
    before = scanned_rows(table)

    compacted(catalog)

    assert len(data_files(table.refresh())) == 3
    assert scanned_rows(table) == before


def test_a_file_without_candidates_beside_it_stays_as_it_is(catalog: SqlCatalog) -> None:
    table = create(catalog)
    table.append(plain_rows(0, 200_000))
    large = data_files(table)[0].file_path
    append_many(table, 5, start=200_000)

    compacted(catalog, CompactionOptions(target_file_bytes=64 * 1024, max_file_bytes=10**9))

    assert len(files := [file.file_path for file in data_files(table.refresh())]) == 2
    assert large in files


def test_too_few_files_are_left_alone(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 4)
    assert compacted(catalog).snapshot_id is None
    assert compacted(catalog, CompactionOptions(target_file_bytes=1024 * 1024, min_input_files=4)).files_added == 1


def test_an_empty_table_needs_nothing(catalog: SqlCatalog) -> None:
    create(catalog)
    assert compacted(catalog).tasks == 0


def test_a_table_of_format_version_1_is_compacted(catalog: SqlCatalog) -> None:
    table = create(catalog, format_version=1)
    append_many(table, 6)
    before = scanned_rows(table)

    compacted(catalog)

    assert len(data_files(table.refresh())) == 1
    assert table.metadata.format_version == 1
    assert scanned_rows(table) == before


def test_progress_reaches_the_plans_totals(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    append_many(table, 5, rows=40)
    plan = plan_compaction(table, SMALL_TARGET, now=NOW)
    seen: list[Progress] = []

    compact(catalog, IDENTIFIER, SMALL_TARGET, executor=InProcessExecutor(), run_id="r", now=NOW, progress=seen.append)

    assert [progress.tasks_done for progress in seen] == [0, 1, 2, 3, 4, 5, 6]
    assert seen[-1] == Progress(6, 6, plan.source_files, plan.source_files, plan.source_bytes, plan.source_bytes)


def test_a_runs_bytes_are_bounded_and_the_best_groups_come_first(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    append_many(table, 5, rows=40)
    everything = plan_compaction(table, SMALL_TARGET, now=NOW)
    first = everything.tasks[0]

    limited = plan_compaction(table, SMALL_TARGET.model_copy(update={"max_bytes_per_run": first.source_bytes}), now=NOW)

    assert len(everything.tasks) > 1
    assert [task.sources for task in limited.tasks] == [first.sources]


def test_tasks_are_small_values_without_secrets_in_their_text(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5)
    table.io.properties["s3.secret-access-key"] = "hunter2"

    task = plan_compaction(table, SMALL_TARGET, now=NOW).tasks[0]

    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301
    assert task.io_properties["s3.secret-access-key"] == "hunter2"
    assert "hunter2" not in repr(task)


def test_health_is_bad_before_and_good_after(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 9)
    before = table_health(table, small_file_bytes=1000_000)

    compacted(catalog)

    after = table_health(table.refresh(), small_file_bytes=500)
    assert (before.data_files, before.small_files, before.records, before.delete_files) == (9, 9, 90, 0)
    assert (after.data_files, after.small_files, after.records, after.snapshots) == (1, 0, 90, 10)
    assert after.median_file_bytes == after.data_bytes == data_files(table)[0].file_size_in_bytes


def test_the_manifests_of_many_appends_become_few(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 8)

    compacted(catalog)

    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    assert [(m.added_files_count, m.deleted_files_count) for m in manifests] == [(1, 0), (0, 8)]
    deleted = manifests[1].fetch_manifest_entry(table.io, discard_deleted=False)
    assert {entry.snapshot_id for entry in deleted} == {snapshot.snapshot_id}
    assert sorted(entry.sequence_number or 0 for entry in deleted) == list(range(1, 9))


def test_a_branchs_own_retention_survives(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5)
    with table.manage_snapshots() as manage:
        manage.create_branch(table.metadata.current_snapshot_id or 0, "main", min_snapshots_to_keep=7)
    assert table.metadata.refs["main"].min_snapshots_to_keep == 7

    compacted(catalog)

    assert table.refresh().metadata.refs["main"].min_snapshots_to_keep == 7


def test_a_table_that_is_not_there_is_said_to_be_missing(catalog: SqlCatalog) -> None:
    with pytest.raises(NoSuchTableError):
        compacted(catalog)


@pytest.mark.parametrize("sizes", [{"min_file_bytes": 2000}, {"max_file_bytes": 1000}])
def test_options_out_of_order_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="min_file_bytes < target_file_bytes < max_file_bytes"):
        CompactionOptions(target_file_bytes=1500, **sizes)


def test_options_round_trip_as_json() -> None:
    options = CompactionOptions(target_file_bytes=4096, max_bytes_per_run=10**9)
    assert CompactionOptions.model_validate_json(options.model_dump_json()) == options
