"""How far a run is: a bar on a terminal, a line now and then in a pipe. Always on standard error."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tablewright.cli.output import size, tell

if TYPE_CHECKING:
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
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as shown:
        yield _Drawn(shown, shown.add_task(title, total=None))


class _Drawn:
    def __init__(self, shown: "object", task: "object") -> None:
        self._shown, self._task = shown, task

    def at(self, progress: "DriverProgress") -> None:
        self._shown.update(self._task, total=progress.bytes, completed=progress.bytes_done)  # type: ignore[attr-defined]


class _Lines:
    def __init__(self, title: str) -> None:
        self._title = title
        self._said = time.monotonic()

    def at(self, progress: "DriverProgress") -> None:
        if time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            done = f"{size(progress.bytes_done)} of {size(progress.bytes)}"
            tell(f"{self._title}: {progress.tasks_done} of {progress.tasks} tasks, {done}")
