"""Notices that the clock of the machine was set, or that the machine slept.

What waits for a time of day waits by a timer, and timers count seconds: after a jump they would ring at another time
than was meant. Whoever follows the clock looks at everything anew then.
"""

import time
from collections.abc import Callable

LOOK_SECONDS = 10.0
TOLERATED_SECONDS = 5.0  # what a busy machine and the correction of a clock that is a little off come to


class ClockWatch:
    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()

    def jump(self) -> float | None:
        """By how many seconds the clock went ahead (or back) of the time that passed since it was asked last."""
        offset = self._wall() - self._monotonic()
        jump, self._offset = offset - self._offset, offset
        return jump if abs(jump) > TOLERATED_SECONDS else None
