"""Which finished runs are deleted, and that nothing is forgotten with them."""

from datetime import timedelta
from typing import Any

import pytest

from tablewright.api.run import Cause, Operation
from tablewright.decide.bookkeeping import STOP_AFTER
from tests.unit.operator.simulation import DONE, HOURLY, TRIGGER, Simulation
from tests.unit.operator.values import NOW, run


def after(outcomes: str, **spec: Any) -> Simulation:
    """A table whose compactions ended so, one an hour or later: S for succeeded, F for failed."""
    simulation = Simulation.of(**HOURLY, **spec)
    for number, outcome in enumerate(outcomes):
        simulation.see(small_files=100, snapshot_id=number + 1)
        simulation.until_a_run_starts()
        simulation.wait(seconds=30).finish(
            "Succeeded" if outcome == "S" else "Failed", **(DONE if outcome == "S" else {})
        )
        simulation.wait(minutes=1)
    simulation.look(small_files=0, snapshot_id=99)
    return simulation


def left(simulation: Simulation) -> str:
    """Of the finished runs."""
    letters = {"Succeeded": "S", "Failed": "F"}
    return "".join(letters[run.status.phase] for run in simulation.runs if run.status.phase in letters)


@pytest.mark.parametrize(
    ("outcomes", "limits", "kept"),
    [
        ("SSS", {}, "SSS"),
        ("SSSSS", {}, "SSS"),
        ("SFSFSFSFSF", {}, "SFSFSF"),
        ("FFFFS", {}, "FFFS"),
        ("SSSS", {"succeeded": 0}, ""),
        ("SSSS", {"succeeded": 1}, "S"),
        ("SFSF", {"succeeded": 1, "failed": 0}, "S"),
        ("FFF", {"failed": 1}, "F"),
    ],
)
def test_the_oldest_finished_runs_beyond_the_limits_go(outcomes: str, limits: dict[str, int], kept: str) -> None:
    simulation = after(outcomes, runHistory=limits)
    assert left(simulation) == kept
    newest = sorted(simulation.runs, key=lambda run: str(run.metadata.creation_timestamp))
    assert simulation.runs == newest


def test_each_operation_has_its_own_history() -> None:
    simulation = Simulation.of(runHistory={"succeeded": 1})
    for operation in ("Compact", "Inspect", "Compact", "Inspect"):
        simulation.annotate(operation)
        simulation.run_through(**DONE)
        simulation.wait(minutes=1).look()
    assert sorted(run.spec.operation for run in simulation.runs) == ["Compact", "Inspect"]


def test_a_run_that_a_person_made_is_never_deleted() -> None:
    simulation = Simulation.of(runHistory={"succeeded": 0, "failed": 0})
    simulation.runs = [run(f"by-hand-{n}", "Succeeded", age=timedelta(hours=n + 1)) for n in range(9)]
    assert simulation.look().delete_runs == ()


def test_a_run_whose_outcome_is_not_counted_yet_is_not_deleted() -> None:
    simulation = Simulation.of(runHistory={"succeeded": 0})
    under_way = run("first", "Running", age=timedelta(minutes=9), cause=Cause.TRIGGER, jobName="first")
    ended = run("second", "Succeeded", age=timedelta(minutes=8), cause=Cause.TRIGGER)
    simulation.runs = [under_way, ended]
    assert simulation.look().delete_runs == ()
    simulation.finish(**DONE)
    assert set(simulation.look().delete_runs) == {"first", "second"}


def test_a_dry_run_is_no_part_of_what_is_remembered() -> None:
    simulation = Simulation.of(**TRIGGER)
    rehearsal = run("rehearsal", "Failed")
    spec = rehearsal.spec.model_copy(update={"dry_run": True})
    simulation.runs = [rehearsal.model_copy(update={"spec": spec})]
    assert simulation.look(small_files=100).start is not None
    assert simulation.operation(Operation.COMPACT).consecutive_failures == 0


def test_without_any_runs_schedules_go_on_as_if_they_were_there() -> None:
    with_runs, without = after("SS"), after("SS", runHistory={"succeeded": 0, "failed": 0})
    assert (left(with_runs), left(without)) == ("SS", "")
    for simulation in (with_runs, without):
        simulation.see(small_files=100, snapshot_id=100)
    for _ in range(120):
        one, other = (simulation.wait(minutes=1).look() for simulation in (with_runs, without))
        assert (one.start, one.look_again_at) == (other.start, other.look_again_at)
        for simulation in (with_runs, without):
            if any(not run.status.is_finished for run in simulation.runs):
                simulation.finish(**DONE)
    assert with_runs.begun == without.begun


def test_without_any_runs_a_stopped_operation_stays_stopped() -> None:
    simulation = after("F" * STOP_AFTER, runHistory={"failed": 0})
    assert simulation.runs == []
    assert simulation.operation(Operation.COMPACT).stopped
    assert simulation.wait(hours=3).look(small_files=500, snapshot_id=200).start is None
    assert simulation.condition("Maintained")[0] == "False/OperationStopped"


def test_the_last_success_is_told_after_its_run_is_gone() -> None:
    simulation = after("S", runHistory={"succeeded": 0})
    status = simulation.operation(Operation.COMPACT)
    assert simulation.runs == []
    assert status.last_success == NOW + timedelta(seconds=30)
    assert simulation.condition("Maintained")[0] == "True/Succeeded"
