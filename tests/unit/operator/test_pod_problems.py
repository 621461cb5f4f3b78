"""Why a run's pod does not run, or ended without a word: from what the API server has, by value."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tablewright.api.run import MaintenanceRun, Phase
from tablewright.decide.happenings import run_happenings
from tablewright.decide.runs import decide_run, runs_out_of_memory
from tablewright.decide.state import JobObservation, PodProblem
from tablewright.observe.jobs import observe_job
from tablewright.observe.pods import job_problem, pod_problem
from tests.unit.operator.values import NOW, run

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
REPORT = '{"succeeded": false, "reason": "BadCredentials", "message": "bucket lake: refused"}'


def pod(*, created: int = 0, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "driver", "image": "jobs:1", "state": state}]}


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (container(terminated={"reason": "OOMKilled", "exitCode": 137}), "OutOfMemory", "want of memory"),
        (container(waiting={"reason": "ImagePullBackOff", "message": "Back-off"}), "ImageNotPulled", "jobs:1"),
        (container(waiting={"reason": "ErrImageNeverPull"}), "ImageNotPulled", "ErrImageNeverPull"),
        (
            container(waiting={"reason": "CreateContainerConfigError", "message": 'secret "keys" not found'}),
            *("PodNotStarted", 'secret "keys" not found'),
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted", "low on memory"),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]},
            *("Evicted", "TerminationByKubelet"),
        ),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ]
            },
            *("Unschedulable", "0/3 nodes"),
        ),
    ],
)
def test_a_pods_status_says_what_is_wrong_with_it(status: dict[str, Any], reason: str, words: str) -> None:
    found = pod_problem(pod(**status))
    assert found is not None
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    "status",
    [
        {},
        container(running={"startedAt": "now"}),
        container(waiting={"reason": "ContainerCreating"}),
        container(terminated={"reason": "Error", "exitCode": 1}),
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
    ],
)
def test_a_pod_that_runs_or_may_yet_has_no_problem(status: dict[str, Any]) -> None:
    assert pod_problem(pod(**status)) is None


def event(note: str, at: str, reason: str = "FailedCreate") -> dict[str, Any]:
    return {"reason": reason, "note": note, "deprecatedLastTimestamp": at}


def test_without_a_pod_the_last_event_says_why_there_is_none() -> None:
    events = [
        event("exceeded quota: small", "2026-01-01T00:00:09Z"),
        event("older", "2026-01-01T00:00:01Z"),
        event("Created pod", "2026-01-01T00:00:10Z", reason="SuccessfulCreate"),
    ]
    assert job_problem({}, [], events, CREATED) == PodProblem(
        "PodsNotCreated", "no pod can be created: exceeded quota: small"
    )
    assert job_problem({}, [], [], CREATED) is None
    assert job_problem({}, [pod()], events, CREATED) is None


CREATING = container(waiting={"reason": "ContainerCreating"})
GATED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}


@pytest.mark.parametrize("status", [{"phase": "Pending", **CREATING}, {"phase": "Pending"}, {}])
def test_a_pod_that_should_have_started_by_now_is_a_problem_though_its_status_names_none(
    status: dict[str, Any],
) -> None:
    """A volume whose ConfigMap is not there, for one: the table's other runs would wait for ever, and nobody knew."""
    mount = {"type": "Warning", "reason": "FailedMount", "note": 'configmap "ca" not found', "eventTime": "2026-01-01"}
    pulling = {"type": "Normal", "reason": "Scheduled", "note": "to a node", "eventTime": "2026-01-02"}
    slow = pod(**status)
    assert job_problem({}, [slow], [mount], CREATED + timedelta(minutes=9)) is None
    found = job_problem({}, [slow], [mount, pulling], CREATED + timedelta(minutes=10))
    assert found is not None
    assert found.reason == "PodNotStarted"
    assert found.message == (
        'pod p was created at 2026-01-01T00:00:00Z and has not started: FailedMount: configmap "ca" not found'
    )
    assert job_problem({}, [slow], [], CREATED + timedelta(days=1)) is not None, "events are forgotten after an hour"


@pytest.mark.parametrize("status", [container(running={}), {"phase": "Running"}, {"phase": "Succeeded"}, GATED])
def test_a_pod_that_started_or_that_somebody_holds_back_on_purpose_is_not_slow(status: dict[str, Any]) -> None:
    assert job_problem({}, [pod(**status)], [], CREATED + timedelta(days=1)) is None


def test_a_job_that_a_queue_holds_back_says_so() -> None:
    found = job_problem({"spec": {"suspend": True}}, [], [], CREATED)
    assert found is not None
    assert found.reason == "Queued"


def failed_job(reason: str = "BackoffLimitExceeded") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": reason, "message": "m"}]}}


def ended(job: dict[str, Any], *pods: dict[str, Any]) -> tuple[str | None, str | None]:
    status = decide_run(run("r", "Running", jobName="r"), None, observe_job(job, pods, now=NOW), NOW).status
    assert status.phase is Phase.FAILED
    said = {(condition.type, condition.status, condition.reason) for condition in status.conditions}
    assert said == {("Succeeded", "False", status.reason), ("Stalled", "True", status.reason)}
    return status.reason, status.message


def test_a_run_whose_last_pod_was_killed_for_memory_ends_so_whatever_earlier_pods_reported() -> None:
    told = pod(created=1, **container(terminated={"reason": "Error", "exitCode": 1, "message": REPORT}))
    killed = pod(created=2, **container(terminated={"reason": "OOMKilled", "exitCode": 137}))
    observed = observe_job(failed_job(), [told, killed], now=NOW)
    assert observed.problem is not None
    assert observed.problem.reason == "OutOfMemory"
    assert ended(failed_job(), told, killed)[0] == "OutOfMemory"


def test_a_run_ends_with_the_reason_that_its_driver_reports() -> None:
    told = pod(**container(terminated={"reason": "Error", "exitCode": 2, "message": REPORT}))
    assert ended(failed_job("PodFailurePolicy"), told) == ("BadCredentials", "bucket lake: refused")


def test_a_run_that_took_too_long_says_so() -> None:
    assert ended(failed_job("DeadlineExceeded"))[0] == "DeadlineExceeded"


def test_a_run_that_took_too_long_says_so_though_an_earlier_attempt_told_of_its_end() -> None:
    """The Job controller deletes the pod that was under way: only the earlier one is left to look at."""
    earlier = pod(**container(terminated={"reason": "Error", "exitCode": 1, "message": REPORT}))
    reason, message = ended(failed_job("DeadlineExceeded"), earlier)
    assert reason == "DeadlineExceeded"
    assert message is not None
    assert message.endswith("; an earlier attempt ended by BadCredentials: bucket lake: refused")
    short = REPORT.replace("BadCredentials", "OutOfMemory")
    starved = pod(**container(terminated={"reason": "Error", "exitCode": 1, "message": short}))
    assert ended(failed_job("DeadlineExceeded"), starved)[0] == "OutOfMemory", "the next run gets more memory by it"


def test_a_run_whose_pods_failed_without_a_word_says_what_the_job_says() -> None:
    assert ended(failed_job()) == ("JobFailed", "BackoffLimitExceeded: m")


def held_up(reason: str = "ImageNotPulled") -> JobObservation:
    problem = PodProblem(reason, "pod p: no such image")
    return JobObservation(active=True, succeeded=False, failed=False, problem=problem, is_settled=False)


def test_a_run_whose_pod_does_not_start_waits_and_says_why_and_is_looked_at_again() -> None:
    waiting = run("r", "Running", jobName="r")
    decision = decide_run(waiting, None, held_up(), NOW)
    assert (decision.status.phase, decision.status.reason) == (Phase.PENDING, "ImageNotPulled")
    assert decision.status.message == "pod p: no such image"
    said = {(c.type, c.status, c.reason) for c in decision.status.conditions}
    assert said == {("Succeeded", "Unknown", "ImageNotPulled"), ("Reconciling", "True", "ImageNotPulled")}
    assert decision.look_again_at == NOW + timedelta(seconds=15)
    [told] = run_happenings(waiting, decision.status)
    assert (told.reason, told.warning) == ("RunHeldUp", True)
    assert "ImageNotPulled: pod p: no such image" in told.message


def test_a_run_that_is_held_up_is_told_of_once_and_forgotten_when_it_runs() -> None:
    waiting = run("r", "Pending", jobName="r", reason="ImageNotPulled", message="pod p: no such image")
    again = decide_run(waiting, None, held_up(), NOW)
    assert run_happenings(waiting, again.status) == ()
    now_runs = decide_run(waiting, None, JobObservation(active=True, succeeded=False, failed=False), NOW)
    assert (now_runs.status.phase, now_runs.status.reason, now_runs.status.message) == (Phase.RUNNING, None, None)
    assert now_runs.look_again_at is None


def test_runs_out_of_memory_are_counted_back_to_the_last_that_was_not() -> None:
    def past(name: str, day: int, reason: str, phase: str = "Failed") -> MaintenanceRun:
        return run(name, phase, reason=reason, completionTime=f"2026-01-{day:02}T00:00:00Z")

    new, old = run("new", None), past("a", 1, "OutOfMemory")
    assert runs_out_of_memory(new, [new]) == 0
    assert runs_out_of_memory(new, [new, old]) == 1
    assert runs_out_of_memory(new, [new, past("c", 3, "OutOfMemory"), past("b", 2, "OutOfMemory"), old]) == 3
    assert runs_out_of_memory(new, [new, past("c", 3, "OutOfMemory"), past("b", 2, "Completed", "Succeeded"), old]) == 1
    assert runs_out_of_memory(new, [new, past("b", 2, "CommitConflict"), old]) == 0
