"""What is to be looked at when a watch tells of an object: all that may have changed by it, and nothing else."""

from typing import Any

import pytest

from tablewright.runtime.keys import Key
from tests.unit.operator.test_reconciler import RUN, TABLE, World

UNDER_WAY = {"phase": "Running", "jobName": "by-hand"}
OWN = Key("MaintenanceRun", "sales", "by-hand")


@pytest.fixture
def world() -> World:
    """A run is under way, and another of its table waits for it."""
    world = World()
    world.see("ManagedTable", "events", TABLE)
    world.see("MaintenanceRun", "waits", RUN)
    report(world, 1, tasks=9, tasksDone=1)
    return world


def report(world: World, version: int, *, metadata: dict[str, Any] | None = None, **progress: Any) -> set[Key]:
    """The driver writes its progress."""
    written = {"resourceVersion": str(version), "managedFields": [{"manager": "driver", "time": str(version)}]}
    status = {**UNDER_WAY, "progress": progress}
    return set(world.see("MaintenanceRun", "by-hand", RUN, metadata=written | (metadata or {}), status=status))


def progress_of(world: World) -> Any:
    run = world.store.get("MaintenanceRun", "sales", "by-hand")
    assert run is not None
    return run["status"]["progress"]


def test_the_progress_of_a_driver_is_remembered_and_no_reason_to_look_at_anything(world: World) -> None:
    assert report(world, 2, tasks=9, tasksDone=2) == set()
    assert progress_of(world) == {"tasks": 9, "tasksDone": 2}


def test_a_driver_that_says_what_holds_it_up_has_its_run_alone_looked_at(world: World) -> None:
    assert report(world, 2, tasks=9, tasksDone=1, reason="Unschedulable", message="no node has room") == {OWN}
    assert report(world, 3, tasks=9, tasksDone=2, reason="Unschedulable", message="no node has room") == set()
    assert report(world, 4, tasks=9, tasksDone=2, reason="Unschedulable", message="a quota is used up") == {OWN}
    assert report(world, 5, tasks=9, tasksDone=3) == {OWN}, "it works again"


def test_whatever_else_changes_of_a_run_is_a_reason_to_look_at_its_table_and_at_those_that_wait(world: World) -> None:
    everything = {OWN, Key("MaintenanceRun", "sales", "waits"), Key("ManagedTable", "sales", "events")}
    assert report(world, 2, metadata={"generation": 2}, tasks=9, tasksDone=2) == everything
    assert report(world, 3, metadata={"uid": "of a successor"}, tasks=9, tasksDone=3) == everything
    ended = {**UNDER_WAY, "phase": "Succeeded", "progress": {"tasks": 9, "tasksDone": 9}}
    assert everything <= set(
        world.see("MaintenanceRun", "by-hand", RUN, metadata={"resourceVersion": "4"}, status=ended)
    )


def test_progress_that_is_told_of_late_brings_nothing_back(world: World) -> None:
    report(world, 3, tasks=9, tasksDone=3)
    assert report(world, 2, tasks=9, tasksDone=2) == set()
    assert progress_of(world) == {"tasks": 9, "tasksDone": 3}
