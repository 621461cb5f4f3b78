"""A run whose pod does not start stands in the way of all maintenance of its table, and people are told."""

from datetime import timedelta

import pytest

from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus
from tablewright.decide.runs import Waiting, decide_run
from tablewright.decide.state import JobObservation, PodProblem
from tests.unit.operator.simulation import HOURLY, Simulation
from tests.unit.operator.values import NOW

RUNNING = JobObservation(active=True, succeeded=False, failed=False)


def with_problem(reason: str) -> JobObservation:
    return JobObservation(active=False, succeeded=False, failed=False, problem=PodProblem(reason, "the sentence"))


def held_up(reason: str = "ImageNotPulled") -> Simulation:
    """A run was started, and its Job's pod has a problem from then on."""
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=20)
    simulation.wait(hours=1).until_a_run_starts()
    [run] = simulation.runs
    status = decide_run(run, None, with_problem(reason), simulation.now).status
    simulation.runs = [run.model_copy(update={"status": status})]
    return simulation


@pytest.mark.parametrize(("reason", "patience"), [("ImageNotPulled", 30), ("Unschedulable", 30), ("Queued", 24 * 60)])
def test_maintenance_that_stands_still_is_told_after_a_while(reason: str, patience: int) -> None:
    simulation = held_up(reason)
    decision = simulation.look()
    assert simulation.condition("Maintained")[0] == "True/NothingDone"
    assert decision.look_again_at == simulation.now + timedelta(minutes=patience), "no event tells when"
    simulation.wait(minutes=patience).look()
    said, message = simulation.condition("Maintained")
    assert said == "False/RunHeldUp"
    assert simulation.runs[0].metadata.name in message
    assert f"{reason}: the sentence" in message
    assert "delete the run" in message


def test_it_is_well_again_once_the_run_goes_on() -> None:
    simulation = held_up()
    simulation.wait(hours=2).look()
    [run] = simulation.runs
    status = decide_run(run, None, RUNNING, simulation.now).status
    simulation.runs = [run.model_copy(update={"status": status})]
    simulation.look()
    assert simulation.condition("Maintained")[0] == "True/NothingDone"


def since(status: MaintenanceRunStatus) -> object:
    """As mypy cannot know it: from one look to the next it changes, though the variable is the same."""
    return status.held_up_since


def test_the_time_counts_from_the_first_problem_and_ends_with_it() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=20)
    simulation.wait(hours=1).until_a_run_starts()
    [run] = simulation.runs

    def after(run: MaintenanceRun, minutes: int, job: JobObservation | None, waiting: Waiting | None) -> MaintenanceRun:
        status = decide_run(run, None, job, NOW + timedelta(minutes=minutes), waiting=waiting).status
        return run.model_copy(update={"status": status})

    run = after(run, 0, None, Waiting("its window opens at ten"))
    assert since(run.status) is None, "that is no trouble"
    run = after(run, 10, None, Waiting("forbidden: exceeded quota", NOW, "JobNotCreated"))
    assert since(run.status) == NOW + timedelta(minutes=10)
    run = after(run, 20, with_problem("ImageNotPulled"), None)
    assert since(run.status) == NOW + timedelta(minutes=10)
    run = after(run, 30, RUNNING, None)
    assert since(run.status) is None
