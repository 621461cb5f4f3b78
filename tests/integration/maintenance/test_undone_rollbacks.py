"""The way back from a rollback: to a state that main had, by name, until it expires."""

import shutil
import uuid
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tableformat.commits import RUN_NAME
from tableformat.inspection.history import snapshot_history
from tableformat.inspection.main_log import rollbacks
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.rollback import RollbackOptions, RollbackRefused, RollbackResult, roll_back
from tests.integration.maintenance.faults import MortalCatalog, killed_after_every_call
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

UNDO = RollbackOptions(undo=True)


def back(table: Table, options: RollbackOptions, *, accept: bool = False) -> RollbackResult:
    options = options.model_copy(update={"allow_losing_commits": accept})
    result = roll_back(table.catalog, IDENTIFIER, options, run_id=uuid.uuid4().hex, now=later(table))
    table.refresh()
    return result


def to(snapshot_id: int) -> RollbackOptions:
    return RollbackOptions(snapshot_id=snapshot_id)


def current(table: Table) -> int:
    return head(table.refresh()).snapshot_id


def test_a_rollback_is_undone_without_a_loss(table: Table) -> None:
    ids = append(table, 3)
    expected = read(table, ids[2])
    back(table, to(ids[0]), accept=True)
    undone = back(table, UNDO)
    assert (undone.from_snapshot_id, undone.to_snapshot_id, undone.commits_undone) == (ids[0], ids[2], 0)
    assert current(table) == ids[2]
    assert read(table, ids[2]) == expected


def test_rollbacks_are_undone_one_by_one_the_last_first(table: Table) -> None:
    ids = append(table, 4)
    for target in (ids[2], ids[0]):
        back(table, to(target), accept=True)
    for expected in (ids[2], ids[3]):
        back(table, UNDO)
        assert current(table) == expected
    with pytest.raises(RollbackRefused, match="there is no rollback to undo"):
        back(table, UNDO)
    assert current(table) == ids[3]


def test_commits_made_after_a_rollback_are_not_lost_unasked_by_undoing_it(table: Table) -> None:
    ids = append(table, 2)
    back(table, to(ids[0]), accept=True)
    written = append(table)[0]
    with pytest.raises(RollbackRefused, match=f"lost: append {written} .*pass --allow-losing-commits"):
        back(table, UNDO)
    assert current(table) == written
    back(table, UNDO, accept=True)
    assert current(table) == ids[1]
    back(table, UNDO, accept=True)
    assert current(table) == written, "what the undoing left is a state that main had, too"


def test_a_snapshot_that_was_current_is_reached_by_its_id_and_a_time_until_it_expires(table: Table) -> None:
    ids = append(table, 3)
    when = table.metadata.snapshot_log[-1].timestamp_ms
    back(table, to(ids[0]), accept=True)
    for target in (to(ids[2]), RollbackOptions(as_of_ms=when)):
        back(table, target)
        assert current(table) == ids[2]
        back(table, to(ids[0]), accept=True)
    expire_snapshots(table.catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=later(table, days=1))
    table.refresh()
    for gone in (to(ids[2]), UNDO):
        with pytest.raises(RollbackRefused, match="Nothing was changed"):
            back(table, gone)
    assert current(table) == ids[0]


def test_what_never_was_current_is_still_nothing_to_go_back_to(table: Table) -> None:
    ids = append(table, 2)
    staged = stage(table)
    back(table, to(ids[0]), accept=True)
    with pytest.raises(RollbackRefused, match=f"main was never at snapshot {staged}"):
        back(table, to(staged), accept=True)


def test_a_branch_that_main_moves_forward_to_is_no_rollback(table: Table) -> None:
    first = append(table)[0]
    set_ref(table, "work", first)
    table.refresh()
    table.append(rows(), branch="work")
    table.append(rows(), branch="work")
    set_ref(table, "main", table.refresh().metadata.refs["work"].snapshot_id)
    table.refresh()
    assert rollbacks(table.metadata) == ()
    with pytest.raises(RollbackRefused, match="there is no rollback to undo"):
        back(table, UNDO)


def test_the_history_says_what_was_current_and_when(table: Table) -> None:
    ids = append(table, 2)
    staged = stage(table)
    back(table, to(ids[0]), accept=True)
    entries = {entry.snapshot_id: entry for entry in snapshot_history(table.metadata)}
    [move] = rollbacks(table.metadata)
    assert (move.from_snapshot_id, move.to_snapshot_id) == (ids[1], ids[0])
    assert [period.until for period in entries[ids[1]].current] == [move.time]
    assert [(period.since == move.time, period.until) for period in entries[ids[0]].current[1:]] == [(True, None)]
    assert (entries[staged].current, entries[staged].on_main) == ((), False)
    assert (entries[ids[0]].on_main, entries[ids[1]].on_main) == (True, False)


def test_before_a_run_is_found_by_the_runs_name(table: Table) -> None:
    append(table, 6)
    before = current(table)
    options = CompactionOptions(min_input_files=2)
    compact(
        table.catalog,
        IDENTIFIER,
        options,
        executor=InProcessExecutor(),
        run_id=uuid.uuid4().hex,
        run_name="events-compact-1",
        now=later(table),
    )
    table.refresh()
    append(table, 2)
    rewrite_manifests(table.catalog, IDENTIFIER, ManifestOptions(), run_id="m", run_name="events-rewrite-1")
    summary = head(table.refresh()).summary
    assert summary is not None
    assert summary.additional_properties[RUN_NAME] == "events-rewrite-1"
    back(table, RollbackOptions(before_run="events-compact-1"), accept=True)
    assert current(table) == before
    with pytest.raises(RollbackRefused, match="no commit of run events-compact-2 is in the history of main"):
        back(table, RollbackOptions(before_run="events-compact-2"))


def test_killed_after_every_call_and_run_again_it_is_undone_once(tmp_path: Path) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog)
    ids = append(table, 3)
    back(table, to(ids[0]), accept=True)
    now = later(table)
    catalog.close()
    shutil.copytree(original, backup)

    def run(mortal: MortalCatalog) -> None:
        roll_back(mortal, IDENTIFIER, UNDO, run_id="run", now=now, store=mortal.store, sleep=lambda _: None)

    deaths = 0
    for _ in killed_after_every_call(original, run):
        deaths += 1
        again = LocalCatalog(original)
        table = again.load_table(IDENTIFIER)
        assert head(table).snapshot_id in (ids[0], ids[2])
        result = roll_back(again, IDENTIFIER, UNDO, run_id="run", now=now)
        assert (result.from_snapshot_id, result.to_snapshot_id) == (ids[0], ids[2])
        assert head(table.refresh()).snapshot_id == ids[2]
        written = append(table)[0]
        assert roll_back(again, IDENTIFIER, UNDO, run_id="run", now=now) == result
        assert head(table.refresh()).snapshot_id == written
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 5
