"""Runs the library's tasks as Spark tasks: Spark distributes, retries and places them; the kernel does the work.

The session starts with the first tasks, so a run that finds nothing to do costs no JVM. Results come back one by one
as tasks end, through an accumulator that is updated in an action: Spark applies such an update once for each task that
succeeded, however often the task was tried.

A sort that is large for one task is divided into ranges: its rows go through Spark's shuffle as Arrow blobs, and so do
the counts of what was read. Spark takes the output of one attempt at each part, so nothing is counted twice.
"""

import contextlib
import logging
import queue
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark import AccumulatorParam, InheritableThread, SparkContext
from pyspark.sql import SparkSession

from tableformat.engine import RewriteResult, RewriteTask
from tableformat.engine.division import (
    Division,
    divide,
    find_ranges,
    join,
    read_into_ranges,
    sample,
    write_range,
)
from tableformat.errors import TransientError
from tableformat.maintenance import Outcome, Outcomes, attempt
from tableformat.maintenance.sizing import JobSize, Workload
from tablejobs.container import kills_for_memory
from tablejobs.pods import DriverPod
from tablejobs.session import start_session, stop_session

logger = logging.getLogger("tablejobs")

_LARGE_TASK_FILES = 8
_ANSWER_SECONDS = 20


class OutOfMemory(TransientError):
    """A process of an executor was killed for want of memory; the next attempt gives each task more of it."""


class SessionExecutor:
    """Runs tasks in a session that is there, and stays its owner's."""

    def __init__(self, session: SparkSession, size: JobSize | None = None) -> None:
        """`size` is the session's, where it has one: of executors on their way Spark itself knows nothing yet."""
        self._context = session.sparkContext
        parallel = self._context.defaultParallelism
        self._cores = parallel if size is None else size.cores * max(1, size.executors)
        self._cores_in_one_place = parallel if size is None else size.cores
        self._cores_of_a_task = 1 if size is None else size.cores_of_a_task

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        divisions = {task.task_id: division for task in tasks if (division := self._division(task, len(tasks)))}
        if whole := [task for task in tasks if task.task_id not in divisions]:
            # Cores that would be idle for want of tasks, or of memory for more at once, work inside them.
            threads = min(max(self._cores_of_a_task, self._cores // len(whole)), self._cores_in_one_place)
            yield from _run_whole(self._context, whole, threads=threads)
        failure: Exception | None = None
        for division in divisions.values():
            try:
                result = _run_divided(self._context, division)
            except Exception as error:  # whose type Spark has not kept: the others may fare better
                failure = failure or error
            else:
                yield result
        if failure is not None:
            raise failure

    def _division(self, task: RewriteTask, tasks: int) -> Division | None:
        """A task is divided where cores would be idle for want of tasks, or if it is very large."""
        if tasks >= self._cores and task.source_bytes < _LARGE_TASK_FILES * task.target_file_bytes:
            return None
        return divide(task, cores=self._cores)


class SparkExecutor:
    """Runs tasks in a Spark of the size that the first of them ask for: a later plan of the run is what is left."""

    def __init__(self, sizing: Callable[[Workload], JobSize], *, driver: DriverPod | None = None) -> None:
        """`driver` is this process's pod, where executors can be pods too."""
        self._sizing = sizing
        self._driver = driver
        self._cleanup = contextlib.ExitStack()
        self._session: SparkSession | None = None
        self.size: JobSize | None = None

    def __enter__(self) -> "SparkExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        if not tasks:
            return
        session = self._start(Workload.of(tasks))
        try:
            yield from SessionExecutor(session, self.size).run(tasks)
        except Exception as error:
            if self.size is not None and _killed_for_memory(session.sparkContext, self.size.executors):
                raise OutOfMemory(str(OutOfMemory.__doc__)) from error
            raise

    def context(self, work: Workload) -> SparkContext:
        """For other work that Spark spreads."""
        return self._start(work).sparkContext

    def _start(self, work: Workload) -> SparkSession:
        if self._session is None:
            self.size = self._sizing(work)
            logger.info("%s", self.size)
            scratch = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-spark-"))
            self._session = start_session(Path(scratch), self.size, self._driver if self.size.executors else None)
            self._cleanup.callback(stop_session, self._session)
            logger.info("Spark is ready")
        return self._session


def _killed_for_memory(context: SparkContext, executors: int) -> bool:
    """Asked of the executors that are still there: the kernel may kill a Python process and leave its container.

    Of those that went with their container, the pods tell. Without any left nobody answers, so the question has an end.
    """
    if not executors:
        return False
    kills: queue.SimpleQueue[int] = queue.SimpleQueue()

    def ask() -> None:
        with contextlib.suppress(Exception):  # one that fails is no answer
            parts = context.parallelize(range(4 * executors), 4 * executors)
            kills.put(max(parts.map(lambda _: kills_for_memory()).collect()))

    InheritableThread(target=ask, daemon=True).start()
    with contextlib.suppress(queue.Empty):
        return kills.get(timeout=_ANSWER_SECONDS) > 0
    return False


def _run_divided(context: SparkContext, division: Division) -> RewriteResult:
    task = division.task
    reads = context.parallelize(division.reads, len(division.reads))
    ranges = find_ranges(division, reads.map(lambda read: sample(division, read)).collect())
    blobs = reads.flatMap(lambda read: read_into_ranges(read, ranges, threads=1))
    parts = blobs.partitionBy(ranges.count, lambda number: number).mapPartitionsWithIndex(
        lambda number, pairs: [write_range(task, ranges, number, (blob for _, blob in pairs), threads=1)]
    )
    return join(task, parts.collect())


class _Outcomes(AccumulatorParam[list[Outcome]]):
    def zero(self, value: list[Outcome]) -> list[Outcome]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Outcome], value2: list[Outcome]) -> list[Outcome]:  # noqa: N802
        value1.extend(value2)
        return value1


def _run_whole(context: SparkContext, tasks: Sequence[RewriteTask], *, threads: int) -> Outcomes:
    outcomes = context.accumulator([], _Outcomes())
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    group = str(uuid.uuid4())

    def work() -> None:
        try:
            context.setJobGroup(group, "tasks of a plan", interruptOnCancel=True)
            context.parallelize(tasks, len(tasks)).foreach(lambda task: outcomes.add([attempt(task, threads=threads)]))
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    thread = InheritableThread(target=work)
    thread.start()
    yielded, done, failure = 0, False, None
    try:
        while not done:
            with contextlib.suppress(queue.Empty):
                failure = ended.get(timeout=0.1)
                done = True
            for outcome in outcomes.value[yielded:]:  # also of a job that failed: what it did is done
                yielded += 1
                yield outcome
        if failure is not None:
            raise failure
    finally:
        if not done:  # nobody wants the rest
            with contextlib.suppress(Exception):  # Spark may be gone itself
                context.cancelJobGroup(group)
        thread.join(_ANSWER_SECONDS)
