"""What follows runs that failed, and runs that somebody deleted: backoff, a stop, and what resumes an operation."""

from datetime import timedelta
from typing import Any

import pytest

from tablewright.api.run import Cause, Operation
from tablewright.api.table import RunState
from tablewright.decide.bookkeeping import COOL_DOWN, LONGEST_BACKOFF, STOP_AFTER, backoff
from tests.unit.operator.simulation import DONE, HOURLY, TRIGGER, Simulation
from tests.unit.operator.values import NOW


def test_the_backoff_grows_to_a_limit() -> None:
    waits = [backoff(failures) for failures in range(1, 40)]
    assert waits == sorted(waits)
    assert waits[0] == timedelta(minutes=1)
    assert waits[-1] == LONGEST_BACKOFF


@pytest.mark.parametrize("spec", [HOURLY, TRIGGER], ids=["scheduled", "triggered"])
def test_a_failed_run_is_tried_again_after_a_backoff(spec: dict[str, Any]) -> None:
    simulation = Simulation.of(**spec)
    simulation.see(small_files=100)
    first = simulation.run_through("Failed", reason="CommitConflict", message="lost the race")
    decision = simulation.look()
    assert (decision.start, decision.look_again_at) == (None, NOW + backoff(1))
    assert simulation.operation(Operation.COMPACT).consecutive_failures == 1
    reason, message = simulation.condition("Maintained")
    assert reason == "False/RunFailed"
    assert "CommitConflict: lost the race" in message
    second = simulation.wait(minutes=1).look().start
    assert second is not None
    assert second.name != first.metadata.name


def failing(times: int, **spec: Any) -> Simulation:
    simulation = Simulation.of(**spec)
    simulation.see(small_files=100)
    for _ in range(times):
        simulation.until_a_run_starts()
        simulation.wait(seconds=30).finish("Failed", reason="OutOfMemory", message="no memory")
    simulation.look()
    return simulation


def test_after_repeated_failures_the_operation_is_stopped_and_the_table_says_so() -> None:
    simulation = failing(STOP_AFTER, **TRIGGER)
    assert simulation.operation(Operation.COMPACT).stopped
    reason, message = simulation.condition("Maintained")
    assert reason == "False/OperationStopped"
    assert "tablewright.dev/run=Compact" in message
    stopped_at = simulation.now
    while simulation.now < stopped_at + COOL_DOWN - timedelta(hours=1):
        assert simulation.wait(hours=1).look(small_files=200, snapshot_id=simulation.now.hour + 50).start is None


def test_fewer_failures_stop_nothing() -> None:
    assert not failing(STOP_AFTER - 1, **TRIGGER).operation(Operation.COMPACT).stopped


@pytest.mark.parametrize("spec", [HOURLY, TRIGGER], ids=["scheduled", "triggered"])
def test_a_change_of_the_spec_resumes_a_stopped_operation(spec: dict[str, Any]) -> None:
    simulation = failing(STOP_AFTER, **spec)
    simulation.change_spec(**spec, layout={"targetFileSize": "512Mi"})
    assert simulation.look().start is not None
    assert not simulation.operation(Operation.COMPACT).stopped


def test_an_annotation_resumes_a_stopped_operation() -> None:
    simulation = failing(STOP_AFTER, **TRIGGER)
    simulation.annotate("Compact")
    started = simulation.look().start
    assert started is not None
    assert started.cause is Cause.ANNOTATION
    simulation.finish("Failed")
    simulation.look()
    assert simulation.operation(Operation.COMPACT).consecutive_failures == 1


def test_after_a_cool_down_a_stopped_operation_is_tried_once() -> None:
    simulation = failing(STOP_AFTER, **TRIGGER)
    simulation.now += COOL_DOWN
    assert simulation.look().start is not None
    simulation.finish("Failed")
    decision = simulation.look()
    assert (decision.start, decision.look_again_at) == (None, simulation.now + COOL_DOWN)
    assert simulation.operation(Operation.COMPACT).consecutive_failures == STOP_AFTER + 1


def test_a_success_forgives_what_went_before() -> None:
    simulation = failing(STOP_AFTER - 1, **TRIGGER)
    simulation.now += LONGEST_BACKOFF
    simulation.run_through(**DONE)
    simulation.look(small_files=0, snapshot_id=8)
    assert simulation.operation(Operation.COMPACT).consecutive_failures == 0
    assert simulation.condition("Maintained")[0] == "True/Succeeded"


def test_a_failure_that_got_something_done_begins_the_count_anew() -> None:
    simulation = failing(STOP_AFTER - 1, **TRIGGER)
    simulation.now += LONGEST_BACKOFF
    simulation.run_through("Failed", **DONE)
    simulation.look()
    assert simulation.operation(Operation.COMPACT).consecutive_failures == 1


@pytest.mark.parametrize("spec", [HOURLY, TRIGGER], ids=["scheduled", "triggered"])
def test_a_run_that_somebody_deleted_is_not_started_again_at_once(spec: dict[str, Any]) -> None:
    simulation = Simulation.of(**spec)
    simulation.see(small_files=100)
    simulation.look()
    simulation.wait(seconds=5).look()
    simulation.runs.clear()
    assert simulation.look(small_files=101, snapshot_id=8).start is None
    assert simulation.operation(Operation.COMPACT).record.state is RunState.GONE
    assert simulation.wait(minutes=30).look(small_files=101, snapshot_id=8).start is None
    assert simulation.wait(minutes=31).look(small_files=101, snapshot_id=8).start is not None


def test_a_run_that_was_cancelled_while_it_waited_stops_no_maintenance_though_somebodys_finalizer_keeps_it() -> None:
    """It never gets a Job, so it never ends: the table would have waited for it for ever, and said that all is well."""
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=20)
    simulation.wait(hours=1).until_a_run_starts()
    [run] = simulation.runs
    going = run.metadata.model_copy(update={"deletion_timestamp": simulation.now, "finalizers": ("example.com/keep",)})
    simulation.runs = [run.model_copy(update={"metadata": going})]
    assert simulation.wait(minutes=5).look().start is None, "who cancels a run does not want the next one at once"
    simulation.until_a_run_starts()
    assert len(simulation.begun) == 2
    assert simulation.now - simulation.begun[0][2] == timedelta(hours=1)


def test_a_run_that_is_cancelled_while_its_job_runs_is_waited_for() -> None:
    simulation = Simulation.of(**HOURLY)
    simulation.see(small_files=20)
    simulation.wait(hours=1).until_a_run_starts()
    [run] = simulation.runs
    going = run.metadata.model_copy(update={"deletion_timestamp": simulation.now})
    status = run.status.model_copy(update={"job_name": run.metadata.name})
    simulation.runs = [run.model_copy(update={"metadata": going, "status": status})]
    assert simulation.wait(hours=3).look().start is None
