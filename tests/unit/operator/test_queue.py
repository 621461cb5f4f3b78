"""The work queue: nothing lost, nothing doubled, nothing at the same time twice."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from tablewright.runtime.queue import WorkQueue


def run_queue(
    work: Callable[[str], Awaitable[float | None]],
    script: Callable[[WorkQueue[str]], Awaitable[None]],
    *,
    concurrency: int = 2,
) -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(work, concurrency=concurrency)
        runner = asyncio.create_task(queue.run())
        await script(queue)
        runner.cancel()

    asyncio.run(main())


def test_many_additions_of_a_waiting_key_are_one_piece_of_work() -> None:
    done: Counter[str] = Counter()

    async def work(key: str) -> None:
        done[key] += 1

    async def script(queue: WorkQueue[str]) -> None:
        for _ in range(100):
            queue.add("a")
        await asyncio.sleep(0.02)

    run_queue(work, script)
    assert done == {"a": 1}


def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_and_never_twice_at_once() -> None:
    active: Counter[str] = Counter()
    most, done = 0, 0

    async def work(key: str) -> None:
        nonlocal most, done
        active[key] += 1
        most = max(most, active[key])
        await asyncio.sleep(0.01)
        active[key] -= 1
        done += 1

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.005)
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(0.05)

    run_queue(work, script)
    assert (most, done) == (1, 2)


def test_different_keys_run_at_the_same_time_up_to_the_limit() -> None:
    active, most = 0, 0

    async def work(_key: str) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.01)
        active -= 1

    async def script(queue: WorkQueue[str]) -> None:
        for key in "abcdef":
            queue.add(key)
        await asyncio.sleep(0.06)

    run_queue(work, script, concurrency=3)
    assert most == 3


def test_a_failure_is_tried_again_and_does_not_stop_other_keys() -> None:
    seen: list[str] = []

    async def work(key: str) -> None:
        seen.append(key)
        if key == "bad" and seen.count("bad") == 1:
            raise RuntimeError("no luck")

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("bad")
        queue.add("good")
        await asyncio.sleep(1.1)

    run_queue(work, script, concurrency=1)
    assert seen == ["bad", "good", "bad"]


def test_a_key_that_asks_for_a_later_look_gets_it_at_the_earliest_wish() -> None:
    times: list[float] = []

    async def work(_key: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 0.03 if len(times) == 1 else None

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.005)
        queue.add_after("a", 60)
        await asyncio.sleep(0.06)

    run_queue(work, script)
    assert len(times) == 2
    assert times[1] - times[0] >= 0.03
