"""Runs maintenance jobs in a driver, a process of its own, as it is a pod of its own in a cluster: several at once, in
one Spark.

The driver is there from the first job on. It tells of each job's progress line by line in a file, and of its end in
another, so what has ended is known whatever becomes of the driver. Jobs that were under way when it died have no
report; where it had several, nobody knows by whose doing it died, and each is tried again alone. The same holds for
its Spark, after whose death another driver takes over. Its log is for when something goes wrong: warnings are passed
on, and the end of it is shown where it dies.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from tableformat.maintenance import driver_environment as variables
from tableformat.maintenance.job import SPARK_LOST, DriverOrder, JobReport, MaintenanceJob

SCRATCH_PREFIX = "tablewright-run-"
_POLL_SECONDS = 0.1
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


DriverEvent = DriverProgress | DriverEnded


@dataclass
class _Given:
    """A job that was given to a driver, or is to be."""

    job: MaintenanceJob
    alone: bool = False
    """Whether nothing else may run beside it, since it was under way when a driver or its Spark died."""
    report: Path = Path()
    progress: Path = Path()
    read: int = 0
    last: DriverProgress = field(default_factory=lambda: DriverProgress(0, 0, 0, 0))


class Drivers:
    """One driver at a time. `inherited` are file descriptors that it keeps open, such as a lock: who takes over from
    a caller that was killed then waits for the driver as well, and finds what it left `within` a folder of their own.
    """

    def __init__(self, *, inherited: Sequence[int] = (), within: Path | None = None) -> None:
        self._inherited = tuple(inherited)
        self._within = within
        self._waiting: deque[_Given] = deque()
        self._under_way: dict[str, _Given] = {}
        self._driver: _Driver | None = None

    def __enter__(self) -> "Drivers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if self._driver is not None:
            self._driver.end(at_once=error is not None)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._under_way)

    def start(self, job: MaintenanceJob) -> None:
        self._waiting.append(_Given(job))

    def look(self) -> Iterator[tuple[str, DriverEvent]]:
        """What there is to tell of each job, by its run's id, after a moment. Of one that tells nothing it is what it
        told last: whoever watches wants to see that it lives."""
        self._hand_out()
        if self._driver is None:
            return
        is_over = self._driver.wait(_POLL_SECONDS)
        for run_id, given in list(self._under_way.items()):
            yield from ((run_id, progress) for progress in _news(given))
            if given.report.exists():
                yield from self._ended(run_id, given)
        self._driver.pass_warnings_on()
        if is_over:
            yield from self._died(self._driver)

    def _hand_out(self) -> None:
        if self._driver is not None and self._driver.has_lost_spark and not self._under_way:
            self._driver.end(at_once=False)
            self._driver = None
        while self._waiting and self._has_room_for(self._waiting[0]):
            given = self._waiting.popleft()
            if self._driver is None:
                self._driver = _Driver(self._inherited, self._within)
            self._under_way[given.job.run_id] = given
            self._driver.give(given)

    def _has_room_for(self, given: _Given) -> bool:
        if not self._under_way:
            return True
        is_spent = self._driver is not None and self._driver.has_lost_spark
        return not (is_spent or given.alone or any(each.alone for each in self._under_way.values()))

    def _ended(self, run_id: str, given: _Given) -> Iterator[tuple[str, DriverEvent]]:
        del self._under_way[run_id]
        text = given.report.read_text()
        ended = DriverEnded(False, text, "the driver left a report that cannot be read")
        report = ended.parsed()
        is_lost = report.reason == SPARK_LOST
        if self._driver is not None and is_lost:
            self._driver.has_lost_spark = True
        if not (is_lost and self._tried_alone(given)):
            yield run_id, DriverEnded(report.succeeded, text, report.message)

    def _died(self, driver: "_Driver") -> Iterator[tuple[str, DriverEvent]]:
        failure = driver.failure()
        left, self._under_way = self._under_way, {}
        again = [run_id for run_id, given in left.items() if self._tried_alone(given)]
        driver.end(at_once=True)
        self._driver = None
        yield from ((run_id, DriverEnded(False, "", failure)) for run_id in left if run_id not in again)

    def _tried_alone(self, given: _Given) -> bool:
        """Whether it is tried again: others had the same driver, and it may have been by their doing."""
        if given.alone or self._driver is None or self._driver.jobs == 1:
            return False
        self._waiting.appendleft(_Given(given.job, alone=True))
        return True


def run_driver(job: MaintenanceJob) -> Iterator[DriverEvent]:
    """One job: progress as it comes, then the end."""
    with Drivers() as drivers:
        drivers.start(job)
        while drivers.is_busy:
            for _, event in drivers.look():
                yield event


class _Driver:
    def __init__(self, inherited: tuple[int, ...], within: Path | None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=within)
        self._log, self._told = Path(self._scratch.name) / "log", 0
        self.jobs = 0
        self.has_lost_spark = False
        environment = {
            **os.environ,
            variables.LOG_FORMAT: "text",  # in which warnings are looked for
            "PYTHONSAFEPATH": "1",  # or a queue.py in the folder where somebody stands is taken for Python's own
        }
        command = [sys.executable, "-m", "tablejobs", "--fleet"]
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stderr=errors, pass_fds=inherited
            )

    def give(self, given: _Given) -> None:
        self.jobs += 1
        given.report, given.progress = (
            Path(self._scratch.name) / f"{self.jobs}.{name}" for name in ("report", "progress")
        )
        order = DriverOrder(job=given.job, report=given.report, progress=given.progress)
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError):  # it is gone, which the next look at it finds
            self._process.stdin.write(order.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()

    def wait(self, seconds: float) -> bool:
        """Whether it is over."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False

    def pass_warnings_on(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._told)
            whole, end, _ = log.read().rpartition(b"\n")  # the last line may still be being written
            self._told += len(whole) + len(end)
        for line in whole.decode(errors="replace").splitlines():
            if " WARNING " in line:
                sys.stderr.write(line + "\n")

    def failure(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join([f"the driver ended with code {self._process.returncode}", *lines[-_LOG_LINES:]])

    def end(self, *, at_once: bool) -> None:
        """One that is told to end cleans up; one that does not is ended. Without further jobs it ends by itself."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if at_once:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self.pass_warnings_on()
            self._scratch.cleanup()


def _news(given: _Given) -> list[DriverProgress]:
    lines = given.progress.read_text().split("\n") if given.progress.exists() else [""]
    whole = lines[:-1]  # the last one may still be being written
    news = [DriverProgress(**json.loads(line)) for line in whole[given.read :]]
    given.read, given.last = len(whole), news[-1] if news else given.last
    return news or [given.last]
