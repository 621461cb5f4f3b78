"""The work queue: each key at most once in line, never twice at the same time, backed off after failures.

A key that is added while it is being worked on is worked on once more afterwards, so no event is lost; a hundred
events for a waiting key are one piece of work. Keys of one group, such as the tables of a catalog, never take all
workers: a server that does not answer must not hold up what has nothing to do with it. A closed queue forgets its line
and takes nothing: a standby's is closed, and whoever opens it adds everything there is. All methods belong to the event
loop's thread.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tablewright.runtime.logs import brief

Key = TypeVar("Key", bound=Hashable)

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0

logger = logging.getLogger(__name__)


@dataclass
class _Entry:
    queued: bool = False
    running: bool = False
    failures: int = 0
    group: Hashable = None
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class WorkQueue(Generic[Key]):
    def __init__(
        self,
        work: Callable[[Key], Awaitable[float | None]],
        *,
        concurrency: int,
        group_of: Callable[[Key], Hashable] = lambda _: None,
    ) -> None:
        """`work` returns in how many seconds it wants the key again, or None; a key may have no group."""
        self._work = work
        self._concurrency = concurrency
        self._group_of = group_of
        self._lines: dict[Hashable, dict[Key, float]] = {}  # by group: who waits, since when; the first came first
        self._busy: Counter[Hashable] = Counter()  # workers, by group
        self._filled = asyncio.Event()
        self._entries: dict[Key, _Entry] = {}
        self._running: dict[Key, float] = {}
        self._is_open = True

    def add(self, key: Key) -> None:
        if not self._is_open:
            return
        entry = self._entries.setdefault(key, _Entry())
        if not entry.queued:
            entry.queued = True
            if not entry.running:
                self._stand_in_line(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Adds the key later; of two such wishes the earlier holds."""
        if not self._is_open:
            return
        entry = self._entries.setdefault(key, _Entry())
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if entry.timer is not None and not entry.timer.cancelled():
            if entry.timer.when() <= due:
                return
            entry.timer.cancel()
        entry.timer = loop.call_at(due, self._timer_rang, key)

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        """Takes nothing more, and forgets what waits; what is being worked on goes on."""
        self._is_open = False
        self._lines.clear()
        self._filled.clear()
        for key, entry in list(self._entries.items()):
            entry.queued, entry.failures = False, 0
            if entry.timer is not None:
                entry.timer.cancel()
                entry.timer = None
            if not entry.running:
                del self._entries[key]

    async def drain(self, seconds: float) -> bool:
        """Waits for what is being worked on; False if some of it was not done in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        return not self._running

    @property
    def depth(self) -> int:
        return sum(map(len, self._lines.values()))

    def longest_wait(self) -> float:
        """For how many seconds the first in line has been waiting."""
        return max((asyncio.get_running_loop().time() - _first(line) for line in self._lines.values()), default=0.0)

    def stuck(self, seconds: float) -> list[Key]:
        """What has been worked on for longer than this."""
        since = asyncio.get_running_loop().time() - seconds
        return [key for key, began in self._running.items() if began < since]

    async def run(self) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._worker())

    def _stand_in_line(self, key: Key) -> None:
        group = self._entries[key].group = self._group_of(key)
        self._lines.setdefault(group, {})[key] = asyncio.get_running_loop().time()
        self._filled.set()

    def _next(self) -> Key | None:
        """Who has waited longest, of the groups that may have another worker."""
        most = max(1, self._concurrency - 1)
        free = [group for group in self._lines if group is None or self._busy[group] < most]
        if not free:
            return None
        group = min(free, key=lambda each: _first(self._lines[each]))
        key = next(iter(self._lines[group]))
        del self._lines[group][key]
        if not self._lines[group]:
            del self._lines[group]
        return key

    def _timer_rang(self, key: Key) -> None:
        self._entries[key].timer = None
        self.add(key)

    async def _worker(self) -> None:
        while True:
            while (key := self._next()) is None:
                self._filled.clear()
                await self._filled.wait()
            await self._work_on(key)
            self._filled.set()  # its group may have another worker now

    async def _work_on(self, key: Key) -> None:
        entry = self._entries[key]
        entry.queued, entry.running, group = False, True, entry.group
        self._busy[group] += 1
        self._running[key] = asyncio.get_running_loop().time()
        try:
            again = await self._work(key)
        except Exception as error:
            entry.failures += 1
            again = min(FIRST_RETRY_SECONDS * 2 ** (entry.failures - 1), LONGEST_RETRY_SECONDS)
            if self._is_open:
                logger.warning(
                    "%s failed, again in %.0f s: %s", key, again, brief(error), exc_info=logger.isEnabledFor(10)
                )
        else:
            entry.failures = 0
        finally:
            entry.running = False
            del self._running[key]
            self._busy[group] -= 1
            if not self._busy[group]:
                del self._busy[group]
        if entry.queued:  # asked for while it was being worked on
            self._stand_in_line(key)
        if again is not None and self._is_open:
            self.add_after(key, again)
        elif not entry.queued and entry.timer is None:
            del self._entries[key]


def _first(line: dict[Key, float]) -> float:
    """Since when the first of a line waits; no line is empty."""
    return next(iter(line.values()))
