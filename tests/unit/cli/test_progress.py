"""How far a run is, for a terminal and for a pipe."""

import io
import re
import sys

import pytest

from tablewright.cli import progress
from tablewright.embedded.driver import DriverProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_that_fills_and_goes_when_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.progress_display() as display:
        display.begin("a", "Compact events")
        display.begin("b", "Compact orders")
        display.at("a", DriverProgress(tasks=4, tasks_done=1, bytes=4 << 20, bytes_done=1 << 20))
        display.at("b", DriverProgress(tasks=2, tasks_done=1, bytes=4 << 20, bytes_done=2 << 20))
        display.say("a line that stays")
        display.end("a")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    assert "Compact events" in text
    assert "1 of 4 tasks, 1.0 MiB of 4.0 MiB" in text
    assert "1 of 2 tasks, 2.0 MiB of 4.0 MiB" in text
    assert "\na line that stays\n" in text.replace("\r", "\n")
    assert "━" in text
    assert shown.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h")), "nothing of it is left"


def test_a_pipe_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    clock = iter([0.0, 4.9, 5.0, 9.9, 10.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.progress_display() as display:
        display.begin("a", "Compact events")
        for done in range(4):
            display.at("a", DriverProgress(tasks=4, tasks_done=done, bytes=4096, bytes_done=1024 * done))
    assert shown.getvalue() == (
        "Compact events: 1 of 4 tasks, 1.0 KiB of 4.0 KiB\nCompact events: 3 of 4 tasks, 3.0 KiB of 4.0 KiB\n"
    )


def test_a_pipe_has_a_line_of_work_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expiry, orphan removal and the others are not done in tasks; and before its plan no work is."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    clock = iter([0.0, 4.9, 5.0, 9.9, 10.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.progress_display() as display:
        display.begin("a", "RemoveOrphanFiles events")
        for _ in range(4):
            display.at("a", DriverProgress(tasks=0, tasks_done=0, bytes=0, bytes_done=0))
    assert shown.getvalue() == (
        "RemoveOrphanFiles events: at work for 5 s\nRemoveOrphanFiles events: at work for 10 s\n"
    )


def test_a_pipe_has_one_line_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    clock = iter([0.0, 2.0, 4.0, 6.0, 7.0, 9.0, 11.5])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    half = DriverProgress(tasks=4, tasks_done=2, bytes=4096, bytes_done=2048)
    with progress.progress_display() as display:
        display.begin("a", "Compact events")
        display.begin("b", "ExpireSnapshots orders")
        display.at("a", half)
        display.at("b", DriverProgress(0, 0, 0, 0))
        display.at("a", half)
        display.end("b")
        display.at("a", half)
        display.at("a", half)
    assert shown.getvalue().splitlines() == [
        "Compact events: 2 of 4 tasks, 2.0 KiB of 4.0 KiB; ExpireSnapshots orders: at work for 4 s",
        "Compact events: 2 of 4 tasks, 2.0 KiB of 4.0 KiB",
    ]
