"""How far runs are: a bar for each on a terminal, a line for all now and then in a pipe. Always on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from tableformat.plurals import plural
from tablewright.cli.output import size, tell

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tablewright.embedded.driver import DriverProgress

SECONDS_BETWEEN_LINES = 5.0


class Display(Protocol):
    def begin(self, run: str, title: str) -> None: ...

    def at(self, run: str, progress: "DriverProgress") -> None: ...

    def end(self, run: str) -> None: ...

    def say(self, line: str) -> None:
        """A line of its own, which stays."""
        ...


@contextmanager
def progress_display() -> Iterator[Display]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
    shown = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    try:
        yield _Drawn(shown)
    finally:
        shown.stop()


def _told(progress: "DriverProgress") -> str:
    """Empty until it is known how much there is to do, and of work that is not done in tasks."""
    if not progress.tasks:
        return ""
    done = f"{size(progress.bytes_done)} of {size(progress.bytes)}"
    return f"{progress.tasks_done:,} of {plural(progress.tasks, 'task')}, {done}"


class _Drawn:
    """Until the plan is made nobody knows how much there is to do: the bar only moves to and fro."""

    def __init__(self, shown: "Progress") -> None:
        self._shown = shown
        self._tasks: dict[str, TaskID] = {}

    def begin(self, run: str, title: str) -> None:
        self._tasks[run] = self._shown.add_task(title, total=None, told="at work")
        self._shown.start()

    def at(self, run: str, progress: "DriverProgress") -> None:
        told = _told(progress) or "at work"
        self._shown.update(self._tasks[run], total=progress.bytes or None, completed=progress.bytes_done, told=told)

    def end(self, run: str) -> None:
        self._shown.remove_task(self._tasks.pop(run))

    def say(self, line: str) -> None:
        self._shown.stop()  # which takes the bars away
        tell(line)
        if self._tasks:
            self._shown.start()


class _Lines:
    def __init__(self) -> None:
        self._runs: dict[str, tuple[str, float, str]] = {}
        self._said = 0.0

    def begin(self, run: str, title: str) -> None:
        now = monotonic()
        if not self._runs:
            self._said = now
        self._runs[run] = title, now, ""

    def at(self, run: str, progress: "DriverProgress") -> None:
        title, begun, _ = self._runs[run]
        self._runs[run] = title, begun, _told(progress)
        now = monotonic()
        if now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            told = (
                f"{title}: {told or f'at work for {now - begun:.0f} s'}" for title, begun, told in self._runs.values()
            )
            tell("; ".join(told))

    def end(self, run: str) -> None:
        del self._runs[run]

    def say(self, line: str) -> None:
        tell(line)
