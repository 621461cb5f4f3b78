"""A Spark without executors: what is told of it, and when it is given up."""

from typing import Any

import pytest

from tablejobs.executor_watch import ExecutorWatch, Patience
from tablejobs.pods import why_no_executor
from tablejobs.reporting import HeldUp

QUOTA = HeldUp("ExecutorsNotCreated", "no executor can be created: exceeded quota")
FULL = HeldUp("ExecutorsNotStarted", "pod a: Unschedulable")


class Scene:
    """A Spark of which the test says how many executors it has, and what keeps them."""

    def __init__(self) -> None:
        self.executors = 0
        self.why = QUOTA
        self.told: list[HeldUp | None] = []
        self.stopped = 0
        self.watch = ExecutorWatch(
            lambda: self.executors,
            lambda: self.why,
            self.told.append,
            self.stop,
            patience=Patience(tell=60, give_up=600),
            now=1000,
        )

    def stop(self) -> None:
        self.stopped += 1


def test_what_keeps_the_executors_is_told_after_a_minute_and_once_for_each_reason() -> None:
    scene = Scene()
    for now in (1005, 1059):
        scene.watch.look(now)
    assert scene.told == []
    for now in (1060, 1065):
        scene.watch.look(now)
    assert scene.told == [QUOTA]
    scene.why = FULL
    scene.watch.look(1070)
    assert scene.told == [QUOTA, FULL]


def test_that_an_executor_has_come_is_told_if_its_absence_was() -> None:
    scene = Scene()
    scene.executors = 1
    scene.watch.look(1005)
    assert scene.told == []
    scene.executors = 0
    scene.watch.look(1064)
    assert scene.told == [], "the minute begins with the last look that found one"
    scene.watch.look(1065)
    scene.executors = 2
    scene.watch.look(1070)
    assert scene.told == [QUOTA, None]


def test_after_ten_minutes_without_any_the_work_is_stopped_for_good() -> None:
    scene = Scene()
    scene.watch.look(1599)
    assert (scene.watch.gave_up, scene.stopped) == (None, 0)
    scene.watch.look(1600)
    assert (scene.watch.gave_up, scene.stopped) == (QUOTA, 1)
    scene.executors = 1
    scene.watch.look(1605)
    assert (scene.watch.gave_up, scene.stopped) == (QUOTA, 2), "what began meanwhile would wait, too"


def test_the_default_patience_is_that_of_the_documentation() -> None:
    assert Patience() == Patience(tell=60, give_up=600, between_looks=5)


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x-exec-1"}, "status": status}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
PULLING = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not there"}}}
CREATING = {"state": {"waiting": {"reason": "ContainerCreating"}}}


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([pod(conditions=[UNSCHEDULABLE])], "pod x-exec-1: Unschedulable: 0/3 nodes"),
        ([pod(containerStatuses=[PULLING])], "pod x-exec-1: ImagePullBackOff: not there"),
        ([pod(), pod(conditions=[UNSCHEDULABLE])], "pod x-exec-1: Unschedulable: 0/3 nodes"),
    ],
)
def test_a_pod_that_does_not_start_says_why(pods: list[dict[str, Any]], message: str) -> None:
    assert why_no_executor(pods) == HeldUp("ExecutorsNotStarted", message)


@pytest.mark.parametrize("pods", [[], [pod(phase="Running")], [pod(containerStatuses=[CREATING])]])
def test_pods_that_seem_well_are_perhaps_kept_from_their_driver(pods: list[dict[str, Any]]) -> None:
    found = why_no_executor(pods)
    assert found.reason == "ExecutorsNotStarted"
    assert "NetworkPolicy" in found.message
