"""Which operation starts, when, and in which order."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tablewright.api.run import Cause, Operation
from tablewright.api.table import RunState
from tests.unit.operator.simulation import DONE, EVERYTHING, HOURLY, NOTHING_DONE, OLD, TRIGGER, Simulation
from tests.unit.operator.values import NOW, run

# -- precedence


def test_rows_go_first_then_files_then_manifests_then_snapshots_then_orphans() -> None:
    simulation = Simulation.of(**EVERYTHING)
    simulation.see(small_files=60, manifests=20, ages=OLD)
    for _ in range(5):
        simulation.run_through(**DONE)
    assert [operation for operation, _, _ in simulation.begun] == [
        Operation.DELETE_EXPIRED_ROWS,
        Operation.COMPACT,
        Operation.REWRITE_MANIFESTS,
        Operation.EXPIRE_SNAPSHOTS,
        Operation.REMOVE_ORPHAN_FILES,
    ]
    assert simulation.look().start is None


def test_a_trigger_that_always_holds_does_not_starve_the_other_operations() -> None:
    simulation = Simulation.of(
        compaction={"triggers": {"smallFiles": 2}}, retention={"snapshots": {"schedule": "* * * * *"}}
    )
    for step in range(6):
        simulation.see(small_files=1000 * (step + 1), snapshot_id=step + 1, ages=OLD)
        simulation.run_through(**DONE)
        simulation.wait(minutes=1)
    assert {operation for operation, _, _ in simulation.begun} == {Operation.COMPACT, Operation.EXPIRE_SNAPSHOTS}
    operations = [operation for operation, _, _ in simulation.begun]
    assert all(one != other for one, other in pairwise(operations))


def test_two_operations_that_are_always_due_do_not_starve_the_rest_between_them() -> None:
    simulation = Simulation.of(
        compaction={"triggers": {"smallFiles": 2}},
        retention={
            "rows": {"schedule": "* * * * *", "column": "ts", "maxAge": "30d"},
            "snapshots": {"schedule": "0 * * * *"},
        },
        orphanFiles={"schedule": "0 * * * *"},
    )
    for step in range(12):
        simulation.see(small_files=1000 * (step + 1), snapshot_id=step + 1, ages=OLD)
        simulation.run_through(**DONE)
        simulation.wait(minutes=1)
    operations = [operation for operation, _, _ in simulation.begun]
    assert operations.count(Operation.EXPIRE_SNAPSHOTS) == operations.count(Operation.REMOVE_ORPHAN_FILES) == 1
    assert operations[:2] == [Operation.DELETE_EXPIRED_ROWS, Operation.COMPACT], "in the order of precedence at first"


def test_one_operations_failures_do_not_hold_up_another() -> None:
    simulation = Simulation.of(**EVERYTHING | {"retention": {"snapshots": {"schedule": "15 * * * *"}}})
    simulation.see(small_files=60, ages=OLD)
    simulation.run_through("Failed")
    decision = simulation.look()
    assert decision.start is not None
    assert decision.start.operation is Operation.EXPIRE_SNAPSHOTS


@pytest.mark.parametrize("operation", [Operation.ROLLBACK, Operation.CHERRY_PICK, Operation.INSPECT])
def test_some_operations_never_start_by_themselves(operation: Operation) -> None:
    simulation = Simulation.of(**EVERYTHING)
    simulation.see(small_files=60, manifests=20, delete_files=9, ages=OLD)
    for _ in range(20):
        if simulation.look().start is not None:
            simulation.finish(**DONE)
        simulation.wait(hours=5)
    assert operation not in {begun for begun, _, _ in simulation.begun}


# -- whether there is something to do


@pytest.mark.parametrize(
    ("spec", "operation", "something", "nothing"),
    [
        (HOURLY, Operation.COMPACT, {"small_files": 5}, {"small_files": 4}),
        (HOURLY, Operation.COMPACT, {"delete_files": 1}, {"delete_files": 0}),
        (
            {"compaction": {"schedule": "0 * * * *", "useCurrentSpec": True}},
            Operation.COMPACT,
            {"old_spec_files": 1},
            {"old_spec_files": 0},
        ),
        (
            {"retention": {"snapshots": {"schedule": "0 * * * *", "maxAge": "7d"}}},
            Operation.EXPIRE_SNAPSHOTS,
            {"ages": [timedelta(0), timedelta(days=8)]},
            {"ages": [timedelta(0), timedelta(days=6)]},
        ),
        (
            {"retention": {"snapshots": {"schedule": "0 * * * *", "maxAge": "7d", "minCount": 5}}},
            Operation.EXPIRE_SNAPSHOTS,
            {"ages": OLD},
            {"ages": OLD[:5]},
        ),
        (
            {"manifests": {"schedule": "0 * * * *"}},
            Operation.REWRITE_MANIFESTS,
            {"manifests": 2},
            {"manifests": 1},
        ),
        (
            {"manifests": {"schedule": "0 * * * *"}},
            Operation.REWRITE_MANIFESTS,
            {"manifests": 4, "manifest_bytes": 20 << 20},
            {"manifests": 3, "manifest_bytes": 20 << 20},
        ),
        (
            {"manifests": {"schedule": "0 * * * *"}},
            Operation.REWRITE_MANIFESTS,
            {"manifests": 3, "delete_files": 1},
            {"manifests": 2, "delete_files": 1},
        ),
        (
            {"retention": {"rows": {"schedule": "0 * * * *", "column": "ts", "maxAge": "1d"}}},
            Operation.DELETE_EXPIRED_ROWS,
            {"data_files": 1},
            {"data_files": 0},
        ),
        ({"orphanFiles": {"schedule": "0 * * * *"}}, Operation.REMOVE_ORPHAN_FILES, {}, {"snapshot_id": None}),
    ],
)
def test_a_scheduled_run_starts_only_where_the_cheap_look_finds_something_to_do(
    spec: dict[str, Any], operation: Operation, something: dict[str, Any], nothing: dict[str, Any]
) -> None:
    assert Simulation.of(**spec).look(**nothing).start is None
    started = Simulation.of(**spec).look(**something).start
    assert started is not None
    assert (started.operation, started.cause) == (operation, Cause.SCHEDULE)


@pytest.mark.parametrize(
    ("properties", "spec", "starts"),
    [
        ({"max-snapshot-age-ms": str(60 * 86_400_000)}, {}, False),
        ({"min-snapshots-to-keep": "100"}, {}, False),
        ({"max-snapshot-age-ms": str(2**63 - 1)}, {}, False),
        ({}, {}, True),
        ({"max-snapshot-age-ms": str(60 * 86_400_000)}, {"maxAge": "7d"}, True),
    ],
)
def test_the_tables_own_properties_say_how_long_snapshots_are_kept_where_no_level_does(
    properties: dict[str, str], spec: dict[str, str], starts: bool
) -> None:
    simulation = Simulation.of(retention={"snapshots": {"schedule": "0 * * * *", **spec}})
    own = {f"history.expire.{name}": value for name, value in properties.items()}
    assert (simulation.look(ages=OLD, properties=own).start is not None) == starts


def test_a_manifest_size_that_is_no_number_counts_as_icebergs_own() -> None:
    simulation = Simulation.of(manifests={"schedule": "0 * * * *"})
    simulation.look(manifests=20, properties={"commit.manifest.target-size-bytes": "8MB"})
    assert simulation.begun[0][0] is Operation.REWRITE_MANIFESTS


@pytest.mark.parametrize("name", ["max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms"])
def test_an_expiry_by_a_property_that_nobody_can_read_is_not_started_and_the_property_is_named(name: str) -> None:
    """The pass must not fail for it, and nothing may expire by a guess."""
    simulation = Simulation.of(retention={"snapshots": {"schedule": "0 * * * *"}})
    simulation.look(properties={f"history.expire.{name}": "8MB"})
    assert simulation.begun == []
    reason, message = simulation.condition("Maintained")
    assert reason == "False/NotPossible"
    assert f"properties[history.expire.{name}]: '8MB' is not a whole number" in message


def test_without_a_column_and_an_age_no_rows_expire() -> None:
    simulation = Simulation.of(retention={"rows": {"schedule": "0 * * * *"}})
    assert simulation.look().start is None


def test_what_found_nothing_to_do_is_not_started_again_in_the_same_snapshot() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=50)  # all of them alone in their partitions
    simulation.run_through(**NOTHING_DONE)
    for _ in range(48):
        simulation.wait(hours=1)
        assert simulation.look().start is None
    simulation.wait(hours=1)
    assert simulation.look(small_files=50, snapshot_id=8).start is not None


def test_what_was_left_out_for_being_new_is_looked_at_again() -> None:
    simulation = Simulation.of(compaction={"schedule": "0 * * * *", "coolDown": "3h"})
    simulation.see(small_files=50)
    simulation.run_through(**NOTHING_DONE)
    simulation.wait(hours=1)
    assert simulation.look().start is not None


# -- schedules


def test_the_next_scheduled_time_of_any_operation_is_waited_for_and_told() -> None:
    simulation = Simulation.of(**EVERYTHING)
    for _ in range(6):
        decision = simulation.look()
        if decision.start is not None:
            simulation.finish(**DONE)
    assert decision.look_again_at == NOW + timedelta(minutes=15)
    assert simulation.operation(Operation.COMPACT).next_run == NOW + timedelta(hours=1)
    assert simulation.operation(Operation.EXPIRE_SNAPSHOTS).next_run == NOW + timedelta(minutes=15)


def test_missed_times_are_made_up_once() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=9)
    simulation.run_through(**DONE)
    simulation.wait(hours=50, minutes=10)
    simulation.see(small_files=9, snapshot_id=9)
    simulation.run_through(**DONE)
    decision = simulation.look(small_files=9, snapshot_id=10)
    assert (decision.start, decision.look_again_at) == (None, NOW + timedelta(hours=51))


def test_a_scheduled_time_that_finds_nothing_to_do_is_over_when_it_has_passed() -> None:
    simulation = Simulation.of(compaction={"schedule": "0 12 * * *"})
    assert simulation.look(small_files=0).start is None
    simulation.wait(hours=3)
    assert simulation.look(small_files=50, snapshot_id=8).start is None, "it is not made up in the afternoon"
    simulation.wait(hours=21)
    assert simulation.look().start is not None


def test_a_schedule_that_is_new_does_not_make_up_for_the_tables_past() -> None:
    simulation = Simulation.of()
    simulation.look(small_files=50)
    simulation.change_spec(**HOURLY)
    decision = simulation.look()
    assert (decision.start, decision.look_again_at) == (None, NOW + timedelta(hours=1))


def test_an_operator_that_dies_before_it_writes_the_status_starts_the_same_run_again() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=9)
    first, hidden = simulation.look(write=False), list[Any]()
    simulation.runs, hidden = hidden, simulation.runs  # nor has the watch shown the run yet
    second = simulation.wait(minutes=7).look(write=False)
    assert first.start is not None
    assert second.start is not None
    assert first.start.name == second.start.name
    assert len(hidden) == 1


def test_a_server_whose_clock_is_behind_does_not_double_a_scheduled_run() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.lag = timedelta(seconds=5)
    simulation.see(small_files=9)
    simulation.look(write=False)
    simulation.finish(**DONE)
    decision = simulation.look(small_files=9, snapshot_id=8)
    assert decision.start is None
    assert len(simulation.begun) == 1


@pytest.mark.parametrize("lag", [timedelta(0), timedelta(days=-300)], ids=["ours", "and the server's"])
def test_a_clock_that_was_a_year_ahead_and_is_put_right_stops_no_schedule(lag: timedelta) -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.lag = lag
    simulation.wait(days=365).look(small_files=9)
    simulation.finish(**DONE)
    simulation.look(small_files=9, snapshot_id=8)
    assert len(simulation.begun) == 1
    simulation.lag = timedelta(0)
    simulation.wait(days=-365)
    assert simulation.look().start is None, "what was just done is not done again at once"
    assert simulation.operation(Operation.COMPACT).next_run == NOW + timedelta(hours=1)
    assert simulation.wait(hours=1).look().start is not None


def test_a_failure_of_a_time_to_come_is_counted_once_and_not_after_every_run_that_follows() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.wait(days=365).see(small_files=9)
    simulation.run_through("Failed", reason="OutOfMemory", message="no memory")
    simulation.look()
    simulation.wait(days=-365).look()
    for snapshot_id in range(8, 11):
        simulation.wait(hours=1).see(small_files=9, snapshot_id=snapshot_id)
        simulation.run_through(**DONE)
        simulation.look()
        assert simulation.operation(Operation.COMPACT).consecutive_failures == 0
    assert len(simulation.begun) == 4


def test_a_run_that_a_clock_ahead_started_and_nobody_saw_is_not_waited_for_until_then() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.wait(days=365).look(small_files=9)
    simulation.runs.clear()
    simulation.wait(days=-365).look()
    simulation.wait(minutes=2).look()
    assert simulation.operation(Operation.COMPACT).record.state is RunState.GONE
    assert simulation.wait(hours=1).look().start is not None


def test_a_clock_that_is_set_back_a_little_doubles_no_scheduled_run() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.wait(minutes=1).see(small_files=9)
    simulation.run_through(**DONE)
    simulation.look(small_files=9, snapshot_id=8)
    simulation.wait(minutes=-30)
    for _ in range(6):
        assert simulation.wait(minutes=10).look().start is None
    assert simulation.wait(minutes=30).look().start is not None


@pytest.mark.parametrize("spec", [HOURLY, TRIGGER], ids=["scheduled", "triggered"])
def test_a_failure_under_a_clock_that_was_ahead_is_tried_again_under_the_right_one(spec: dict[str, Any]) -> None:
    simulation = Simulation.of(**spec)
    simulation.wait(days=365).see(small_files=100)
    simulation.run_through("Failed", reason="CommitConflict", message="lost the race")
    simulation.look()
    simulation.wait(days=-365).look()
    assert simulation.wait(minutes=1).look().start is not None


def test_a_pause_of_a_clock_that_was_ahead_ends_within_its_length() -> None:
    simulation = Simulation.of(**TRIGGER)
    simulation.wait(days=365).see(small_files=100)
    simulation.run_through(**NOTHING_DONE)
    simulation.look()
    simulation.see(small_files=300, snapshot_id=9)
    assert simulation.wait(days=-365).look().start is None
    assert simulation.wait(hours=1).look().start is not None


def test_outside_its_windows_a_scheduled_time_waits_for_the_next_opening() -> None:
    windows = [{"days": ["Sun"], "start": "22:00", "duration": "2h"}]  # NOW is a Sunday, at noon
    simulation = Simulation.of(**HOURLY, windows=windows)
    decision = simulation.look(small_files=9)
    assert (decision.start, decision.look_again_at) == (None, NOW + timedelta(hours=10))
    assert simulation.operation(Operation.COMPACT).next_run == NOW + timedelta(hours=10)
    assert simulation.wait(hours=10).look().start is not None


def test_the_next_run_of_a_schedule_is_when_its_window_opens() -> None:
    windows = [{"days": ["Sun"], "start": "22:00", "duration": "2h"}]  # NOW is a Sunday, at noon
    simulation = Simulation.of(**HOURLY, windows=windows)
    simulation.look(small_files=0)
    assert simulation.operation(Operation.COMPACT).next_run == NOW + timedelta(hours=10), "13:00 is closed"
    simulation.wait(hours=10).look(small_files=0)
    assert simulation.operation(Operation.COMPACT).next_run == NOW + timedelta(hours=11), "23:00 is open"
    simulation.wait(hours=1).look(small_files=0)
    assert simulation.operation(Operation.COMPACT).next_run == NOW + timedelta(days=7, hours=10)


def test_a_suspended_table_starts_nothing_and_makes_up_once_when_it_is_resumed() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.look()
    simulation.change_spec(**HOURLY, suspend=True)
    for _ in range(5):
        assert simulation.wait(hours=1).look(small_files=50, snapshot_id=9).start is None
    simulation.change_spec(**HOURLY)
    simulation.run_through(**DONE)
    assert simulation.look().start is None


# -- triggers, with hysteresis


def test_a_trigger_holds_again_once_the_files_are_past_it_again() -> None:
    simulation = Simulation.of(**TRIGGER)
    simulation.see(small_files=100)
    simulation.run_through(**DONE)
    assert simulation.look(small_files=3, snapshot_id=8).start is None
    assert simulation.look(small_files=99, snapshot_id=9).start is None
    started = simulation.look(small_files=100, snapshot_id=10).start
    assert started is not None
    assert started.cause is Cause.TRIGGER
    assert "nothing to be joined with" not in simulation.condition("Healthy")[1], "a compaction helps these"


def test_where_a_compaction_left_many_small_files_a_quarter_more_is_needed() -> None:
    simulation = Simulation.of(**TRIGGER)
    simulation.see(small_files=500)
    simulation.run_through(**DONE)
    assert simulation.look(small_files=400, snapshot_id=8).start is None
    reason, message = simulation.condition("Healthy")
    assert reason == "False/TooManySmallFiles"
    assert "the last compaction left 400 that have nothing to be joined with" in message
    assert "raise compaction.triggers.smallFiles, or partition more coarsely" in message
    assert simulation.look(small_files=424, snapshot_id=9).start is None
    assert simulation.look(small_files=425, snapshot_id=10).start is not None


def test_growth_is_counted_from_the_lowest_since() -> None:
    simulation = Simulation.of(**TRIGGER)
    simulation.see(small_files=500)
    simulation.run_through(**DONE)
    simulation.look(small_files=400, snapshot_id=8)
    simulation.look(small_files=150, snapshot_id=9)  # somebody else compacted
    assert simulation.look(small_files=174, snapshot_id=10).start is None
    assert simulation.look(small_files=175, snapshot_id=11).start is not None


@pytest.mark.parametrize(("deleted", "starts"), [(299, False), (300, True)])
def test_the_share_of_deleted_rows_starts_a_compaction(deleted: int, starts: bool) -> None:
    simulation = Simulation.of(compaction={"triggers": {"deleteRatioPercent": 30}})
    decision = simulation.look(delete_records=deleted, delete_files=4)
    assert (decision.start is not None) == starts
    assert simulation.condition("Healthy")[0] == ("False/TooManyDeletes" if starts else "True/WithinPolicy")


def test_a_share_of_deleted_rows_that_a_compaction_left_starts_no_other() -> None:
    simulation = Simulation.of(compaction={"triggers": {"deleteRatioPercent": 20}})
    simulation.see(delete_records=500, delete_files=4)
    simulation.run_through(**DONE)
    assert simulation.look(delete_records=400, delete_files=4, snapshot_id=8).start is None
    assert simulation.look(delete_records=440, delete_files=4, snapshot_id=9).start is None
    assert simulation.look(delete_records=450, delete_files=4, snapshot_id=10).start is not None


def test_a_run_that_found_nothing_to_do_is_not_followed_by_another_at_the_next_commit() -> None:
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 2}})
    simulation.see(small_files=50)
    simulation.run_through(**NOTHING_DONE)
    simulation.look()
    decision = simulation.look(small_files=60, snapshot_id=8)
    assert (decision.start, decision.look_again_at) == (None, NOW + timedelta(hours=1))
    assert simulation.wait(hours=1).look().start is not None


def test_a_compaction_that_came_too_early_is_tried_again_when_the_files_have_cooled_down() -> None:
    """A load ends, and the run that its files started finds them all too new: nobody commits any more."""
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 50}, "coolDown": "10m"})
    simulation.look(small_files=60, snapshot_id=9)
    simulation.wait(minutes=1).finish(**NOTHING_DONE)
    decision = simulation.look()
    assert (decision.start, decision.look_again_at) == (None, NOW + timedelta(minutes=10))
    assert simulation.wait(minutes=9).look().start is not None


def test_while_writers_go_on_a_compaction_that_came_too_early_is_not_repeated_all_the_time() -> None:
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 50}, "coolDown": "10m"})
    simulation.look(small_files=60, snapshot_id=9)
    simulation.wait(minutes=1).finish(result={"tooNew": True})
    simulation.look()
    decision = simulation.look(small_files=61, snapshot_id=10)
    assert (decision.start, decision.look_again_at) == (None, NOW + timedelta(minutes=61))


def test_a_compaction_that_took_as_much_as_one_run_may_is_followed_by_the_next() -> None:
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 50}, "maxBytesPerRun": "1Gi"})
    for files in (10_000, 7_000, 4_000):
        simulation.look(small_files=files, snapshot_id=files)
        simulation.wait(minutes=5).finish(result={**DONE["result"], "moreLeft": True})
    simulation.look(small_files=60, snapshot_id=60)
    simulation.wait(minutes=5).finish(**DONE)
    assert simulation.look(small_files=55, snapshot_id=55).start is None, "the last one has done what there was to do"
    assert len(simulation.begun) == 4


def test_files_that_were_too_new_for_a_compaction_do_not_count_as_what_it_left() -> None:
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 50}, "coolDown": "10m"})
    simulation.look(small_files=90, snapshot_id=9)
    simulation.wait(minutes=5).finish(result={**DONE["result"], "tooNew": True})
    decision = simulation.look(small_files=60, snapshot_id=10)
    assert (decision.start, decision.look_again_at) == (None, simulation.now + timedelta(hours=1))
    assert simulation.wait(hours=1).look().start is not None


@pytest.mark.parametrize("by", ["a run of its own", "the annotation"])
@pytest.mark.parametrize(("phase", "is_due"), [("Failed", True), ("Succeeded", False)])
def test_a_persons_run_stands_for_a_scheduled_one_that_waited_only_if_it_succeeds(
    by: str, phase: str, is_due: bool
) -> None:
    simulation = Simulation.of(
        now=NOW - timedelta(hours=1),
        created=NOW - timedelta(hours=3),
        orphanFiles={"schedule": "0 12 * * *"},
        windows=[{"start": "22:00", "duration": "4h"}],
    )
    simulation.look()
    simulation.now = NOW + timedelta(hours=1)
    assert simulation.look().look_again_at == NOW + timedelta(hours=10)
    if by == "the annotation":
        simulation.annotate("RemoveOrphanFiles")
        simulation.look()
        simulation.wait(minutes=1).look()
        simulation.finish(phase, reason="X", message="y")
    else:
        simulation.runs = [run("by-hand", phase, age=-timedelta(hours=1), operation="RemoveOrphanFiles")]
    simulation.wait(minutes=1).look()
    simulation.now = NOW + timedelta(hours=10, minutes=1)
    started = simulation.look().start
    assert (started is not None and started.cause is Cause.SCHEDULE) == is_due


# -- runs on their way


def test_a_run_that_was_just_created_and_is_not_seen_yet_is_no_reason_for_another() -> None:
    simulation = Simulation.of(**EVERYTHING)
    simulation.see(small_files=100, ages=OLD, manifests=9)
    simulation.look()
    created, simulation.runs = simulation.runs, []
    decision = simulation.wait(seconds=2).look()
    assert decision.start is None
    assert decision.look_again_at is not None
    simulation.runs = created
    simulation.wait(seconds=2).look()
    assert simulation.operation(Operation.DELETE_EXPIRED_ROWS).record.state is RunState.SEEN


def test_in_the_hour_that_comes_twice_a_daily_run_is_neither_doubled_nor_waited_for_in_the_past() -> None:
    """Where summer time ends, 02:30 comes twice; a person's run between the two makes nothing due."""
    second = datetime(2026, 10, 25, 1, tzinfo=UTC)  # the second 02:00 in Berlin
    daily = {"orphanFiles": {"schedule": "30 2 * * *"}, "timeZone": "Europe/Berlin"}
    simulation = Simulation.of(now=second - timedelta(minutes=25), created=second - timedelta(days=1), **daily)
    simulation.run_through(**DONE)
    simulation.wait(minutes=30).annotate("RemoveOrphanFiles")
    simulation.run_through(**DONE)
    for _ in range(20):
        decision = simulation.wait(minutes=1).look()
        assert (decision.start, decision.look_again_at) == (None, datetime(2026, 10, 26, 1, 30, tzinfo=UTC))
