"""Runs that a person asks for by an annotation."""

from datetime import timedelta
from typing import Any

import pytest

from tablewright.api.run import Cause, Operation
from tests.unit.operator.simulation import DONE, Simulation
from tests.unit.operator.values import COLUMNS

ROWS = {"retention": {"rows": {"column": "ts", "maxAge": "1d"}}}
BY_ANNOTATION = [each for each in Operation if each not in (Operation.ROLLBACK, Operation.CHERRY_PICK)]


def asked(value: str, **spec: Any) -> Simulation:
    simulation = Simulation.of(**spec)
    simulation.annotate(value)
    return simulation


@pytest.mark.parametrize("operation", BY_ANNOTATION)
def test_an_annotation_starts_that_operation_once_and_goes(operation: Operation) -> None:
    simulation = asked(operation, **ROWS)
    decision = simulation.look()
    assert decision.start is not None
    assert (decision.start.operation, decision.start.cause) == (operation, Cause.ANNOTATION)
    assert decision.clear_request
    for _ in range(5):
        simulation.wait(minutes=1)
        if any(not run.status.is_finished for run in simulation.runs):
            simulation.finish(**DONE)
        decision = simulation.look()
        assert (decision.start, decision.clear_request) == (None, False)


@pytest.mark.parametrize("value", ["Compress", "compact", "", "Compact ", "x" * 1000])
def test_what_is_no_operation_is_answered_with_those_that_are(value: str) -> None:
    simulation = asked(value)
    decision = simulation.look()
    assert (decision.start, decision.clear_request) == (None, False)
    reason, message = simulation.condition("RunAccepted")
    assert reason == "False/UnknownOperation"
    named = [operation for operation in BY_ANNOTATION if operation in message]
    assert named == list(BY_ANNOTATION) or 'did you mean "Compact"?' in message
    simulation.annotate(None)
    simulation.look()
    assert "RunAccepted" not in {condition.type for condition in simulation.table.status.conditions}


@pytest.mark.parametrize(
    ("value", "spec", "reason"),
    [
        ("Rollback", {}, "False/UnknownOperation"),
        ("CherryPick", {}, "False/UnknownOperation"),
        ("DeleteExpiredRows", {}, "False/NotDeclared"),
        ("Compact", {"managementPolicy": "ObserveOnly"}, "False/NotAllowed"),
    ],
)
def test_what_cannot_be_started_so_says_why(value: str, spec: dict[str, Any], reason: str) -> None:
    simulation = asked(value, **spec)
    assert simulation.look().start is None
    assert simulation.condition("RunAccepted")[0] == reason


def test_a_table_that_is_only_observed_can_be_inspected() -> None:
    assert asked("Inspect", managementPolicy="ObserveOnly").look().start is not None


@pytest.mark.parametrize(
    "spec", [{"suspend": True}, {"windows": [{"days": ["Sun"], "start": "22:00", "duration": "1h"}]}]
)
def test_a_person_who_asks_means_now(spec: dict[str, Any]) -> None:
    assert asked("Compact", **spec).look().start is not None


def test_an_operator_that_dies_before_the_annotation_is_gone_starts_the_same_run_again() -> None:
    simulation = asked("Compact")
    simulation.look(write=False)
    assert len(simulation.runs) == 1
    for _ in range(3):
        simulation.wait(seconds=10)
        simulation.look(write=False)
    simulation.finish(**DONE)
    decision = simulation.wait(seconds=10).look()
    assert (decision.start, decision.clear_request) == (None, True)
    assert len(simulation.begun) == 1


def test_asking_twice_starts_two() -> None:
    simulation = asked("Compact")
    simulation.look()
    simulation.wait(minutes=1).finish(**DONE)
    simulation.look()
    simulation.annotate("Compact")
    simulation.wait(minutes=1).look()
    assert len(simulation.begun) == 2


def test_what_is_asked_for_while_another_run_is_under_way_waits_in_line_and_both_are_counted() -> None:
    simulation = Simulation.of(compaction={"triggers": {"smallFiles": 10}})
    simulation.look(small_files=50)
    simulation.wait(seconds=5).look()
    simulation.annotate("Compact")
    assert simulation.look().start is not None
    assert len(simulation.runs) == 2
    first, second = simulation.runs
    simulation.runs = [first]
    simulation.wait(seconds=10).finish("Failed")
    simulation.runs.append(second)
    simulation.look()
    assert simulation.operation(Operation.COMPACT).consecutive_failures == 1
    simulation.wait(minutes=1).finish(**DONE)
    simulation.look(small_files=0, snapshot_id=8)
    status = simulation.operation(Operation.COMPACT)
    assert (status.consecutive_failures, status.last_run) == (0, second.metadata.name)


def test_what_was_due_is_still_due_after_what_was_asked_for() -> None:
    simulation = asked("Inspect", compaction={"schedule": "0 * * * *"})
    simulation.see(small_files=50)
    assert [simulation.run_through().spec.operation for _ in range(2)] == [Operation.INSPECT, Operation.COMPACT]


def test_a_request_survives_a_table_that_is_not_there_yet() -> None:
    simulation = asked("Compact", schema={"columns": [*COLUMNS, {"name": "n", "type": "long"}]})
    decision = simulation.look()  # the new column first
    assert (decision.start, decision.clear_request) == (None, False)


def test_runs_of_before_are_no_answer_to_a_new_request() -> None:
    simulation = asked("Compact")
    simulation.run_through(**DONE)
    simulation.wait(days=1).look()
    simulation.runs.clear()  # by the history's limits, or by a person
    simulation.annotate("Compact")
    assert simulation.wait(seconds=timedelta(hours=1).seconds).look().start is not None
    assert len({run.metadata.name for run in simulation.runs}) == 1
    assert len(simulation.begun) == 2
