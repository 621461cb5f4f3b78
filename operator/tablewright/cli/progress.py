"""How far a run is: a bar on a terminal, a line now and then in a pipe. Always on standard error."""

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


class Bar(Protocol):
    def at(self, progress: "DriverProgress") -> None: ...


@contextmanager
def progress_bar(title: str) -> Iterator[Bar]:
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as shown:
        yield _Drawn(shown, shown.add_task(title, total=None, told="at work"))


def _told(progress: "DriverProgress") -> str:
    """Empty until it is known how much there is to do, and of work that is not done in tasks."""
    if not progress.tasks:
        return ""
    done = f"{size(progress.bytes_done)} of {size(progress.bytes)}"
    return f"{progress.tasks_done:,} of {plural(progress.tasks, 'task')}, {done}"


class _Drawn:
    """Until the plan is made nobody knows how much there is to do: the bar only moves to and fro."""

    def __init__(self, shown: "Progress", task: "TaskID") -> None:
        self._shown, self._task = shown, task

    def at(self, progress: "DriverProgress") -> None:
        self._shown.update(
            self._task, total=progress.bytes or None, completed=progress.bytes_done, told=_told(progress) or "at work"
        )


class _Lines:
    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self._said = monotonic()

    def at(self, progress: "DriverProgress") -> None:
        if monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = monotonic()
            tell(f"{self._title}: {_told(progress) or f'at work for {self._said - self._begun:.0f} s'}")
