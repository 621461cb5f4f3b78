"""Going back: what is undone, what it costs, and what a lost answer leads to."""

import shutil
import uuid
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from tableformat.commits import RUN_ID, CommitConflict
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.rollback import (
    RollbackOptions,
    RollbackRefused,
    plan_rollback,
    roll_back,
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

    with pytest.raises(RollbackRefused, match=f"lost: append {last}"):
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
    with pytest.raises(RollbackRefused, match="lost: replace"):
        back(table, RollbackOptions(tag="audit"), accept=False)


def test_a_snapshot_that_main_never_had_is_nothing_to_go_back_to(table: Table) -> None:
    append(table, 1)
    staged = stage(table)
    append(table, 1)
    with pytest.raises(RollbackRefused, match="main was never at snapshot"):
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
