"""A clock that was set, and a machine that slept, are noticed; time that passes is not."""

import pytest

from tablewright.runtime.clock import ClockWatch


class Clocks:
    def __init__(self) -> None:
        self.wall, self.monotonic = 1_000_000.0, 50.0
        self.watch = ClockWatch(lambda: self.wall, lambda: self.monotonic)

    def passes(self, seconds: float, *, wall: float | None = None) -> float | None:
        self.monotonic += seconds
        self.wall += seconds if wall is None else wall
        return self.watch.jump()


def test_time_that_passes_and_small_corrections_are_no_jump() -> None:
    clocks = Clocks()
    assert clocks.passes(10) is None
    assert clocks.passes(10, wall=12) is None
    assert clocks.passes(86_400) is None


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_is_set_is_told_of_once(jump: float) -> None:
    clocks = Clocks()
    assert clocks.passes(10, wall=10 + jump) == pytest.approx(jump)
    assert clocks.passes(10) is None
