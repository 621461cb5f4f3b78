"""What health figures say of a table with deletes, partitions and files of many sizes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tableformat.inspection import TableHealth, estimated_health, has_more_files_than, table_health
from tableformat.inspection.health import PartitionHealth
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.tables import append_many, compacted, create, data_files, plain_rows, put_file


def test_an_empty_table_has_no_figures_but_zero(catalog: SqlCatalog) -> None:
    health = table_health(create(catalog), small_file_bytes=100)
    assert (health.snapshot_id, health.data_files, health.size_histogram, health.worst_partitions) == (None, 0, (), ())


def test_deletes_are_counted_by_kind_and_by_the_files_that_they_burden(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = [put_file(table, plain_rows(number, 10)) for number in range(4)]
    delete_positions(table, {paths[0]: [1, 2]})
    delete_equal(table, ["id"], [{"id": 1}])
    put_file(table, plain_rows(100, 10))  # younger than the equality delete

    health = table_health(table, small_file_bytes=100)

    assert (health.position_delete_files, health.equality_delete_files, health.deletion_vectors) == (1, 1, 0)
    assert (health.files_with_deletes, health.delete_records) == (4, 3)
    assert (health.records_with_deletes, health.deleted_records) == (40, 3)


def test_an_estimate_has_the_same_counts_and_never_more_small_files_than_there_are(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 3)
    assert estimated_health(table, small_file_bytes=10**9).small_files == 3
    paths = [put_file(table, plain_rows(100, 20_000)), put_file(table, plain_rows(0, 10))]
    delete_positions(table, {paths[0]: [1, 2]})
    sizes = [file.file_size_in_bytes for file in data_files(table)]
    for small in (1, min(sizes), sum(sizes) // 4, max(sizes) + 1, 10**9):
        exact = asdict(table_health(table, small_file_bytes=small))
        estimate = asdict(estimated_health(table, small_file_bytes=small))
        for name in (
            "snapshot_id",
            "data_files",
            "records",
            "delete_files",
            "snapshots",
            "manifests",
            "manifest_bytes",
        ):
            assert estimate[name] == exact[name], name
        assert (estimate["delete_records"], estimate["old_spec_files"]) == (exact["delete_records"], 0)
        assert estimate["small_files"] <= exact["small_files"]
    assert [has_more_files_than(table, most) for most in (5, 6)] == [True, False]
    assert estimated_health(catalog.create_table("db.empty", table.schema()), small_file_bytes=1).data_files == 0


def test_the_worst_partitions_come_first(catalog: SqlCatalog) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    for city, count in (("Agra", 1), ("Pune", 3)):
        for number in range(count):
            put_file(table, plain_rows(number, 1), partition=Record(city))
    sizes = [file.file_size_in_bytes for file in data_files(table)]

    health = table_health(table, small_file_bytes=10**6)

    assert health.partitions == 2
    assert [(p.partition, p.data_files, p.small_files) for p in health.worst_partitions] == [
        ("city=Pune", 3, 3),
        ("city=Agra", 1, 1),
    ]
    assert isinstance(health.worst_partitions[0], PartitionHealth)
    assert sum(p.data_bytes for p in health.worst_partitions) == health.data_bytes == sum(sizes)
    assert sum(bucket.files for bucket in health.size_histogram) == 4
    assert all(bucket.below_bytes // 2 <= max(sizes) for bucket in health.size_histogram)


def test_what_maintenance_is_worth_is_estimated_and_gone_after_it(catalog: SqlCatalog) -> None:
    table = create(catalog)
    paths = [put_file(table, plain_rows(number, 10)) for number in range(6)]
    deletes = [delete_positions(table, {path: [1]}) for path in paths[:2]]
    data_bytes = [file.file_size_in_bytes for file in data_files(table) if file.content == DataFileContent.DATA]

    health = table_health(table, small_file_bytes=768 * 1024, with_metadata_bytes=True)

    # Six files and two delete files, where one file could be.
    assert (health.read_amplification, health.requests_saved) == (8.0, 7)
    delete_bytes = sum(len(table.io.new_input(path)) for path in deletes)
    assert health.bytes_saved == pytest.approx(delete_bytes + 2 * max(data_bytes) / 10, abs=10)
    [partition] = health.worst_partitions
    assert (partition.files_saved, partition.files_with_deletes) == (5, 2)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    metadata = [table.metadata_location, snapshot.manifest_list]
    assert health.metadata_bytes == sum(len(table.io.new_input(path)) for path in metadata)
    assert TypeAdapter(TableHealth).validate_json(json.dumps(asdict(health))) == health

    compacted(catalog)

    health = table_health(table.refresh(), small_file_bytes=768 * 1024)
    assert (health.read_amplification, health.requests_saved, health.bytes_saved) == (1.0, 0, 0)
    assert health.delete_files == health.metadata_bytes == 0


def test_a_manifest_is_read_once(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 3)
    first = table_health(table, small_file_bytes=100)
    for manifest in Path(table.location().removeprefix("file://")).glob("metadata/*-m0.avro"):
        manifest.unlink()

    assert table_health(table, small_file_bytes=100) == first
