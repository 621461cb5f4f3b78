"""What is decided about a run."""

import pytest

from tablewright.api.run import Phase, RunResult
from tablewright.decide.runs import decide_run, waits_for
from tablewright.decide.state import DriverReport, JobObservation
from tests.unit.operator.values import NOW, run


def job(
    *, active: bool = False, succeeded: bool = False, failed: bool = False, report: DriverReport | None = None
) -> JobObservation:
    return JobObservation(
        active=active, succeeded=succeeded, failed=failed, failure="DeadlineExceeded: x", report=report
    )


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
    ahead = waits_for(waiting, [waiting, running])
    assert ahead is running
    decision = decide_run(waiting, None, None, NOW, ahead=ahead)
    assert decision.create_job is None
    assert (decision.status.phase, decision.status.message) == (Phase.PENDING, "waits for run z-first")
    assert waits_for(running, [waiting, running]) is None


def test_of_two_new_runs_exactly_one_goes_first() -> None:
    one, two = run("one", None), run("two", None)
    assert [waits_for(one, [one, two]), waits_for(two, [one, two])] == [None, one]


def test_a_finished_run_holds_nobody_up() -> None:
    assert waits_for(run("next", None), [run("done", "Succeeded", jobName="done")]) is None
