"""A table with too many files for the operator to look at each: what its runs counted, and for how long it holds."""

from datetime import timedelta
from typing import Any

from tablewright.api.run import Cause, Operation
from tablewright.api.table import HealthFigures
from tests.unit.operator.simulation import DONE, Simulation
from tests.unit.operator.values import NOW, decide, managed_table, present, run

SMALL = (512 << 20) * 3 // 4
MANY: dict[str, Any] = {"estimated": True, "data_files": 200_000, "data_bytes": 10**14}


def counted(small_files: int, *, snapshot_id: int = 7, small_file_bytes: int = SMALL) -> dict[str, Any]:
    return {
        "snapshotId": snapshot_id,
        "smallFileBytes": small_file_bytes,
        "dataFiles": 200_000,
        "smallFiles": small_files,
        "dataBytes": 9 * 10**13,
        "medianFileBytes": 600 << 20,
    }


def health_after(*, snapshot_id: int = 7, runs: list[Any] | None = None, **figures: Any) -> HealthFigures:
    inspected = [run("inspect", "Succeeded", operation="Inspect", after=counted(40_000, **figures))]
    observed = present(snapshot_id=snapshot_id, **MANY)
    found = decide(managed_table(), observed, inspected if runs is None else runs, NOW).status.health
    assert found is not None
    return found


def test_what_a_run_counted_of_the_current_snapshot_is_the_tables_health() -> None:
    health = health_after()
    assert (health.small_files, health.median_file_bytes, health.size) == (40_000, 600 << 20, "81.9 TiB")
    assert not health.estimated


def test_what_was_counted_of_an_earlier_snapshot_is_shown_as_such_and_not_taken_for_the_present() -> None:
    health = health_after(snapshot_id=8)
    assert (health.small_files, health.estimated) == (0, True)
    assert health.exact is not None
    assert (health.exact.snapshot_id, health.exact.small_files) == (7, 40_000)


def test_files_that_were_small_for_another_target_are_not_taken_for_small() -> None:
    assert health_after(small_file_bytes=SMALL // 2).estimated


def test_the_last_that_was_counted_holds() -> None:
    runs = [
        run("older", "Succeeded", age=timedelta(hours=2), after=counted(9)),
        run("newer", "Succeeded", age=timedelta(hours=1), operation="Inspect", before=counted(40_000)),
        run("failed", "Failed", age=timedelta(minutes=1)),
    ]
    assert health_after(runs=runs).small_files == 40_000


def test_what_was_counted_is_known_when_its_run_is_gone() -> None:
    simulation = Simulation.of()
    simulation.look(**MANY)
    simulation.runs = [run("inspect", "Succeeded", operation="Inspect", after=counted(40_000))]
    simulation.look()
    simulation.runs = []
    quiet = simulation.table.status
    assert simulation.look().status == quiet
    assert quiet.health is not None
    assert (quiet.health.small_files, quiet.health.estimated) == (40_000, False)


def test_a_scheduled_compaction_starts_where_nobody_can_tell_that_there_is_nothing_to_do() -> None:
    """Large files prove nothing of the small ones beside them."""
    simulation = Simulation.of(compaction={"schedule": "0 * * * *"})
    assert simulation.look(**MANY).start is not None


def test_nor_does_it_start_where_a_run_counted_that_there_is_nothing_to_do() -> None:
    simulation = Simulation.of(compaction={"schedule": "0 * * * *"})
    simulation.runs = [run("inspect", "Succeeded", operation="Inspect", after=counted(2))]
    assert simulation.look(**MANY).start is None


def test_a_count_past_the_limit_starts_one_compaction_and_what_that_leaves_no_other() -> None:
    """With forty thousand files alone in their partitions, and writers who commit between any two looks."""
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 50}})
    inspected = run("inspect", "Succeeded", operation="Inspect", after=counted(40_000))
    simulation.runs = [inspected]
    started = simulation.look(**MANY).start
    assert started is not None
    assert (started.operation, started.cause) == (Operation.COMPACT, Cause.TRIGGER)
    simulation.wait(minutes=9).finish(**DONE, after=counted(39_990, snapshot_id=8))
    assert simulation.look(snapshot_id=9, **MANY).start is None
    for snapshot_id in range(10, 14):
        recounted = counted(39_995, snapshot_id=snapshot_id)
        again = run(f"inspect-{snapshot_id}", "Succeeded", operation="Inspect", after=recounted)
        status = again.status.model_copy(update={"completion_time": simulation.wait(hours=1).now})
        simulation.runs = [again.model_copy(update={"status": status})]
        assert simulation.look(snapshot_id=snapshot_id, **MANY).start is None
        assert simulation.look(snapshot_id=snapshot_id + 100, **MANY).start is None


def test_estimates_are_called_so() -> None:
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 50}})
    simulation.look(**MANY)
    assert simulation.condition("Healthy") == ("True/WithinPolicy", "at least 0 small files of 200,000")
