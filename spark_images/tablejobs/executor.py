"""Runs the library's tasks as Spark tasks: Spark distributes, retries and places them; the kernel does the work.

The session starts with the first tasks, so a run that finds nothing to do costs no JVM. Results come back one by one
as tasks end, through an accumulator that is updated in an action: Spark applies such an update once for each task that
succeeded, however often the task was tried.

A sort that is large for one task is divided into ranges: its rows go through Spark's shuffle as Arrow blobs, and so do
the counts of what was read. Spark takes the output of one attempt at each part, so nothing is counted twice.
"""

import contextlib
import queue
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark import AccumulatorParam, InheritableThread, SparkContext
from pyspark.sql import SparkSession

from tableformat.engine import RewriteResult, RewriteTask, rewrite
from tableformat.engine.division import (
    Division,
    divide,
    find_ranges,
    join,
    read_into_ranges,
    sample,
    write_range,
)
from tablejobs.session import start_session, stop_session

_LARGE_TASK_FILES = 8


class SparkExecutor:
    def __init__(self, *, cores: int | None = None, session: SparkSession | None = None) -> None:
        """A session that is given stays the caller's; otherwise one is started when it is needed."""
        self._cores = cores
        self._cleanup = contextlib.ExitStack()
        self._session = session

    def __enter__(self) -> "SparkExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def run(self, tasks: Sequence[RewriteTask]) -> Iterator[RewriteResult]:
        if not tasks:
            return
        context = self.context()
        divisions = {task.task_id: division for task in tasks if (division := _division(context, task, len(tasks)))}
        if whole := [task for task in tasks if task.task_id not in divisions]:
            yield from _run_on(context, whole)
        for division in divisions.values():
            yield _run_divided(context, division)

    def context(self) -> SparkContext:
        if self._session is None:
            scratch = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tablewright-spark-"))
            self._session = start_session(Path(scratch), cores=self._cores)
            self._cleanup.callback(stop_session, self._session)
        return self._session.sparkContext


def _division(context: SparkContext, task: RewriteTask, tasks: int) -> Division | None:
    """A task is divided where cores would be idle for want of tasks, or if it is very large."""
    cores = context.defaultParallelism
    if tasks >= cores and task.source_bytes < _LARGE_TASK_FILES * task.target_file_bytes:
        return None
    return divide(task, cores=cores)


def _run_divided(context: SparkContext, division: Division) -> RewriteResult:
    task = division.task
    reads = context.parallelize(division.reads, len(division.reads))
    ranges = find_ranges(division, reads.map(lambda read: sample(division, read)).collect())
    blobs = reads.flatMap(lambda read: read_into_ranges(read, ranges, threads=1))
    parts = blobs.partitionBy(ranges.count, lambda number: number).mapPartitionsWithIndex(
        lambda number, pairs: [write_range(task, ranges, number, (blob for _, blob in pairs), threads=1)]
    )
    return join(task, parts.collect())


class _Results(AccumulatorParam[list[RewriteResult]]):
    def zero(self, value: list[RewriteResult]) -> list[RewriteResult]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[RewriteResult], value2: list[RewriteResult]) -> list[RewriteResult]:  # noqa: N802
        value1.extend(value2)
        return value1


def _run_on(context: SparkContext, tasks: Sequence[RewriteTask]) -> Iterator[RewriteResult]:
    results = context.accumulator([], _Results())
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    # Cores that would be idle for want of tasks work inside them.
    threads = max(1, context.defaultParallelism // len(tasks))

    def work() -> None:
        try:
            context.parallelize(tasks, len(tasks)).foreach(lambda task: results.add([rewrite(task, threads=threads)]))
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    thread = InheritableThread(target=work)
    thread.start()
    yielded, done = 0, False
    while not done:
        with contextlib.suppress(queue.Empty):
            failure = ended.get(timeout=0.1)
            if failure is not None:
                raise failure
            done = True
        for result in results.value[yielded:]:
            yielded += 1
            yield result
    thread.join()
