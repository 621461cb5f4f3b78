"""Manifest rewrite: fewer manifests, the same entries, and the same rows whoever commits meanwhile."""

import shutil
from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tableformat.inspection import read_entries, read_manifests
from tableformat.maintenance.manifests import ManifestOptions, ManifestResult, plan_manifests, rewrite_manifests
from tests.integration.compaction.deletes import delete_positions
from tests.integration.maintenance.faults import MortalCatalog, killed_after_every_call
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    SCHEMA,
    LocalCatalog,
    append,
    create,
    head,
    on_disk,
    reachable,
    read,
    rows,
)

Entry = tuple[str, int | None, int | None, int | None, int]


def entries(table: Table) -> set[Entry]:
    return {
        (entry.data_file.file_path, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, spec)
        for manifest in read_manifests(table.io, head(table))
        for spec in [manifest.partition_spec_id]
        for entry in read_entries(table.io, manifest)
    }


def rewrite(table: Table, run_id: str = "run", options: ManifestOptions = ManifestOptions()) -> ManifestResult:  # noqa: B008
    result = rewrite_manifests(table.catalog, IDENTIFIER, options, run_id=run_id)
    table.refresh()
    return result


def manifests(table: Table, content: ManifestContent = ManifestContent.DATA) -> int:
    return sum(manifest.content == content for manifest in read_manifests(table.io, head(table)))


def data_file(table: Table) -> str:
    return next(iter(table.scan().plan_files())).file.file_path


@pytest.fixture
def partitioned(catalog: LocalCatalog) -> Table:
    catalog.create_namespace("db")
    table = catalog.create_table(
        IDENTIFIER, SCHEMA, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    )
    for number in range(6):
        table.append(rows(part=number % 3))
    return table


def test_many_manifests_become_one_with_the_same_entries(partitioned: Table) -> None:
    before, data, totals = entries(partitioned), read(partitioned, head(partitioned).snapshot_id), head(partitioned)
    assert "6 manifests" in str(plan_manifests(partitioned, ManifestOptions()))

    result = rewrite(partitioned)

    assert (result.manifests_replaced, result.manifests_written, result.entries) == (6, 1, 6)
    assert manifests(partitioned) == 1
    assert entries(partitioned) == before
    assert read(partitioned, head(partitioned).snapshot_id) == data
    assert head(partitioned).summary is not None
    assert totals.summary is not None
    for key in ("total-records", "total-data-files", "total-files-size"):
        assert head(partitioned).summary[key] == totals.summary[key]  # type: ignore[index]


def test_a_second_run_has_nothing_to_do(partitioned: Table) -> None:
    rewrite(partitioned)
    location = partitioned.metadata_location

    assert rewrite(partitioned, "another").snapshot_id is None
    assert partitioned.metadata_location == location


def test_one_run_is_enough_though_small_manifests_are_mostly_headers(catalog: LocalCatalog) -> None:
    table = create(catalog, {"commit.manifest-merge.enabled": "false", "commit.manifest.target-size-bytes": "20000"})
    append(table, 24)
    before, files = entries(table), on_disk(table)

    result = rewrite(table)

    assert (result.manifests_replaced, result.manifests_written) == (24, 1)
    assert entries(table) == before
    assert plan_manifests(table, ManifestOptions()).is_empty
    assert on_disk(table) - files <= reachable(table), "what it wrote on the way is gone"


def test_manifests_are_ordered_by_partition(partitioned: Table) -> None:
    rewrite(partitioned)
    (manifest,) = read_manifests(partitioned.io, head(partitioned))
    parts = [entry.data_file.partition[0] for entry in read_entries(partitioned.io, manifest)]

    assert parts == [0, 0, 1, 1, 2, 2]


def test_deletes_stay_apart_from_data_and_still_apply(table: Table) -> None:
    append(table, 3)
    for _ in range(2):
        delete_positions(table, {data_file(table): [0]})
        append(table)
    before, data = entries(table), read(table, head(table).snapshot_id)

    rewrite(table)

    assert (manifests(table), manifests(table, ManifestContent.DELETES)) == (1, 1)
    assert entries(table) == before
    assert read(table, head(table).snapshot_id) == data


def test_specs_stay_apart(partitioned: Table) -> None:
    with partitioned.update_spec() as update:
        update.remove_field("part")
    append(partitioned, 3)
    before, data = entries(partitioned), read(partitioned, head(partitioned).snapshot_id)

    rewrite(partitioned)

    assert manifests(partitioned) == 2
    assert entries(partitioned) == before
    assert read(partitioned, head(partitioned).snapshot_id) == data


def test_files_that_were_deleted_stay_deleted(table: Table) -> None:
    append(table, 4)
    table.delete(f"id <= {read(table, head(table).snapshot_id)[3]}")
    data = read(table, head(table).snapshot_id)

    rewrite(table)

    assert read(table, head(table).snapshot_id) == data


@pytest.mark.parametrize("kind", ["append", "delete"])
def test_what_others_commit_meanwhile_stays(catalog: LocalCatalog, tmp_path: Path, kind: str) -> None:
    table = create(catalog)
    append(table, 4)
    ids = read(table, head(table).snapshot_id)

    class Racing(LocalCatalog):
        raced = False

        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            if not self.raced:
                self.raced = True
                other = catalog.load_table(IDENTIFIER)
                append(other) if kind == "append" else other.delete(f"id <= {ids[0]}")
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    rewrite_manifests(racing, IDENTIFIER, ManifestOptions(), run_id="run", sleep=lambda _: None)
    racing.close()

    found = read(table.refresh(), head(table).snapshot_id)
    assert (found[:12] == ids and len(found) == 15) if kind == "append" else found == ids[1:]
    assert manifests(table) == (2 if kind == "append" else 1)


def test_killed_after_every_call_and_run_again_it_ends_the_same(tmp_path: Path) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog)
    append(table, 3)
    before, data = entries(table), read(table, head(table).snapshot_id)
    catalog.close()
    shutil.copytree(original, backup)

    def run(mortal: MortalCatalog) -> None:
        rewrite_manifests(mortal, IDENTIFIER, ManifestOptions(), run_id="run", sleep=lambda _: None)

    deaths = 0
    for _ in killed_after_every_call(original, run):
        deaths += 1
        again = LocalCatalog(original)
        table = again.load_table(IDENTIFIER)
        assert rewrite(table).manifests_written == 1
        assert (manifests(table), entries(table), len(table.metadata.snapshots)) == (1, before, 4)
        assert read(table, head(table).snapshot_id) == data
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 10
