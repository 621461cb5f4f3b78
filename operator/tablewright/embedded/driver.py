"""Runs a maintenance job's driver as a process of its own, as it is a pod of its own in a cluster.

The driver tells of its progress line by line in a file, and of its end in another. Its log is for when something goes
wrong: warnings are passed on, and the rest is shown where it ends without a report.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tableformat.maintenance import driver_environment as variables
from tableformat.maintenance.job import JobReport, MaintenanceJob

SCRATCH_PREFIX = "tablewright-run-"
_POLL_SECONDS = 0.2
# For a driver that was told to stop: it waits for a Spark that just starts, and removes what it wrote and nobody refers
# to. Killed, it would leave all that; who cannot wait presses Ctrl-C again.
_SECONDS_TO_END = 120
_LOG_LINES = 15


@dataclass(frozen=True)
class DriverProgress:
    tasks: int
    tasks_done: int
    bytes: int
    bytes_done: int


@dataclass(frozen=True)
class DriverEnded:
    succeeded: bool
    report: str
    """The driver's own words, as JSON; empty if it died without any."""
    failure: str

    def parsed(self) -> JobReport:
        try:
            return JobReport.model_validate_json(self.report)
        except ValidationError:
            return JobReport(succeeded=False, reason="DriverFailed", message=self.failure)


def run_driver(
    job: MaintenanceJob, *, inherited: Sequence[int] = (), within: Path | None = None
) -> Iterator[DriverProgress | DriverEnded]:
    """Progress as it comes, then the end. `inherited` are file descriptors that the driver keeps open, such as a lock:
    whoever takes over from a caller that was killed then waits for the driver as well, and finds what it left `within`
    a folder of their own."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=within) as scratch:
        report, progress, log = (Path(scratch) / name for name in ("report.json", "progress.jsonl", "log"))
        environment = {
            **os.environ,
            variables.JOB: job.model_dump_json(),
            variables.TERMINATION_LOG: str(report),
            variables.PROGRESS_LOG: str(progress),
            variables.LOG_FORMAT: "text",  # in which warnings are looked for
            "PYTHONSAFEPATH": "1",  # or a queue.py in the folder where somebody stands is taken for Python's own
        }
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tablejobs"], env=environment, stderr=errors, pass_fds=tuple(inherited)
            )
        try:
            yield from _followed(process, progress)
        except BaseException:
            _stop(process)
            raise
        text = report.read_text() if report.exists() else ""
        lines = log.read_text(errors="replace").splitlines()
        for line in lines:
            if " WARNING " in line:
                sys.stderr.write(line + "\n")
        failure = f"the driver ended with code {process.returncode}"
        if process.returncode and not text:
            failure = "\n".join([failure, *lines[-_LOG_LINES:]])
        yield DriverEnded(process.returncode == 0, text, failure)


def _followed(process: "subprocess.Popen[bytes]", progress: Path) -> Iterator[DriverProgress]:
    """What the driver tells, and again at every look what it told last: whoever watches wants to see that it lives."""
    read, last = 0, DriverProgress(0, 0, 0, 0)
    ended = False
    while not ended:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
            ended = True
        lines = progress.read_text().split("\n") if progress.exists() else [""]
        whole = lines[:-1]  # the last one may still be being written
        for line in whole[read:]:
            last = DriverProgress(**json.loads(line))
            yield last
        if len(whole) == read:
            yield last
        read = len(whole)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """A driver that is told to end cleans up; one that does not is ended."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
