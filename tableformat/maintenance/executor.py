"""Who runs the tasks of a plan. In jobs that is Spark; here is the seam, and an executor for small plans and tests."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tableformat.engine import RewriteResult, RewriteTask, rewrite
from tableformat.errors import PermanentError


@dataclass(frozen=True)
class FailedTask:
    """A task that is not tried again: of no use, or often enough already. The others may be none the worse for it.

    A value rather than an exception, which would end the others, and whose type is lost between processes.
    """

    task_id: str
    error: Exception


Outcome = RewriteResult | FailedTask
Outcomes = Generator[Outcome, None, None]


class Executor(Protocol):
    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        """Run every task once, in any order and place, and give what comes of each; if closed early, stop the rest."""
        ...


class InProcessExecutor:
    """One task after the other, in this process."""

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        for task in tasks:
            yield attempt(task)


def attempt(task: RewriteTask, *, threads: int | None = None) -> Outcome:
    try:
        return rewrite(task, threads=threads)
    except PermanentError as error:
        return FailedTask(task.task_id, error)
