"""Snapshots beside main, staged or of another branch, take sequence numbers and row ids of the table's one count."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.commits.delta import Delta, snapshot_with_delta
from tableformat.commits.head import commit_on_main
from tableformat.commits.memory import CommitMemory
from tableformat.commits.runs import RUN_ID
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    LocalCatalog,
    append,
    create,
    head,
    later,
    read,
    row_ids,
    stage,
)


def rewrite(catalog: Catalog) -> None:
    rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="run", sleep=lambda _: None)


def compacted(catalog: Catalog) -> None:
    now = later(catalog.load_table(IDENTIFIER), minutes=1)
    compact(catalog, IDENTIFIER, CompactionOptions(), executor=InProcessExecutor(), run_id="run", now=now)


def empty_delete(table: Table, head: Snapshot) -> Snapshot:
    """A snapshot that takes a sequence number and, where all rows have ids, no row ids."""
    return snapshot_with_delta(
        table, head, Delta(summary={RUN_ID: "empty delete"}), CommitMemory(table.metadata.new_snapshot_id())
    )


def upgrade(table: Table) -> None:
    table.catalog.commit_table(table, (), (WriteFormatV3Update(),))
    commit_on_main(table.catalog, IDENTIFIER, empty_delete, run_id="empty delete")
    table.refresh()


def stage_beside_main(table: Table) -> None:
    if table.metadata.format_version < 3:
        stage(table)
    else:
        snapshot = empty_delete(table, head(table))
        table.catalog.commit_table(table, (), (WriteFormatV3Update(), AddSnapshotUpdate(snapshot=snapshot)))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("maintain", [rewrite, compacted])
def test_a_snapshot_staged_meanwhile_keeps_its_sequence_number(
    catalog: LocalCatalog, tmp_path: Path, maintain: Callable[[Catalog], None], version: int
) -> None:
    table = create(catalog)
    append(table, 6)
    if version == 3:
        upgrade(table)
    before = read(table, head(table).snapshot_id)

    class Racing(LocalCatalog):
        raced = False

        def commit_table(
            self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
        ) -> CommitTableResponse:
            if not self.raced:
                self.raced = True
                for _ in range(2):
                    stage_beside_main(catalog.load_table(IDENTIFIER))
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    maintain(racing)
    racing.close()

    metadata = table.refresh().metadata
    numbers = [snapshot.sequence_number or 0 for snapshot in metadata.snapshots]
    assert numbers == sorted(set(numbers))
    assert metadata.next_sequence_number() - 1 == numbers[-1] == head(table).sequence_number
    assert read(table, head(table).snapshot_id) == before


@pytest.mark.parametrize("maintain", [rewrite, compacted])
def test_rows_that_are_numbered_meanwhile_keep_their_ids(
    catalog: LocalCatalog, tmp_path: Path, maintain: Callable[[Catalog], None]
) -> None:
    table = create(catalog)
    append(table, 6)
    catalog.commit_table(table, (), (WriteFormatV3Update(),))

    given: dict[int, int] = {}

    class Racing(LocalCatalog):
        def commit_table(
            self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
        ) -> CommitTableResponse:
            if not given:
                commit_on_main(catalog, IDENTIFIER, empty_delete, run_id="empty delete")
                given.update(row_ids(catalog.load_table(IDENTIFIER)))
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    maintain(racing)
    racing.close()

    assert head(table.refresh()).summary["manifests-replaced"] == "6"  # type: ignore[index]
    assert row_ids(table) == given
