"""A run that may not be created (a quota is used up, a rule of the cluster forbids it) freezes nothing but itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.operator.test_reconciler import TABLE, Answer, World

RUNS = "/maintenanceruns$"
ASKED = {"annotations": {"tablewright.dev/run": "Inspect"}}


def statuses(world: World) -> list[dict[str, Any]]:
    return [json.loads(body)["status"] for body in world.server.written("/managedtables/events/status$")]


def maintained(status: dict[str, Any]) -> tuple[str, str]:
    [found] = [each for each in status["conditions"] if each["type"] == "Maintained"]
    return found["reason"], found["message"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World({"sql": {"uri": f"sqlite:///{tmp_path}/catalog.db"}, "warehouse": f"file://{tmp_path}/warehouse"})


@pytest.mark.parametrize("status", [403, 422])
def test_a_run_that_is_not_allowed_is_told_and_the_rest_of_the_status_goes_on(world: World, status: int) -> None:
    world.see("ManagedTable", "events", TABLE, metadata=ASKED)
    world.server.answers[RUNS] = Answer(status, {"message": "exceeded quota: few"})
    again = world.reconcile("ManagedTable", "events")
    assert again is not None
    assert again <= 60, "nobody tells when there is room"
    [said] = statuses(world)
    assert said["observedGeneration"] == 1
    assert said["identity"]["location"].endswith("/events")
    reason, message = maintained(said)
    assert reason == "RunRefused"
    assert "Inspect is due" in message
    assert "exceeded quota: few" in message
    assert world.server.written("/managedtables/events$") == [], "what was asked for is still asked for"


def test_when_there_is_room_again_the_run_starts(world: World) -> None:
    world.see("ManagedTable", "events", TABLE, metadata=ASKED)
    world.server.answers[RUNS] = Answer(403, {"message": "exceeded quota: few"})
    world.reconcile("ManagedTable", "events")
    world.see("ManagedTable", "events", TABLE, metadata={**ASKED, "resourceVersion": "2"}, status=statuses(world)[0])
    del world.server.answers[RUNS]
    world.reconcile("ManagedTable", "events")
    first, second = world.server.written(RUNS)
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert maintained(statuses(world)[-1])[0] == "NothingDone"
    [started] = statuses(world)[-1]["operations"]
    assert started["lastRun"] == second["metadata"]["name"]
    assert world.server.written("/managedtables/events$"), "the annotation is gone"
