"""What a driver leaves in its run's status: how far it is, and what was done, whatever ends it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tableformat.catalogs import SqlConfig
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, Progress
from tableformat.maintenance.job import CompactWork, JobReport, MaintenanceJob, RunReference
from tablejobs import __main__ as driver
from tablejobs import reporting
from tablejobs.reporting import HeldUp, Reporter

DONE = CompactionResult(snapshot_id=7, files_rewritten=640, files_added=64)


class Status:
    """A MaintenanceRun's, as far as the driver writes it."""

    written: list[Mapping[str, Any]]

    def __init__(self, _: RunReference) -> None:
        Status.written = []

    def write(self, _: Progress, __: HeldUp | None, done: Mapping[str, Any] | None = None) -> None:
        Status.written.append(done or {})


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MaintenanceJob:
    monkeypatch.setattr(reporting, "_StatusWriter", Status)
    monkeypatch.setenv("TABLEWRIGHT_TERMINATION_LOG", str(tmp_path / "termination-log"))
    return MaintenanceJob(
        run_id="r",
        catalog=SqlConfig(name="lake", uri="sqlite://", warehouse=f"file://{tmp_path}"),
        identifier=("sales", "payments"),
        work=CompactWork(options=CompactionOptions()),
        run=RunReference(namespace="sales", name="by-hand"),
    )


def test_the_result_is_in_the_status_and_in_the_termination_message(job: MaintenanceJob, tmp_path: Path) -> None:
    Reporter(job).finished(JobReport(succeeded=True, reason="Completed", message="done", compaction=DONE))
    [written] = Status.written
    assert (written["snapshot_id"], written["rewritten_files"]) == (7, 640)
    told = JobReport.model_validate_json((tmp_path / "termination-log").read_text())
    assert told.compaction == DONE


def test_progress_is_written_every_few_seconds_and_seldom_where_writing_takes_long(job: MaintenanceJob) -> None:
    now, takes = 1000.0, 0.0

    class Slow(Status):
        def write(self, *_: Any) -> None:
            nonlocal now
            now += takes
            Status.written.append({"at": now})

    reporter = Reporter(job, clock=lambda: now)
    reporter._status = cast("Any", Slow(RunReference(namespace="sales", name="by-hand")))

    def tell_each_second(seconds: int) -> int:
        nonlocal now
        Status.written.clear()
        for _ in range(seconds):
            reporter.progress(Progress(1, 9, 0, 0, 0, 0))
            now += 1
        return len(Status.written)

    assert tell_each_second(30) == 10
    takes = 40.0  # of an API server that nobody reaches
    assert tell_each_second(900) == 3
    takes = 0.0
    tell_each_second(400)
    assert tell_each_second(30) == 10, "as soon as it answers"


@pytest.fixture
def ended_by(job: MaintenanceJob, monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], JobReport]:
    """The report of a run that is ended so when much of it is committed."""

    def run(end: BaseException) -> JobReport:
        def ends(*_: object, **__: object) -> JobReport:
            raise end

        monkeypatch.setattr(driver, "carry_out", ends)
        monkeypatch.setattr(driver, "done_so_far", lambda *_: DONE)
        monkeypatch.setattr("tablejobs.attempt.Attempt.of", lambda *_, **__: None)
        return driver._run(job, Reporter(job), None)[0]

    return run


def test_a_run_that_fails_tells_what_it_has_committed(ended_by: Callable[[BaseException], JobReport]) -> None:
    """Failures that did nothing stop the maintenance of a table after five in a row, and others do not."""
    report = ended_by(ValueError("x"))
    assert (report.reason, report.compaction) == ("InternalError", DONE)


def test_a_run_that_is_stopped_tells_it_where_it_outlives_the_pod(
    ended_by: Callable[[BaseException], JobReport],
) -> None:
    """At a Job's deadline Kubernetes deletes its pod, and with it the termination message."""
    with pytest.raises(SystemExit):
        ended_by(SystemExit(143))
    assert [written["rewritten_files"] for written in Status.written] == [640]
