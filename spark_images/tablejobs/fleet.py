"""A driver for many runs, side by side: it reads a DriverOrder a line from standard input, and carries each out in a
thread of its own. They share one Spark.

When its input ends it ends what it has begun, and then itself: whoever gave the orders may have been killed. Told to
stop, it stops all runs, which clean up.
"""

import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tableformat.maintenance.job import DriverOrder, JobReport, MaintenanceJob
from tableformat.maintenance.sizing import JAVA_BYTES, LEAST_TASK_BYTES
from tablejobs.container import memory_limit, processors
from tablejobs.logs import about, set_up_logs
from tablejobs.reporting import Reporter
from tablejobs.shared_spark import SharedSpark

logger = logging.getLogger("tablejobs")

_SECONDS_BETWEEN_LOOKS = 0.1

Run = Callable[[MaintenanceJob, Reporter, SharedSpark], JobReport]


def serve(run: Run) -> int:
    set_up_logs()
    with _Fleet(run) as fleet:
        for line in sys.stdin:
            fleet.start(DriverOrder.model_validate_json(line))
    return 0


class _Fleet:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._spark = SharedSpark()
        self._places = threading.Semaphore(runs_at_once(processors(), memory_limit()))
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "_Fleet":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        try:
            if error is None:
                self._wait()
        except BaseException:  # told to stop meanwhile
            error = SystemExit()
            raise
        finally:
            if error is not None:
                self._stop()
            self._spark.close()

    def start(self, order: DriverOrder) -> None:
        thread = threading.Thread(target=self._carry_out, args=(order,), name=order.job.run_id)
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

    def _carry_out(self, order: DriverOrder) -> None:
        job = order.job
        with about(job), _within(self._places):
            try:
                reporter = Reporter(job, report=order.report, progress=order.progress)
                logger.info("the run begins", extra={"operation": job.work.operation})
                reporter.finished(self._run(job, reporter, self._spark))
            except Exception:  # nobody would ever hear of the run: better that all hear of the driver's end
                logger.exception("a run could not be reported")
                os.kill(os.getpid(), signal.SIGTERM)

    def _wait(self) -> None:
        while any(thread.is_alive() for thread in self._threads):
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _stop(self) -> None:
        """Each thread is told once, so that its clean-up comes to its end; what waits for Spark is told by Spark."""
        for thread in self._threads:
            if thread.is_alive() and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        while any(thread.is_alive() for thread in self._threads):
            self._spark.cancel()  # again: work may have begun meanwhile
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def runs_at_once(cores: int, memory_bytes: int | None) -> int:
    """Runs that need no Spark take memory, too: as much as a task, at the most."""
    if memory_bytes is None:
        return cores
    return max(1, min(cores, (memory_bytes - JAVA_BYTES) // LEAST_TASK_BYTES))


@contextlib.contextmanager
def _within(places: threading.Semaphore) -> Iterator[None]:
    while not places.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
        pass
    try:
        yield
    finally:
        places.release()
