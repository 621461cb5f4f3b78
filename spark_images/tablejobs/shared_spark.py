"""One Spark for several runs at once: it starts with the first that needs it, and its owner stops it.

In local mode Spark has as many slots as tasks may run at once, whichever runs they are of. So what one run was sized
for holds for the sum of all: a run whose tasks need more memory each than the slots were cut for waits until nobody
uses the session, and gets one with fewer slots, which the others share from then on.

A JVM that dies takes the process's part of PySpark with it: no run gets a session from then on, and whoever started the
process does better to start another.
"""

import contextlib
import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tableformat.errors import TransientError
from tableformat.maintenance.job import SPARK_LOST
from tableformat.maintenance.sizing import JobSize
from tablejobs.session import start_session, stop_session

logger = logging.getLogger("tablejobs")

_SECONDS_TO_BE_SEEN = 3  # between a connection that breaks and the end of the process that broke it
_SECONDS_BETWEEN_LOOKS = 0.1  # so that a run that is told to stop does


class SparkLost(TransientError):
    """Spark's JVM ended, and its runs with it."""

    reason = SPARK_LOST

    def __init__(self) -> None:
        super().__init__(str(SparkLost.__doc__).rstrip("."))


@dataclass(frozen=True)
class Lease:
    session: SparkSession
    size: JobSize
    """The run's own, with the slots that there are."""


class SharedSpark:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="spark")  # is never told to stop halfway
        self._change: Future[None] | None = None
        self._cleanup = contextlib.ExitStack()
        self._session: SparkSession | None = None
        self._slots = 0
        self._wanted: list[JobSize] = []
        self.users = 0

    @contextlib.contextmanager
    def lease(self, size: JobSize, run_id: str) -> Iterator[Lease]:
        session = self._join(size)
        try:
            # A pool for each run, or a large one that came first would have every slot until its last task.
            session.sparkContext.setLocalProperty("spark.scheduler.pool", run_id)
            yield Lease(session, replace(size, tasks_at_once=self._slots))
        finally:
            with self._changed:
                self.users -= 1
                self._changed.notify_all()

    def is_lost(self, lease: Lease) -> bool:
        """Whether the lease's JVM is gone. Asked by a run that failed: what it was told last may be the first sign."""
        until = time.monotonic() + _SECONDS_TO_BE_SEEN
        while _is_alive(lease.session):
            if time.monotonic() > until:
                return False
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return True

    def cancel(self) -> None:
        """Ends the tasks of all runs; the runs themselves find out by an error."""
        with contextlib.suppress(Exception):  # it may be gone, or not be there yet
            if self._session is not None:
                self._session.sparkContext.cancelAllJobs()

    def close(self) -> None:
        self._keeper.shutdown()
        self._cleanup.close()

    def _join(self, size: JobSize) -> SparkSession:
        with self._changed:
            self._wanted.append(size)
            try:
                while not self._serves_all_who_wait():
                    self._see_to_a_session()
                    self._changed.wait(_SECONDS_BETWEEN_LOOKS)
                self.users += 1
                assert self._session is not None  # noqa: S101
                return self._session
            finally:
                self._wanted.remove(size)

    def _serves_all_who_wait(self) -> bool:
        """Not only the one who asks: a run that waits for fewer slots would wait for ever if others kept coming."""
        if self._session is None or self._change is not None:
            return False
        if not _is_alive(self._session):
            raise SparkLost
        return all(self._slots <= size.tasks_at_once for size in self._wanted)

    def _see_to_a_session(self) -> None:
        """Raises what kept the last one from starting."""
        if self._change is not None:
            if self._change.done():
                change, self._change = self._change, None
                change.result()
        elif self.users == 0:
            fewest = min(self._wanted, key=lambda size: size.tasks_at_once)
            self._change = self._keeper.submit(self._start, fewest)

    def _start(self, size: JobSize) -> None:
        self._cleanup.close()
        self._session = None
        scratch = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-spark-"))
        logger.info("%s", size)
        session = start_session(Path(scratch), size)
        self._cleanup.callback(stop_session, session)
        self._session, self._slots = session, size.tasks_at_once
        logger.info("Spark is ready")


def _is_alive(session: SparkSession) -> bool:
    gateway = session.sparkContext._gateway
    return gateway is not None and gateway.proc.poll() is None
