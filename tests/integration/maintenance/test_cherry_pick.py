"""Publishing what was staged: once, on what main has become, and only where nothing is lost by it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.inspection import LiveFile, snapshot_files
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.rollback import (
    CherryPickPlan,
    CherryPickRefused,
    PickWay,
    RollbackOptions,
    cherry_pick,
    plan_cherry_pick,
    plan_rollback,
)
from tests.integration.maintenance.faults import Deaf, MortalCatalog, killed_after_every_call
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    LocalCatalog,
    append,
    create,
    head,
    later,
    read,
    rows,
    set_ref,
    stage,
)


def test_a_staged_snapshot_on_top_of_main_becomes_main(table: Table) -> None:
    append(table)
    staged = stage(table)

    result = cherry_pick(table.catalog, IDENTIFIER, staged)

    assert (result.snapshot_id, result.fast_forward) == (staged, True)
    assert head(table.refresh()).snapshot_id == staged


def test_a_staged_append_is_published_on_what_main_has_become_and_only_once(table: Table) -> None:
    append(table)
    staged = stage(table)
    append(table)
    expected = sorted({*read(table, staged), *read(table, head(table).snapshot_id)})

    first = cherry_pick(table.catalog, IDENTIFIER, staged)
    second = cherry_pick(table.catalog, IDENTIFIER, staged)

    assert first == second
    assert not first.fast_forward
    assert read(table.refresh(), head(table).snapshot_id) == expected


def test_a_pick_whose_answer_was_lost_is_not_repeated(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    append(table)
    staged = stage(table)
    append(table)
    deaf = Deaf(tmp_path)
    deaf.folder = tmp_path

    cherry_pick(deaf, IDENTIFIER, staged, sleep=lambda _: None)
    deaf.close()

    found = read(table.refresh(), head(table).snapshot_id)
    assert (len(found), len(set(found))) == (12, 12)


def test_what_is_no_append_is_refused_unless_main_stood_still(table: Table) -> None:
    append(table, 2)
    table.delete(f"id = {read(table, head(table).snapshot_id)[0]}")
    deletion, before = head(table).snapshot_id, head(table).parent_snapshot_id
    assert before is not None
    set_ref(table, "main", before)
    append(table)

    with pytest.raises(CherryPickRefused, match="neither appends nor replaces partitions"):
        cherry_pick(table.catalog, IDENTIFIER, deletion)
    with pytest.raises(CherryPickRefused, match="no snapshot"):
        cherry_pick(table.catalog, IDENTIFIER, 4711)


def stage_batch(table: Table, wap_id: str) -> int:
    """As an ingestion stages it that writes, audits and publishes."""
    before = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    table.append(rows(), branch=None, snapshot_properties={"wap.id": wap_id})
    return next(s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in before)


def test_a_batch_that_was_staged_again_is_not_published_again_though_main_stood_still(table: Table) -> None:
    append(table)
    first = stage_batch(table, "batch-7")
    append(table)
    cherry_pick(table.catalog, IDENTIFIER, first)
    again = stage_batch(table.refresh(), "batch-7")
    before = read(table, head(table).snapshot_id)

    assert "published already" in str(plan_cherry_pick(table, again))
    with pytest.raises(CherryPickRefused, match="batch-7 was published already"):
        cherry_pick(table.catalog, IDENTIFIER, again)

    assert read(table.refresh(), head(table).snapshot_id) == before


def test_a_pick_is_planned_as_it_is_run(by_part: Table) -> None:
    table = by_part
    staged = stage_replacement(table, 1)
    location = table.metadata_location

    at_once = plan_cherry_pick(table, staged)
    assert (at_once.way, at_once.files, at_once.rows, at_once.replaced_files) == (PickWay.FAST_FORWARD, 1, 3, 1)
    assert at_once.bytes > 0
    table.append(rows(part=2))
    appended = stage(table)
    table.append(rows(part=2))
    assert plan_cherry_pick(table, staged).way is PickWay.REPLACE
    assert plan_cherry_pick(table, appended).way is PickWay.APPEND
    assert "main moves to it; 1 file with 3 rows" in str(at_once)
    assert location != table.metadata_location
    location = table.metadata_location

    plans: list[CherryPickPlan] = []
    result = cherry_pick(table.catalog, IDENTIFIER, staged, run_id="run-7", planned=plans.append)
    assert [plan.way for plan in plans] == [PickWay.REPLACE]
    done = plan_cherry_pick(table.refresh(), staged)
    assert (done.way, done.published_as) == (PickWay.NONE, result.snapshot_id)
    assert plan_rollback("t", table.metadata, RollbackOptions(before_run="run-7")).undone == (result.snapshot_id,)


def test_a_plan_of_what_is_refused_says_why_and_changes_nothing(by_part: Table) -> None:
    table = by_part
    staged = stage_replacement(table, 1)
    table.append(rows(part=1))
    location = table.metadata_location

    plan = plan_cherry_pick(table, staged)

    assert (plan.way, plan.is_empty) == (PickWay.REFUSED, True)
    assert "were written to by snapshot" in str(plan)
    assert "no snapshot 4711" in str(plan_cherry_pick(table, 4711))
    assert table.refresh().metadata_location == location


def test_a_staged_append_of_an_older_partition_spec_is_published(table: Table) -> None:
    append(table)
    staged = stage(table)
    expected = read(table, staged)
    with table.update_spec() as update:
        update.add_identity("part")
    extra = append(table)[0]

    cherry_pick(table.catalog, IDENTIFIER, staged)

    table.refresh()
    assert read(table, head(table).snapshot_id) == sorted({*expected, *read(table, extra)})
    assert {file.spec_id for file in files_of(table)} == {0, 1}


def test_a_staged_append_of_format_version_3_gets_row_ids_of_its_own(table: Table) -> None:
    append(table)
    staged = stage(table)
    append(table)
    expected = sorted({*read(table, staged), *read(table, head(table).snapshot_id)})
    table.catalog.commit_table(table, (), (WriteFormatV3Update(),))

    cherry_pick(table.catalog, IDENTIFIER, staged)

    table.refresh()
    assert table.metadata.format_version == 3
    assert read(table, head(table).snapshot_id) == expected
    ids = [range(file.first_row_id or 0, (file.first_row_id or 0) + file.records) for file in files_of(table)]
    assert all(file.first_row_id is not None for file in files_of(table))
    assert len({number for each in ids for number in each}) == 9


def files_of(table: Table) -> list[LiveFile]:
    files = snapshot_files(table.io, head(table))
    return files.data_files(np.arange(files.data.num_rows))


def stage_replacement(table: Table, part: int) -> int:
    """A staged overwrite of one partition, as engines make and mark it."""
    before = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    old = [task.file for task in table.scan(f"part == {part}").plan_files()]
    with (
        table.transaction() as transaction,
        transaction.update_snapshot({"replace-partitions": "true"}, branch=None).overwrite() as overwrite,
    ):
        for new in _dataframe_to_data_files(table.metadata, rows(part=part), table.io):
            overwrite.append_data_file(new)
        for file in old:
            overwrite.delete_data_file(file)
    return next(each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in before)


@pytest.fixture
def by_part(catalog: LocalCatalog) -> Table:
    table = create(catalog)
    with table.update_spec() as update:
        update.add_identity("part")
    for part in (1, 2):
        table.append(rows(part=part))
    return table


def test_a_staged_overwrite_of_partitions_is_published_if_nobody_wrote_to_them(by_part: Table) -> None:
    table = by_part
    staged = stage_replacement(table, 1)
    table.append(rows(part=2))
    expected = sorted(
        [
            *table.scan("part == 1", snapshot_id=staged).to_arrow()["id"].to_pylist(),
            *table.scan("part == 2").to_arrow()["id"].to_pylist(),
        ]
    )

    result = cherry_pick(table.catalog, IDENTIFIER, staged)

    assert not result.fast_forward
    assert read(table.refresh(), head(table).snapshot_id) == expected
    assert len(expected) == 9


def test_a_staged_overwrite_of_partitions_that_changed_since_is_refused(by_part: Table) -> None:
    table = by_part
    staged = stage_replacement(table, 1)
    table.append(rows(part=1))
    location = table.metadata_location

    with pytest.raises(CherryPickRefused, match="were written to by snapshot"):
        cherry_pick(table.catalog, IDENTIFIER, staged)

    assert table.refresh().metadata_location == location


def test_a_staged_overwrite_of_files_that_are_gone_is_refused(by_part: Table) -> None:
    table = by_part
    staged = stage_replacement(table, 1)
    table.delete("part == 1")

    with pytest.raises(CherryPickRefused, match="missing 1 file that snapshot"):
        cherry_pick(table.catalog, IDENTIFIER, staged)


def test_a_snapshot_that_expires_while_it_is_picked_is_not_published(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    append(table)
    staged = stage(table)
    append(table)

    class Racing(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            other = catalog.load_table(IDENTIFIER)
            expire_snapshots(catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=later(other, hours=1))
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    with pytest.raises(CherryPickRefused, match="expired"):
        cherry_pick(racing, IDENTIFIER, staged, sleep=lambda _: None)
    racing.close()
    assert len(read(table.refresh(), head(table).snapshot_id)) == 6


def test_killed_after_every_call_and_run_again_it_is_published_once(tmp_path: Path) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog)
    append(table)
    staged = stage(table)
    append(table)
    expected = sorted({*read(table, staged), *read(table, head(table).snapshot_id)})
    catalog.close()
    shutil.copytree(original, backup)

    def run(mortal: MortalCatalog) -> None:
        cherry_pick(mortal, IDENTIFIER, staged, sleep=lambda _: None)

    deaths = 0
    for _ in killed_after_every_call(original, run):
        deaths += 1
        again = LocalCatalog(original)
        cherry_pick(again, IDENTIFIER, staged)
        table = again.load_table(IDENTIFIER)
        assert read(table, head(table).snapshot_id) == expected
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 5
