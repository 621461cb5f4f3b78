"""Watches over a Spark that has no executors: says why, and after a while takes it that none will come.

Spark asks for its pods once a second without end, and tells nobody why there are none: a quota that is used up, no node
with room, a network that lets no executor reach its driver. So the driver looks itself. Executors may also go when work
is under way, and not come back; that is the same to the watch.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from tablejobs.reporting import HeldUp

logger = logging.getLogger("tablejobs")


@dataclass(frozen=True)
class Patience:
    """In seconds without any executor. A cluster that brings new nodes takes minutes to do so."""

    tell: float = 60
    give_up: float = 600
    between_looks: float = 5


PATIENCE = Patience()


class ExecutorWatch:
    """`executors` counts those that are there, `why` finds out what keeps them, `stop` ends the work that waits."""

    def __init__(
        self,
        executors: Callable[[], int],
        why: Callable[[], HeldUp],
        tell: Callable[[HeldUp | None], None],
        stop: Callable[[], None],
        *,
        patience: Patience,
        now: float,
    ) -> None:
        self._executors, self._why, self._tell, self._stop = executors, why, tell, stop
        self._patience = patience
        self._none_since = now
        self._told: HeldUp | None = None
        self.gave_up: HeldUp | None = None
        """For what reason, if so."""

    def look(self, now: float) -> None:
        if self.gave_up is not None:
            self._stop()  # again: work of the same plan may have begun meanwhile
        elif self._executors() > 0:
            self._none_since = now
            self._say(None)
        elif now - self._none_since >= self._patience.tell:
            found = self._why()
            self._say(found)
            if found.for_good or now - self._none_since >= self._patience.give_up:
                self.gave_up = found
                self._stop()

    def _say(self, found: HeldUp | None) -> None:
        if found != self._told:
            self._told = found
            self._tell(found)


class Watching:
    """The watch in a thread of its own, for as long as work is under way."""

    def __init__(self, watch: ExecutorWatch, seconds: float) -> None:
        self._watch, self._seconds = watch, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, name="executor-watch", daemon=True)

    def __enter__(self) -> ExecutorWatch:
        self._thread.start()
        return self._watch

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(self._seconds)

    def _keep_looking(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self._watch.look(time.monotonic())
            except Exception as error:  # Spark may be on its way out; the work itself says what comes of it
                logger.warning("executors were not looked at: %s", error)
