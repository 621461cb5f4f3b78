"""A Job whose pod never started is made anew when what it was made with is corrected: nobody has to delete its run."""

import json
from typing import Any

import pytest

from tablewright.decide.runs import decide_run
from tablewright.decide.state import JobObservation, PodProblem
from tablewright.observe.jobs import observe_job
from tests.unit.operator.test_reconciler import CATALOG, RUN, TABLE, Answer, World
from tests.unit.operator.values import NOW, run

NOT_PULLED = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
STATUS = "/maintenanceruns/by-hand/status"


def pod(state: dict[str, Any] = NOT_PULLED, phase: str = "Pending", **more: Any) -> dict[str, Any]:
    driver = {"name": "driver", "image": "jobs", "state": state, **more}
    metadata = {"name": "by-hand-1", "creationTimestamp": NOW.isoformat()}
    return {"metadata": metadata, "status": {"phase": phase, "containerStatuses": [driver]}}


class Corrected(World):
    """A table whose run got its Job, which then waits for an image that is not there, until the table is corrected."""

    def __init__(self) -> None:
        super().__init__(CATALOG)
        self.version = 1
        self.declare("wrong")
        self.see("MaintenanceRun", "by-hand", RUN)
        self.reconcile("MaintenanceRun", "by-hand")
        self.follow()
        [made] = self.server.written("/jobs$")
        self.job = {
            **made,
            "metadata": {**made["metadata"], "uid": "uid-of-job", "resourceVersion": "77"},
            "status": {"active": 1, "ready": 0},
        }
        self.pods = [pod()]
        self.server.answers["/events$"] = Answer(200, {"items": []})
        self.look()

    def declare(self, image: str) -> None:
        self.version += 1
        self.see("ManagedTable", "events", {**TABLE, "jobs": {"image": image}}, metadata=self._as_version())

    def follow(self) -> None:
        """The watch tells of what was written."""
        self.version += 1
        self.see("MaintenanceRun", "by-hand", RUN, metadata=self._as_version(), status=self.status)

    def look(self) -> float | None:
        """A pass over the run, with the Job and the pods as they are now."""
        self.server.answers["/jobs/by-hand$"] = Answer(200, self.job) if self.job else Answer(404, {"message": "none"})
        self.server.answers["/pods$"] = Answer(200, {"items": self.pods})
        again = self.reconcile("MaintenanceRun", "by-hand")
        self.follow()
        return again

    def deleted(self) -> list[Any]:
        return [r.body for r in self.server.requests if r.method == "DELETE" and r.path.endswith("/jobs/by-hand")]

    def answer_deletion(self, answer: Answer) -> None:
        """By the method: the Job is read at the same path."""
        call = self.server.call_api

        def answered(method: str, path: str, body: Any, **options: Any) -> Answer:
            found = call(method, path, body, **options)
            return answer if method == "DELETE" else found

        self.server.call_api = answered  # type: ignore[method-assign]

    def told(self) -> list[str]:
        return [event["reason"] for event in self.server.written("/events$")]

    @property
    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.server.written(STATUS)[-1])["status"])

    @property
    def images(self) -> list[str]:
        """Of the Jobs that were made."""
        made = self.server.written("/jobs$")
        return [job["spec"]["template"]["spec"]["containers"][0]["image"] for job in made]

    def _as_version(self) -> dict[str, str]:
        return {"resourceVersion": str(self.version)}


@pytest.fixture
def world() -> Corrected:
    world = Corrected()
    assert (world.status["phase"], world.status["reason"]) == ("Pending", "ImageNotPulled")
    return world


def test_a_job_whose_pod_never_started_is_made_anew_when_its_declaration_is_corrected(world: Corrected) -> None:
    world.declare("right")
    assert world.look() == 15.0
    assert (world.status["phase"], world.status["reason"]) == ("Pending", "JobReplaced")
    assert world.deleted() == [], "who finds it gone must know that it was us"
    world.look()
    [options] = world.deleted()
    assert options == {
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "uid-of-job", "resourceVersion": "77"},
    }
    world.job["metadata"]["deletionTimestamp"] = NOW.isoformat()
    world.look()
    assert (len(world.deleted()), world.images) == (1, ["wrong"]), "its pod may still be there"
    assert world.status["jobName"] == "by-hand", "and so other runs of the table wait"
    world.job, world.pods = {}, []
    world.look()
    assert world.images == ["wrong", "right"]
    assert (world.status["phase"], world.status.get("reason"), world.status["jobName"]) == ("Pending", None, "by-hand")
    assert "heldUpSince" not in world.status
    assert world.told() == ["RunHeldUp", "JobReplaced"]


def test_a_job_that_would_be_made_the_same_stays(world: Corrected) -> None:
    world.declare("right")
    world.declare("wrong")
    for _ in range(3):
        world.look()
    assert world.status["reason"] == "ImageNotPulled"
    assert world.deleted() == []


@pytest.mark.parametrize(
    ("pods", "job"),
    [
        ([pod({"running": {"startedAt": "now"}}, phase="Running")], {}),
        ([pod({"running": {"startedAt": "now"}})], {}),
        ([pod(lastState={"terminated": {"exitCode": 1}})], {}),
        ([pod(), pod({"terminated": {"exitCode": 1}}, phase="Failed")], {}),
        ([pod()], {"failed": 1}),
        ([pod()], {"uncountedTerminatedPods": {"failed": ["uid"]}}),
        ([pod()], {"ready": 1}),
    ],
)
def test_a_job_of_which_a_driver_has_run_is_never_replaced(
    world: Corrected, pods: list[dict[str, Any]], job: dict[str, Any]
) -> None:
    """Not even if it begins after its run has said that its Job is replaced."""
    world.declare("right")
    world.look()
    assert world.status["reason"] == "JobReplaced"
    world.pods, world.job["status"] = pods, world.job["status"] | job
    for _ in range(3):
        world.look()
    assert world.status.get("reason") != "JobReplaced"
    assert world.deleted() == []


def test_a_driver_that_told_of_its_progress_has_begun() -> None:
    problem = PodProblem("Unschedulable", "0/3 nodes")
    job = JobObservation(
        active=True, succeeded=False, failed=False, problem=problem, has_begun=False, made_with="old", is_settled=False
    )
    new, begun = run("r", "Pending", jobName="r"), run("r", "Running", jobName="r", progress={"tasks": 3})
    assert decide_run(new, None, job, NOW, made_with="new").status.reason == "JobReplaced"
    assert decide_run(begun, None, job, NOW, made_with="new").status.reason == "Unschedulable"


def test_containers_beside_the_driver_are_nobodys_work() -> None:
    held_up = pod()
    held_up["status"]["containerStatuses"].append({"name": "proxy", "state": {"running": {}}})
    assert not observe_job({}, [held_up], now=NOW).has_begun


@pytest.mark.parametrize("ended", [True, False])
def test_a_new_job_waits_for_pods_that_the_old_one_left(world: Corrected, ended: bool) -> None:
    """Somebody may have deleted the Job meanwhile, and not waited for its pods."""
    world.declare("right")
    world.look()
    world.job, world.pods = {}, [pod(phase="Failed" if ended else "Running")]
    assert world.look() == (None if ended else 15.0)
    assert world.images == (["wrong", "right"] if ended else ["wrong"])


def test_a_job_that_changed_since_it_was_seen_is_looked_at_again(world: Corrected) -> None:
    world.declare("right")
    world.look()
    world.answer_deletion(Answer(409, {"message": "the ResourceVersion in the precondition does not match"}))
    assert world.look() == 15.0
    assert len(world.deleted()) == 1
    world.pods = [pod({"running": {"startedAt": "now"}}, phase="Running")]
    world.look()
    assert world.status["phase"] == "Running"
    assert len(world.deleted()) == 1


def test_a_right_that_the_operator_lacks_is_told_and_not_time_and_again(world: Corrected) -> None:
    world.declare("right")
    world.look()
    world.answer_deletion(Answer(403, {"message": "cannot delete resource jobs"}))
    world.look()
    said = world.status
    assert said["reason"] == "JobReplaced"
    assert (
        "but it cannot be deleted: the operator may not delete Jobs: give it the right to in sales" in said["message"]
    )
    before = len(world.server.written(STATUS))
    world.look()
    assert len(world.server.written(STATUS)) == before


def test_a_policy_that_cannot_be_read_replaces_no_job(world: Corrected) -> None:
    """What it says of jobs is not known: the Job would be made with less than its author means."""
    world.declare("right")
    world.see("TablePolicy", "all", {"jobs": {"image": 7}})
    world.look()
    assert world.status["reason"] == "ImageNotPulled"


def test_a_job_that_somebody_deletes_is_not_made_anew() -> None:
    held_up = run("r", "Pending", jobName="r", reason="ImageNotPulled")
    assert decide_run(held_up, None, None, NOW).status.reason == "JobDeleted"
