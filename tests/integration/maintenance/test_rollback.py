"""Going back and publishing: what is undone, what it costs, and what a lost answer leads to."""

import shutil
import uuid
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.commits import RUN_ID, CommitConflict
from tableformat.inspection import LiveFile, snapshot_files
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.rollback import (
    CherryPickPlan,
    CherryPickRefused,
    PickWay,
    RollbackOptions,
    RollbackRefused,
    cherry_pick,
    plan_cherry_pick,
    plan_rollback,
    roll_back,
)
from tests.integration.maintenance.faults import MortalCatalog, killed_after_every_call
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    LocalCatalog,
    append,
    create,
    head,
    later,
    read,
    read_all,
    rows,
    set_ref,
    stage,
    tag,
)


def back(table: Table, target: RollbackOptions, *, accept: bool = True) -> None:
    options = target.model_copy(update={"allow_losing_commits": accept})
    roll_back(table.catalog, IDENTIFIER, options, run_id=uuid.uuid4().hex, now=later(table))
    table.refresh()


def to(snapshot_id: int) -> RollbackOptions:
    return RollbackOptions(snapshot_id=snapshot_id, allow_losing_commits=True)


def test_main_goes_back_to_a_snapshot_a_time_a_tag_or_before_a_run(table: Table) -> None:
    ids = append(table, 2)
    table.append(rows(), snapshot_properties={RUN_ID: "run-7"})
    table.append(rows(), snapshot_properties={RUN_ID: "run-7"})
    last, expected = head(table).snapshot_id, read(table, ids[1])
    tag(table, "good", ids[1])
    made = table.metadata.snapshot_by_id(ids[1])
    assert made is not None

    for target in (
        RollbackOptions(as_of_ms=made.timestamp_ms),
        to(ids[1]),
        RollbackOptions(tag="good"),
        RollbackOptions(before_run="run-7"),
    ):
        back(table, target)
        assert head(table).snapshot_id == ids[1]
        assert read(table, ids[1]) == expected
        set_ref(table, "main", last)


def test_main_goes_back_to_a_tag_that_outlived_the_snapshots_between(table: Table) -> None:
    ids = append(table, 3)
    tag(table, "audit", ids[0])
    expected = read(table, ids[0])
    table.append(rows())
    expire_snapshots(table.catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=later(table, days=1))
    last = head(table.refresh()).snapshot_id
    assert {snapshot.snapshot_id for snapshot in table.metadata.snapshots} == {ids[0], last}

    with pytest.raises(RollbackRefused, match=f"lost are: append {last}"):
        back(table, RollbackOptions(tag="audit"), accept=False)
    assert head(table.refresh()).snapshot_id == last
    back(table, RollbackOptions(tag="audit"))
    assert head(table).snapshot_id == ids[0]
    assert read(table, ids[0]) == expected


def test_what_expired_commits_did_is_not_given_up_unasked_behind_a_rewrite(table: Table) -> None:
    ids = append(table, 6)
    tag(table, "audit", ids[0])
    options = CompactionOptions(min_input_files=2)
    compact(table.catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="c", now=later(table))
    table.refresh()
    expire_snapshots(table.catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=later(table, days=1))
    table.refresh()
    with pytest.raises(RollbackRefused, match="lost are: replace"):
        back(table, RollbackOptions(tag="audit"), accept=False)


def test_a_snapshot_that_main_never_had_is_nothing_to_go_back_to(table: Table) -> None:
    append(table, 1)
    staged = stage(table)
    append(table, 1)
    with pytest.raises(RollbackRefused, match="is not in the history of main"):
        back(table, to(staged))


@pytest.mark.parametrize("kind", SnapshotRefType)
def test_commits_that_nothing_else_keeps_are_not_given_up_unasked(table: Table, kind: SnapshotRefType) -> None:
    ids = append(table, 3)
    plan = plan_rollback("db.events", table.metadata, to(ids[0]))
    assert [lost.snapshot_id for lost in plan.lost] == [ids[2], ids[1]]

    with pytest.raises(RollbackRefused, match=f"append {ids[2]}"):
        back(table, to(ids[0]), accept=False)
    assert head(table.refresh()).snapshot_id == ids[2]

    set_ref(table, "kept", ids[2], kind)
    back(table, to(ids[0]), accept=False)
    assert head(table).snapshot_id == ids[0]


@pytest.mark.parametrize(
    "target",
    [
        to(12345),
        RollbackOptions(tag="none"),
        RollbackOptions(before_run="none"),
        RollbackOptions(as_of_ms=0),
    ],
)
def test_what_is_not_in_the_history_is_refused(table: Table, target: RollbackOptions) -> None:
    append(table, 2)

    with pytest.raises(RollbackRefused):
        back(table, target)


def test_a_target_is_exactly_one() -> None:
    with pytest.raises(ValidationError):
        RollbackOptions()
    with pytest.raises(ValidationError):
        RollbackOptions(snapshot_id=1, tag="x")


def test_a_commit_made_since_the_plan_is_never_undone(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    ids = append(table, 2)

    class Racing(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            append(catalog.load_table(IDENTIFIER))
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    with pytest.raises(CommitConflict):
        roll_back(racing, IDENTIFIER, to(ids[0]), run_id="run", now=later(table), sleep=lambda _: None)
    racing.close()
    assert len(read(table.refresh(), head(table).snapshot_id)) == 9

    # Not by the same run either, when it is started again: what it was planned for is no more.
    with pytest.raises(RollbackRefused, match="Start another run"):
        roll_back(catalog, IDENTIFIER, to(ids[0]), run_id="run", now=later(table), sleep=lambda _: None)
    assert len(read(table.refresh(), head(table).snapshot_id)) == 9


class Deaf(LocalCatalog):
    """Commits, loses the answer, and lets another writer commit before anybody looks."""

    def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
        super().commit_table(table, requirements, updates)
        other = LocalCatalog(self.folder)
        append(other.load_table(IDENTIFIER))
        other.close()
        raise ConnectionError("the answer was lost")

    folder: Path


def test_a_rollback_whose_answer_was_lost_is_not_repeated(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    ids = append(table, 3)
    deaf = Deaf(tmp_path)
    deaf.folder = tmp_path

    roll_back(deaf, IDENTIFIER, to(ids[0]), run_id="run", now=later(table), sleep=lambda _: None)
    deaf.close()

    assert head(table.refresh()).parent_snapshot_id == ids[0]


def test_a_run_that_is_started_again_undoes_nothing_that_came_after_its_own_rollback(table: Table) -> None:
    ids = append(table, 3)
    first = roll_back(table.catalog, IDENTIFIER, to(ids[0]), run_id="run", now=later(table))
    table.refresh()
    written = append(table)[0]

    again = roll_back(table.catalog, IDENTIFIER, to(ids[0]), run_id="run", now=later(table))

    assert again == first
    assert head(table.refresh()).snapshot_id == written
    another = roll_back(table.catalog, IDENTIFIER, to(ids[0]), run_id="another", now=later(table))
    assert (another.from_snapshot_id, another.commits_undone) == (written, 1)
    assert head(table.refresh()).snapshot_id == ids[0]


def test_killed_after_every_call_and_run_again_it_went_back_once(tmp_path: Path) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog)
    ids = append(table, 3)
    now, expected = later(table), read_all(table)
    catalog.close()
    shutil.copytree(original, backup)

    def run(mortal: MortalCatalog) -> None:
        roll_back(mortal, IDENTIFIER, to(ids[0]), run_id="run", now=now, store=mortal.store, sleep=lambda _: None)

    deaths = 0
    for _ in killed_after_every_call(original, run):
        deaths += 1
        again = LocalCatalog(original)
        table = again.load_table(IDENTIFIER)
        assert head(table).snapshot_id in (ids[0], ids[2])
        result = roll_back(again, IDENTIFIER, to(ids[0]), run_id="run", now=now)
        assert (result.from_snapshot_id, result.to_snapshot_id, result.commits_undone) == (ids[2], ids[0], 2)
        assert head(table.refresh()).snapshot_id == ids[0]
        assert read_all(table) == expected
        written = append(table)[0]
        roll_back(again, IDENTIFIER, to(ids[0]), run_id="run", now=now)
        assert head(table.refresh()).snapshot_id == written
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 5


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
    assert "main moves to it; 1 files with 3 rows" in str(at_once)
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

    with pytest.raises(CherryPickRefused, match="are gone"):
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
