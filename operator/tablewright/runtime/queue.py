"""The work queue: each key at most once in line, never twice at the same time, backed off after failures.

A key that is added while it is being worked on is worked on once more afterwards, so no event is lost; a hundred
events for a waiting key are one piece of work. All methods belong to the event loop's thread.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0

logger = logging.getLogger(__name__)


@dataclass
class _Entry:
    queued: bool = False
    running: bool = False
    failures: int = 0
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class WorkQueue(Generic[Key]):
    def __init__(self, work: Callable[[Key], Awaitable[float | None]], *, concurrency: int) -> None:
        """`work` returns in how many seconds it wants the key again, or None."""
        self._work = work
        self._concurrency = concurrency
        self._line: asyncio.Queue[Key] = asyncio.Queue()
        self._entries: dict[Key, _Entry] = {}

    def add(self, key: Key) -> None:
        entry = self._entries.setdefault(key, _Entry())
        if not entry.queued:
            entry.queued = True
            if not entry.running:
                self._line.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Adds the key later; of two such wishes the earlier holds."""
        entry = self._entries.setdefault(key, _Entry())
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if entry.timer is not None and not entry.timer.cancelled():
            if entry.timer.when() <= due:
                return
            entry.timer.cancel()
        entry.timer = loop.call_at(due, self._timer_rang, key)

    async def run(self) -> None:
        """Works until cancelled; what is being worked on is awaited before it returns."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._worker())

    def _timer_rang(self, key: Key) -> None:
        self._entries[key].timer = None
        self.add(key)

    async def _worker(self) -> None:
        while True:
            key = await self._line.get()
            await self._work_on(key)

    async def _work_on(self, key: Key) -> None:
        entry = self._entries[key]
        entry.queued, entry.running = False, True
        try:
            again = await self._work(key)
        except Exception as error:
            entry.failures += 1
            again = min(FIRST_RETRY_SECONDS * 2 ** (entry.failures - 1), LONGEST_RETRY_SECONDS)
            logger.warning("%s failed, again in %.0f s: %s", key, again, error, exc_info=logger.isEnabledFor(10))
        else:
            entry.failures = 0
        finally:
            entry.running = False
        if entry.queued:  # asked for while it was being worked on
            self._line.put_nowait(key)
        if again is not None:
            self.add_after(key, again)
        elif not entry.queued and entry.timer is None:
            del self._entries[key]
