"""Holds: what they keep, for how long, and what they are refused for."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyiceberg.table import Table

from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import (
    Hold,
    HoldRefused,
    apply_holds,
    place_hold,
    plan_holds,
    release_hold,
)
from tests.integration.maintenance.faults import killed_after_every_call
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, append, create, later, read_all, set_ref, tag

LAST_ONE = ExpiryOptions(max_snapshot_age_ms=0)


def made_at(table: Table, snapshot_id: int) -> datetime:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def hold_on(table: Table, snapshot_id: int, name: str = "audit", **lasting: float) -> Hold:
    return Hold(name=name, as_of=made_at(table, snapshot_id), until=later(table, **(lasting or {"days": 30})))


def remaining(table: Table) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots}


def test_a_hold_outlives_expiry_until_its_date_and_is_then_released_by_itself(table: Table) -> None:
    ids = append(table, 4)
    before = read_all(table)
    apply_holds(table.catalog, IDENTIFIER, [hold_on(table, ids[1])], now=later(table))
    table.refresh()
    start = later(table)

    expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=start + timedelta(days=29))
    assert remaining(table) == {ids[1], ids[3]}
    assert read_all(table) == {each: before[each] for each in (ids[1], ids[3])}

    expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=start + timedelta(days=31))
    assert remaining(table) == {ids[3]}
    assert set(table.metadata.refs) == {"main"}


def test_holding_twice_is_holding_once_and_the_end_can_be_moved(table: Table) -> None:
    ids = append(table, 2)
    hold = hold_on(table, ids[0])
    apply_holds(table.catalog, IDENTIFIER, [hold], now=later(table))
    location = table.refresh().metadata_location

    assert apply_holds(table.catalog, IDENTIFIER, [hold], now=later(table)).is_empty
    assert table.refresh().metadata_location == location

    longer = hold.model_copy(update={"until": hold.until + timedelta(days=1)})
    assert "set tablewright-hold-audit" in str(apply_holds(table.catalog, IDENTIFIER, [longer], now=later(table)))
    assert table.refresh().metadata.refs["tablewright-hold-audit"].snapshot_id == ids[0]


def test_a_hold_stays_where_it_was_set_even_when_the_history_before_it_is_gone(table: Table) -> None:
    ids = append(table, 3)
    hold = hold_on(table, ids[0])
    apply_holds(table.catalog, IDENTIFIER, [hold], now=later(table))
    expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=later(table, hours=1))

    assert apply_holds(table.catalog, IDENTIFIER, [hold], now=later(table)).is_empty
    assert ids[0] in remaining(table)


def test_holds_that_are_no_longer_wanted_are_released_and_other_tags_are_not_touched(table: Table) -> None:
    ids = append(table, 2)
    tag(table, "release-1", ids[0])
    apply_holds(table.catalog, IDENTIFIER, [hold_on(table, ids[0])], now=later(table))

    apply_holds(table.catalog, IDENTIFIER, [hold_on(table, ids[0], "of-others")], now=later(table))

    plan = apply_holds(table.catalog, IDENTIFIER, [], placed=["audit"], now=later(table))

    assert plan.to_release == ("tablewright-hold-audit",)
    assert set(table.refresh().metadata.refs) == {"main", "release-1", "tablewright-hold-of-others"}


def test_a_hold_that_is_placed_and_released_by_name_leaves_all_others(table: Table) -> None:
    ids = append(table, 2)
    for number, name in enumerate(("alice", "bob")):
        hold = hold_on(table, ids[number], name)
        assert place_hold(table.catalog, IDENTIFIER, hold, now=later(table)) == ids[number]

    assert release_hold(table.catalog, IDENTIFIER, "alice", now=later(table))
    assert not release_hold(table.catalog, IDENTIFIER, "alice", now=later(table))

    assert set(table.refresh().metadata.refs) == {"main", "tablewright-hold-bob"}


@pytest.mark.parametrize("other", [0, 2])
def test_a_hold_that_is_asked_for_as_of_another_time_is_refused_and_stays(table: Table, other: int) -> None:
    ids = append(table, 3)
    apply_holds(table.catalog, IDENTIFIER, [hold_on(table, ids[1])], now=later(table))
    ref = table.refresh().metadata.refs["tablewright-hold-audit"]

    moved = hold_on(table, ids[other], days=60)

    assert "never moves" in apply_holds(table.catalog, IDENTIFIER, [moved], now=later(table)).refusals[0].reason
    with pytest.raises(HoldRefused, match=f"set on snapshot {ids[1]}"):
        place_hold(table.catalog, IDENTIFIER, moved, now=later(table))
    assert table.refresh().metadata.refs["tablewright-hold-audit"] == ref


def test_a_state_that_is_still_to_come_cannot_be_placed(table: Table) -> None:
    append(table)
    hold = Hold(name="year-end", as_of=later(table, days=5), until=later(table, days=9))

    with pytest.raises(HoldRefused, match="still to come"):
        place_hold(table.catalog, IDENTIFIER, hold, now=later(table))


def test_a_time_that_is_no_longer_in_the_history_is_refused_with_what_is_left(table: Table) -> None:
    ids = append(table, 3)
    hold = hold_on(table, ids[0])
    other = hold_on(table, ids[2], "recent")
    expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=later(table, hours=1))

    plan = apply_holds(table.catalog, IDENTIFIER, [hold, other], now=later(table))

    (refusal,) = plan.refusals
    assert refusal.hold == "audit"
    assert made_at(table.refresh(), ids[2]).isoformat() in refusal.reason
    assert set(table.metadata.refs) == {"main", "tablewright-hold-recent"}


def test_a_rolled_back_table_is_held_as_it_was_at_that_time(table: Table) -> None:
    ids = append(table, 3)
    then = made_at(table, ids[2])
    set_ref(table, "main", ids[0])

    plan = plan_holds("t", table.metadata, [Hold(name="a", as_of=then, until=later(table, days=1))], now=later(table))

    assert [held.snapshot_id for held in plan.to_set] == [ids[2]]


def test_a_time_to_come_is_waited_for(table: Table) -> None:
    append(table)
    hold = Hold(name="year-end", as_of=later(table, days=5), until=later(table, days=9))

    assert apply_holds(table.catalog, IDENTIFIER, [hold], now=later(table)).pending == ("year-end",)
    assert set(table.refresh().metadata.refs) == {"main"}


def test_a_lost_answer_is_looked_up(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    ids = append(table)

    class Deaf(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            super().commit_table(table, requirements, updates)
            raise ConnectionError("the answer was lost")

    deaf = Deaf(tmp_path)
    plan = apply_holds(deaf, IDENTIFIER, [hold_on(table, ids[0])], now=later(table), sleep=lambda _: None)
    deaf.close()

    assert [held.snapshot_id for held in plan.to_set] == ids
    assert "tablewright-hold-audit" in table.refresh().metadata.refs


def test_killed_after_every_call_and_run_again_it_ends_the_same(tmp_path: Path) -> None:
    """One hold is set, one gets another end, and one is released."""
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog)
    ids = append(table, 3)
    before = [hold_on(table, ids[0], "moved"), hold_on(table, ids[0], "released")]
    apply_holds(catalog, IDENTIFIER, before, now=later(table))
    now, rows = later(table.refresh()), read_all(table)
    placed = [hold.name for hold in before]
    wanted = [hold_on(table, ids[0], "moved", days=90), hold_on(table, ids[1], "new")]
    catalog.close()
    shutil.copytree(original, backup)

    deaths = 0
    for _ in killed_after_every_call(
        original, lambda mortal: apply_holds(mortal, IDENTIFIER, wanted, placed=placed, now=now, sleep=lambda _: None)
    ):
        deaths += 1
        again = LocalCatalog(original)
        apply_holds(again, IDENTIFIER, wanted, placed=placed, now=now)
        table = again.load_table(IDENTIFIER)
        refs = table.metadata.refs
        assert {name: ref.snapshot_id for name, ref in refs.items()} == {
            "main": ids[2],
            "tablewright-hold-moved": ids[0],
            "tablewright-hold-new": ids[1],
        }
        assert (refs["tablewright-hold-moved"].max_ref_age_ms or 0) > 80 * 24 * 3600 * 1000
        assert read_all(table) == rows
        assert apply_holds(again, IDENTIFIER, wanted, placed=placed, now=now).is_empty
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 3


def test_names_that_make_no_tag_are_refused() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for name in ("", "Upper", "a b", "-a"):
        with pytest.raises(ValidationError):
            Hold(name=name, as_of=now, until=now)
