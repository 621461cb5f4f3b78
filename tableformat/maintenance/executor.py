"""Who runs the tasks of a plan. In jobs that is Spark; here is the seam, and an executor for small plans and tests."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from tableformat.engine import RewriteResult, RewriteTask, rewrite


class Executor(Protocol):
    def run(self, tasks: Sequence[RewriteTask]) -> Iterator[RewriteResult]:
        """Run every task once, in any order and place, and give each result as it comes."""
        ...


class InProcessExecutor:
    """One task after the other, in this process."""

    def run(self, tasks: Sequence[RewriteTask]) -> Iterator[RewriteResult]:
        for task in tasks:
            yield rewrite(task)
