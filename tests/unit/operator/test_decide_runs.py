"""What is decided about a run."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tablewright.api.run import Cause, MaintenanceRun, Phase, Progress, RunFigures, RunPlan, RunResult
from tablewright.decide.happenings import run_happenings
from tablewright.decide.policy import effective_policy
from tablewright.decide.runs import Waiting, decide_run, waits_for, why_it_waits
from tablewright.decide.state import DriverReport, JobObservation
from tests.unit.operator.values import NOW, managed_table, run


def job(
    *, active: bool = False, succeeded: bool = False, failed: bool = False, report: DriverReport | None = None
) -> JobObservation:
    return JobObservation(
        active=active, succeeded=succeeded, failed=failed, failure="DeadlineExceeded: x", report=report
    )


def why(
    waiting: MaintenanceRun, *, ahead: MaintenanceRun | None = None, broken: Sequence[str] = (), **spec: Any
) -> Waiting | None:
    return why_it_waits(waiting, ahead, effective_policy(managed_table(**spec), []), broken, NOW)


def first_of(waiting: MaintenanceRun, runs: Sequence[MaintenanceRun], **spec: Any) -> MaintenanceRun | None:
    return waits_for(waiting, runs, effective_policy(managed_table(**spec), []), NOW)


def test_a_new_run_gets_its_job() -> None:
    decision = decide_run(run("r", None), None, None, NOW)
    assert decision.create_job is not None
    assert (decision.status.phase, decision.status.job_name) == (Phase.PENDING, "r")


def test_a_run_whose_table_is_gone_fails_with_the_reason() -> None:
    decision = decide_run(run("r", None), "there is no ManagedTable events", None, NOW)
    assert decision.create_job is None
    assert (decision.status.phase, decision.status.reason) == (Phase.FAILED, "Refused")
    assert decision.status.message == "there is no ManagedTable events"


def test_a_run_whose_job_was_deleted_fails() -> None:
    decision = decide_run(run("r", "Running", jobName="r"), None, None, NOW)
    assert (decision.status.phase, decision.status.reason) == (Phase.FAILED, "JobDeleted")


def test_a_job_that_someone_created_already_is_taken_up() -> None:
    decision = decide_run(run("r", None), None, job(active=True), NOW)
    assert decision.create_job is None
    assert (decision.status.phase, decision.status.start_time) == (Phase.RUNNING, NOW)


def test_what_holds_a_driver_up_is_the_runs_reason_until_it_goes_on() -> None:
    quota = {"tasks": 3, "reason": "ExecutorsNotCreated", "message": "exceeded quota"}
    waiting = run("r", "Running", jobName="r", progress=quota)
    status = decide_run(waiting, None, job(active=True), NOW).status
    assert (status.phase, status.reason, status.message) == (Phase.RUNNING, "ExecutorsNotCreated", "exceeded quota")
    assert {(each.reason, each.message) for each in status.conditions} == {("ExecutorsNotCreated", "exceeded quota")}
    assert [each.reason for each in run_happenings(waiting, status)] == ["RunHeldUp"]

    going_on = waiting.model_copy(update={"status": status.model_copy(update={"progress": Progress(tasks=3)})})
    after = decide_run(going_on, None, job(active=True), NOW).status
    assert (after.phase, after.reason, after.message) == (Phase.RUNNING, None, None)
    assert run_happenings(going_on, after) == ()


def test_the_result_comes_from_the_drivers_report() -> None:
    report = DriverReport(True, "Completed", "rewrote 200 files into 1", RunResult(snapshot_id=1, rewritten_files=200))
    decision = decide_run(run("r", "Running", jobName="r"), None, job(succeeded=True, report=report), NOW)
    assert decision.status.phase == Phase.SUCCEEDED
    assert decision.status.result == report.result
    assert decision.status.completion_time == NOW


@pytest.mark.parametrize(
    ("report", "reason"),
    [(DriverReport(False, "UnsupportedTable", "has deletes", None), "UnsupportedTable"), (None, "JobFailed")],
)
def test_a_failed_job_names_its_cause(report: DriverReport | None, reason: str) -> None:
    decision = decide_run(run("r", "Running", jobName="r"), None, job(failed=True, report=report), NOW)
    assert (decision.status.phase, decision.status.reason) == (Phase.FAILED, reason)
    assert decision.status.message


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_run_stays_as_it_is(phase: str) -> None:
    finished = run("r", phase, jobName="r")
    assert decide_run(finished, "the table is gone", None, NOW).status == finished.status


def test_a_run_waits_for_the_one_of_the_same_table_that_is_under_way() -> None:
    waiting, running = run("a-second", None), run("z-first", "Running", jobName="z-first")
    ahead = first_of(waiting, [waiting, running])
    assert ahead is running
    decision = decide_run(waiting, None, None, NOW, waiting=why(waiting, ahead=ahead))
    assert decision.create_job is None
    assert (decision.status.phase, decision.status.message) == (Phase.PENDING, "waits for run z-first")
    assert first_of(running, [waiting, running]) is None


def test_of_two_new_runs_exactly_one_goes_first() -> None:
    one, two = run("one", None), run("two", None)
    assert [first_of(one, [one, two]), first_of(two, [one, two])] == [None, one]


def test_a_run_that_was_cancelled_while_it_waited_holds_nobody_up_and_one_with_a_job_does() -> None:
    waited, worked = run("old", None, age=timedelta(hours=2)), run("old", "Running", jobName="old")
    for old, holds_up in ((waited, False), (worked, True)):
        going = old.metadata.model_copy(update={"deletion_timestamp": NOW})
        cancelled = old.model_copy(update={"metadata": going})
        assert (first_of(run("new", None), [cancelled]) is not None) == holds_up


def test_a_finished_run_holds_nobody_up() -> None:
    assert first_of(run("next", None), [run("done", "Succeeded", jobName="done")]) is None


OUTSIDE = [{"days": ["Sun"], "start": "22:00", "duration": "8h"}]  # NOW is a Sunday, at noon


@pytest.mark.parametrize("cause", [Cause.SCHEDULE, Cause.TRIGGER])
def test_what_the_operator_started_waits_for_windows_and_while_maintenance_is_suspended(cause: Cause) -> None:
    automatic = run("r", None, cause=cause)
    outside = why(automatic, windows=OUTSIDE)
    assert outside is not None
    assert outside.until == NOW + timedelta(hours=10)
    decision = decide_run(automatic, None, None, NOW, waiting=outside)
    assert (decision.create_job, decision.look_again_at) == (None, outside.until)
    suspended = why(automatic, suspend=True)
    assert suspended is not None
    assert "suspended by table" in suspended.message
    assert why(automatic) is None


@pytest.mark.parametrize("cause", [Cause.ANNOTATION, Cause.MANUAL])
def test_a_person_who_asks_for_a_run_means_now(cause: Cause) -> None:
    assert why(run("r", None, cause=cause), windows=OUTSIDE, suspend=True) is None


@pytest.mark.parametrize("spec", [{"windows": OUTSIDE}, {"suspend": True}])
def test_a_person_does_not_wait_for_a_run_that_waits_for_a_window_or_is_suspended(spec: dict[str, Any]) -> None:
    automatic = run("automatic", "Pending", cause=Cause.SCHEDULE)
    asked_for = run("by-hand", None, age=timedelta(minutes=1))
    assert first_of(asked_for, [automatic, asked_for], **spec) is None
    assert first_of(asked_for, [automatic, asked_for]) is automatic, "once it may start, it goes first"
    under_way = run("automatic", "Running", cause=Cause.SCHEDULE, jobName="automatic")
    assert first_of(asked_for, [under_way, asked_for], **spec) is under_way
    begun = run("by-hand", "Pending", jobName="by-hand")
    assert first_of(automatic, [automatic, begun], **spec) is begun, "one a table at a time"


def test_nobodys_run_starts_while_a_policy_cannot_be_read() -> None:
    found = why(run("r", None), broken=["TablePolicy p: bad"])
    assert found is not None
    assert "TablePolicy p: bad" in found.message


@pytest.mark.parametrize("cause", list(Cause))
def test_a_run_says_why_it_was_started(cause: Cause) -> None:
    assert decide_run(run("r", None, cause=cause), None, None, NOW).status.cause == cause


def test_plan_and_figures_come_from_the_drivers_report() -> None:
    told = {"plan": RunPlan(files=3), "before": RunFigures(data_files=9), "after": RunFigures(data_files=1)}
    report = DriverReport(True, "Completed", "done", None, **told)  # type: ignore[arg-type]
    status = decide_run(run("r", "Running", jobName="r"), None, job(succeeded=True, report=report), NOW).status
    assert {"plan": status.plan, "before": status.before, "after": status.after} == told


def test_a_failed_run_keeps_what_it_got_done() -> None:
    done = RunResult(snapshot_id=4, rewritten_files=10)
    report = DriverReport(False, "CommitConflict", "lost", done)
    status = decide_run(run("r", "Running", jobName="r"), None, job(failed=True, report=report), NOW).status
    assert (status.phase, status.result) == (Phase.FAILED, done)


@pytest.mark.parametrize(
    ("observed", "outcome"),
    [
        (None, "Unknown/Waiting"),
        (job(active=True), "Unknown/Running"),
        (job(succeeded=True), "True/Completed"),
        (job(failed=True), "False/JobFailed"),
    ],
)
def test_a_run_can_be_waited_for_by_its_condition(observed: JobObservation | None, outcome: str) -> None:
    found = decide_run(run("r", None), None, observed, NOW).status.conditions[0]
    assert (found.type, f"{found.status}/{found.reason}") == ("Succeeded", outcome)
