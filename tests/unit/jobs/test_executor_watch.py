"""A Spark without executors: what is told of it, and when it is given up."""

from dataclasses import replace
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


def test_what_will_not_pass_is_not_waited_for_any_longer_than_it_takes_to_be_told() -> None:
    scene = Scene()
    scene.why = replace(FULL, for_good=True)
    scene.watch.look(1059)
    assert (scene.watch.gave_up, scene.stopped) == (None, 0)
    scene.watch.look(1060)
    assert (scene.watch.gave_up, scene.stopped) == (scene.why, 1)


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
    assert why_no_executor(pods, wanted=2) == HeldUp("ExecutorsNotStarted", message)


def ended(code: int, *, minutes: int = 0) -> dict[str, Any]:
    times = {"startedAt": "2026-11-17T10:00:00Z", "finishedAt": f"2026-11-17T10:{minutes:02}:20Z"}
    return pod(
        phase="Failed", containerStatuses=[{"state": {"terminated": {"exitCode": code, "reason": "Error", **times}}}]
    )


def test_executors_that_end_as_soon_as_they_start_are_given_up_when_each_was_started_four_times() -> None:
    found = why_no_executor([ended(1)] * 7, wanted=2)
    assert found.message == "executors end as soon as they start, as pod x-exec-1: Error, code 1"
    assert not found.for_good
    assert why_no_executor([ended(1)] * 8, wanted=2) == replace(found, for_good=True)
    worked = [ended(143, minutes=30)] * 100
    assert not why_no_executor([*worked, ended(1)], wanted=2).for_good, "nodes came and went"


@pytest.mark.parametrize("pods", [[], [pod(phase="Running")], [pod(containerStatuses=[CREATING])]])
def test_pods_that_seem_well_are_perhaps_kept_from_their_driver(pods: list[dict[str, Any]]) -> None:
    found = why_no_executor(pods, wanted=2)
    assert found.reason == "ExecutorsNotStarted"
    assert "NetworkPolicy" in found.message
