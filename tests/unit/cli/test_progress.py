"""How far a run is, for a terminal and for a pipe."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tablewright.cli import progress
from tablewright.embedded import driver
from tablewright.embedded.driver import DriverProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_that_fills_and_goes_when_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.progress_bar("Compact events") as bar:
        bar.at(DriverProgress(tasks=4, tasks_done=1, bytes=4 << 20, bytes_done=1 << 20))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    assert "Compact events" in text
    assert "1 of 4 tasks, 1.0 MiB of 4.0 MiB" in text
    assert "━" in text
    assert shown.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h")), "nothing of it is left"


def test_a_pipe_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    clock = iter([0.0, 4.9, 5.0, 5.0, 9.9, 10.0, 10.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.progress_bar("Compact events") as bar:
        for done in range(4):
            bar.at(DriverProgress(tasks=4, tasks_done=done, bytes=4096, bytes_done=1024 * done))
    assert shown.getvalue() == (
        "Compact events: 1 of 4 tasks, 1.0 KiB of 4.0 KiB\nCompact events: 3 of 4 tasks, 3.0 KiB of 4.0 KiB\n"
    )


def test_a_pipe_has_a_line_of_work_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expiry, orphan removal and the others are not done in tasks; and before its plan no work is."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    clock = iter([0.0, 4.9, 5.0, 5.0, 9.9, 10.0, 10.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.progress_bar("RemoveOrphanFiles events") as bar:
        for _ in range(4):
            bar.at(DriverProgress(tasks=0, tasks_done=0, bytes=0, bytes_done=0))
    assert shown.getvalue() == (
        "RemoveOrphanFiles events: at work for 5 s\nRemoveOrphanFiles events: at work for 10 s\n"
    )


def test_a_driver_is_heard_of_though_it_tells_nothing(tmp_path: Path) -> None:
    """By whoever prints lines now and then: nothing else wakes them."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        hearing = driver._followed(process, tmp_path / "progress.jsonl")
        heard = [next(hearing), next(hearing)]
        process.stdin.close()  # which ends it
        heard += hearing
    assert len(heard) >= 3
    assert set(heard) == {DriverProgress(0, 0, 0, 0)}
