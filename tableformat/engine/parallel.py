"""Work on many pieces at once with the results in order, holding no more of them than a limit allows."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


_QUOTA = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_MOST_CORES = 16


def available_cores() -> int:
    """The cores that this process may use: a container on a large machine often has a small share of it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for path in _QUOTA:
        with contextlib.suppress(OSError):
            return max(1, min(cores, _MOST_CORES, granted_cores(path.read_text())))
    return min(cores, _MOST_CORES)


def granted_cores(quota: str) -> int:
    """What a control group's quota comes to, in whole cores; the text is of either version of control groups."""
    quota, _, period = quota.strip().partition(" ")
    if quota in ("max", "-1"):
        return _MOST_CORES
    return max(1, round(int(quota) / int(period or 100_000)))


class Workers(ThreadPoolExecutor):
    """Threads for work that computes: one for each core."""

    def __init__(self, cores: int) -> None:
        super().__init__(cores, thread_name_prefix="rewrite")
        self.cores = cores


class Readers(ThreadPoolExecutor):
    """Threads for reading, which waits for storage as much as it computes."""

    def __init__(self, cores: int) -> None:
        super().__init__(2 * cores + 2, thread_name_prefix="read")


def in_turn(
    pool: Executor,
    pieces: Iterable[Piece],
    work: Callable[[Piece], Result],
    *,
    weight: Callable[[Piece], int],
    limit: int,
) -> Iterator[tuple[Piece, Result]]:
    """Each piece with its result, in the order of the pieces.

    Pieces are worked on ahead as long as what is begun and not yet taken weighs no more than the limit; one piece is
    always begun, whatever it weighs.
    """
    begun: deque[tuple[Piece, int, Future[Result]]] = deque()
    waiting = iter(pieces)
    held, rest = 0, True
    try:
        while True:
            while rest and (not begun or held < limit):
                try:
                    piece = next(waiting)
                except StopIteration:
                    rest = False
                    break
                weighs = weight(piece)  # once: what is learned meanwhile may change it
                held += weighs
                begun.append((piece, weighs, pool.submit(work, piece)))
            if not begun:
                return
            piece, weighs, future = begun.popleft()
            result = future.result()
            held -= weighs
            yield piece, result
            del result, future
    finally:
        for _, _, future in begun:
            future.cancel()
