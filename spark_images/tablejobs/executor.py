"""Runs the library's tasks as Spark tasks: Spark distributes, retries and places them; the kernel does the work.

The session starts with the first tasks, so a run that finds nothing to do costs no JVM. Results come back one by one
as tasks end, through an accumulator that is updated in an action: Spark applies such an update once for each task that
succeeded, however often the task was tried.

A sort that is large for one task is divided into ranges: its rows go through Spark's shuffle as Arrow blobs, and so do
the counts of what was read. Spark takes the output of one attempt at each part, so nothing is counted twice. Some
ranges are looked at first, and then as many neighbours are written by one task as make a file.

An error that Spark shall not try again comes back as a value: raised, it would end the other tasks, and lose its type.
A process that is killed raises nothing, so the try after the last one does nothing but say that the task's time is up.
"""

import contextlib
import logging
import queue
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from pyspark import RDD, AccumulatorParam, InheritableThread, SparkContext, TaskContext
from pyspark.sql import SparkSession

from tableformat.engine import RewriteResult, RewriteTask, discard
from tableformat.engine.division import (
    Counted,
    Division,
    Probe,
    Ranges,
    WrittenRange,
    divide,
    find_ranges,
    join,
    joined_parts,
    part_of,
    probe_range,
    probed_ranges,
    ranges_of,
    read_into_ranges,
    sample,
    write_range,
)
from tableformat.errors import PermanentError, TransientError
from tableformat.maintenance import FailedTask, Outcome, Outcomes, attempt
from tableformat.maintenance.sizing import JobSize, Workload
from tablejobs.configuration import ATTEMPTS
from tablejobs.container import kills_for_memory
from tablejobs.executor_watch import PATIENCE, ExecutorWatch, Patience, Watching
from tablejobs.failures import OutOfMemory
from tablejobs.pods import DriverPod, PodsOfJob
from tablejobs.reporting import HeldUp
from tablejobs.session import start_session, stop_session
from tablejobs.shared_spark import Lease, SharedSpark, SparkLost
from tablejobs.spark_errors import TaskFailed, spark_errors

logger = logging.getLogger("tablejobs")

_LARGE_TASK_FILES = 8
_ANSWER_SECONDS = 20
_PASSING = (TransientError, OSError, MemoryError)

Part = TypeVar("Part")
Numbered = tuple[int, "bytes | Counted | _PartFailed"]


class SessionExecutor:
    """Runs tasks in a session that is there, and stays its owner's."""

    def __init__(self, session: SparkSession, size: JobSize | None = None, *, shared_by: int = 1) -> None:
        """`size` is the session's, where it has one: of executors on their way Spark itself knows nothing yet.
        `shared_by` is how many runs work in it at the same time."""
        self._shared_by = shared_by
        self._context = session.sparkContext
        parallel = self._context.defaultParallelism
        self._cores = parallel if size is None else size.cores * max(1, size.executors)
        self._cores_in_one_place = parallel if size is None else size.cores
        self._cores_of_a_task = 1 if size is None else size.cores_of_a_task

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        divisions = {task.task_id: division for task in tasks if (division := self._division(task, len(tasks)))}
        if whole := [task for task in tasks if task.task_id not in divisions]:
            # Cores that would be idle for want of tasks, or of memory for more at once, work inside them.
            spare = self._cores // (len(whole) * self._shared_by)
            threads = min(max(self._cores_of_a_task, spare), self._cores_in_one_place)
            with spark_errors():
                yield from _run_whole(self._context, whole, threads=threads)
        failure: TaskFailed | None = None
        for division in divisions.values():
            try:
                outcome = _run_divided(self._context, division)
            except TaskFailed as error:  # the others may fare better
                failure = failure or error
            else:
                yield outcome
        if failure is not None:
            raise failure

    def _division(self, task: RewriteTask, tasks: int) -> Division | None:
        """A task is divided where cores would be idle for want of tasks, or if it is very large."""
        if tasks >= self._cores and task.source_bytes < _LARGE_TASK_FILES * task.target_file_bytes:
            return None
        return divide(task, cores=self._cores)


class Sizing(Protocol):
    def __call__(self, work: Workload, *, alone: bool = False) -> JobSize: ...


@dataclass(frozen=True)
class SharedBy:
    """A Spark that others use, too, and the run that uses it here."""

    spark: SharedSpark
    run_id: str


class SparkExecutor:
    """Runs tasks in a Spark of the size that the first of them ask for: a later plan of the run is what is left.

    Where no executor comes for long, what is left is done in the driver alone: it takes longer, and it is done.
    """

    def __init__(
        self,
        sizing: Sizing,
        driver: DriverPod | None = None,
        *,
        tell: Callable[[HeldUp | None], None] = lambda _: None,
        patience: Patience = PATIENCE,
        shared: SharedBy | None = None,
    ) -> None:
        """`driver` is this process's pod, where executors can be pods too; `tell` is told what keeps them. Without a
        driver there are none, whatever the limits allow, and this process is all that there is to be sized."""
        self._sizing = sizing
        self._driver = driver
        self._tell = tell
        self._patience = patience
        self._shared = shared
        self._lease: Lease | None = None
        self._alone: HeldUp | None = None
        self._cleanup = contextlib.ExitStack()
        self._session: SparkSession | None = None
        self.size: JobSize | None = None

    def __enter__(self) -> "SparkExecutor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._cleanup:
            if isinstance(error, Exception) and self._shared is not None and self._lease is not None:
                if self._shared.spark.is_lost(self._lease):
                    raise SparkLost from error
            elif isinstance(error, TaskFailed) and self._was_killed_for_memory():
                raise OutOfMemory(str(OutOfMemory.__doc__)) from error

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        if not tasks:
            return
        session = self._start(Workload.of(tasks))
        left = {task.task_id: task for task in tasks}
        with self._watched(session.sparkContext) as watch:
            try:
                users = 1 if self._shared is None else self._shared.spark.users
                within = SessionExecutor(session, self.size, shared_by=max(1, users))
                with contextlib.closing(within.run(tasks)) as outcomes:
                    for outcome in outcomes:
                        left.pop(outcome.task_id)
                        yield outcome
            except Exception:
                if watch is None or watch.gave_up is None:
                    raise
                self._alone = watch.gave_up
            else:
                return
        self._go_on_alone()
        yield from self.run(list(left.values()))

    def context(self, work: Workload) -> SparkContext:
        """For other work that Spark spreads."""
        return self._start(work).sparkContext

    def _start(self, work: Workload) -> SparkSession:
        if self._session is None:
            self.size = self._size(work)
            if self._shared is not None:
                self._lease = self._cleanup.enter_context(self._shared.spark.lease(self.size, self._shared.run_id))
                self._session, self.size = self._lease.session, self._lease.size
                return self._session
            logger.info("%s", self.size)
            scratch = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-spark-"))
            self._session = start_session(Path(scratch), self.size, self._driver if self.size.executors else None)
            self._cleanup.callback(stop_session, self._session)
            logger.info("Spark is ready")
        return self._session

    def _size(self, work: Workload) -> JobSize:
        if self._alone is None:
            return self._sizing(work, alone=self._driver is None)
        size = self._sizing(work, alone=True)
        notes = [note for note in (size.note, f"by the driver alone: {self._alone.message}") if note]
        return replace(size, note="; ".join(notes))

    @contextlib.contextmanager
    def _watched(self, context: SparkContext) -> Iterator[ExecutorWatch | None]:
        """Where there are to be executors."""
        if self._driver is None or self.size is None or not self.size.executors:
            yield None
            return
        pods, executor, wanted = PodsOfJob(self._driver), self._driver.executor(self.size), self.size.executors
        watch = ExecutorWatch(
            lambda: len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1,  # the driver counts as one
            lambda: pods.why_no_executor(executor, wanted=wanted),
            self._tell,
            context.cancelAllJobs,
            patience=self._patience,
            now=time.monotonic(),
        )
        with Watching(watch, self._patience.between_looks):
            yield watch

    def _was_killed_for_memory(self) -> bool:
        if self._session is None or self.size is None:
            return False
        return _killed_for_memory(self._session.sparkContext, self.size.executors)

    def _go_on_alone(self) -> None:
        """In a Spark of its own; the pods that were asked for are wanted no more."""
        self._cleanup.close()
        self._session = None
        if self._driver is not None:
            PodsOfJob(self._driver).remove_executors()
        self._tell(None)


def _killed_for_memory(context: SparkContext, executors: int) -> bool:
    """Asked of the executors that are still there: the kernel may kill a Python process and leave its container.

    Of those that went with their container, the pods tell. Without any left nobody answers, so the question has an end.
    """
    if not executors:
        return False
    kills: queue.SimpleQueue[int] = queue.SimpleQueue()

    def ask() -> None:
        try:
            parts = context.parallelize(range(4 * executors), 4 * executors)
            kills.put(max(parts.map(lambda _: kills_for_memory()).collect()))
        except Exception:  # of a Spark that is gone itself
            kills.put(0)

    InheritableThread(target=ask, daemon=True).start()
    with contextlib.suppress(queue.Empty):
        return kills.get(timeout=_ANSWER_SECONDS) > 0
    return False


class _PartFailed(Exception):
    """On its way from a part of a divided task to the driver; to the part that receives it, a reason to stop."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _run_divided(context: SparkContext, division: Division) -> Outcome:
    try:
        with spark_errors():
            parts = _divided(context, division)
        return join(division.task, parts)
    except PermanentError as error:
        return FailedTask(division.task.task_id, error)
    except _PartFailed as failure:
        return FailedTask(division.task.task_id, failure.error)


def _divided(context: SparkContext, division: Division) -> list[WrittenRange]:
    task = division.task
    reads = context.parallelize(division.reads, len(division.reads))
    samples = reads.map(lambda read: _kept(lambda: sample(division, read))).collect()
    ranges = find_ranges(division, _sound(samples))
    blobs = reads.flatMap(lambda read: _read(read, ranges)).partitionBy(ranges.count, lambda number: number)
    probing = blobs.mapPartitions(lambda pairs: [_kept(lambda: _probe(task, ranges, pairs))])
    probes = list(_sound(context.runJob(probing, lambda found: found, probed_ranges(ranges))))
    parts = _joined(blobs, joined_parts(task, ranges.count, probes), ranges.count).mapPartitionsWithIndex(
        lambda number, pairs: [_kept(lambda: _write(task, ranges, number, pairs))]
    )
    written = parts.collect()
    try:
        return list(_sound(written))
    except _PartFailed:
        for part in written:
            if isinstance(part, WrittenRange):
                discard(task, RewriteResult(task.task_id, part.files, 0, 0))
        raise


def _joined(blobs: RDD[Numbered], parts: int, ranges: int) -> RDD[Numbered]:
    """Neighbours together; nothing is read again, and nothing moves twice where Spark takes them as they come.

    It does unless it prefers those that are near each other, as in a session that is not ours it may.
    """
    if parts == ranges:
        return blobs
    coalesced = blobs.coalesce(parts)
    taken = [list(part.parentsIndices()) for part in coalesced._jrdd.rdd().partitions()]
    if taken == [list(ranges_of(part, parts=parts, ranges=ranges)) for part in range(parts)]:
        return coalesced
    return blobs.partitionBy(parts, lambda number: part_of(number, parts=parts, ranges=ranges))


def _read(read: RewriteTask, ranges: Ranges) -> Iterator[Numbered]:
    """Every range is told of a failure, so that none begins to write."""
    try:
        _require_a_try()
        yield from read_into_ranges(read, ranges, threads=1)
    except Exception as error:
        failed = _part_failed(error)
        yield from ((number, failed) for number in range(ranges.count))


def _probe(task: RewriteTask, ranges: Ranges, pairs: Iterable[Numbered]) -> Probe:
    return probe_range(task, ranges, _sound(blob for _, blob in pairs), threads=1)


def _write(task: RewriteTask, ranges: Ranges, number: int, pairs: Iterable[Numbered]) -> WrittenRange:
    return write_range(task, ranges, number, _sound(blob for _, blob in pairs), threads=1)


def _kept(work: Callable[[], Part]) -> Part | _PartFailed:
    """What comes of a part of the work, or why nothing does; an error that Spark shall try again goes on to it."""
    try:
        _require_a_try()
        return work()
    except Exception as error:
        return _part_failed(error)


def _part_failed(error: Exception) -> _PartFailed:
    """Raises the error again if trying again may help, and there are tries left."""
    if isinstance(error, _PartFailed):
        return error
    if isinstance(error, PermanentError):
        return _PartFailed(error)
    if _tries() < ATTEMPTS:
        raise error
    # one that nobody foresaw may be of a type that does not come through
    return _PartFailed(error if isinstance(error, _PASSING) else TaskFailed(f"{type(error).__name__}: {error}"))


def _sound(parts: Iterable[Part | _PartFailed]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, _PartFailed):
            raise part
        yield part


def _tries() -> int:
    """This one among them."""
    context = TaskContext.get()
    return 1 if context is None else context.attemptNumber() + 1


def _require_a_try() -> None:
    """Those before would have told of any error, so their processes were killed, or their nodes went."""
    if _tries() > ATTEMPTS:
        raise TaskFailed(f"a task was begun {ATTEMPTS} times, and each time its process was gone before it had ended")


def _attempt(task: RewriteTask, *, threads: int) -> Outcome:
    outcome = _kept(lambda: attempt(task, threads=threads))
    return FailedTask(task.task_id, outcome.error) if isinstance(outcome, _PartFailed) else outcome


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
            context.parallelize(tasks, len(tasks)).foreach(lambda task: outcomes.add([_attempt(task, threads=threads)]))
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
