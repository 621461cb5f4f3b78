"""The work queue: nothing lost, nothing doubled, nothing at the same time twice."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from tablewright.runtime.queue import WorkQueue

IN_VAIN = 0.05  # seconds in which what must not happen would


async def until(holds: Callable[[], bool]) -> None:
    """However long it takes: a machine that has other work may let any time pass between two steps."""
    while not holds():
        await asyncio.sleep(0.001)


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
        await until(lambda: done["a"] > 0)
        await asyncio.sleep(IN_VAIN)

    run_queue(work, script)
    assert done == {"a": 1}


def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_and_never_twice_at_once() -> None:
    active: Counter[str] = Counter()
    most, done = 0, 0
    released = asyncio.Event()

    async def work(key: str) -> None:
        nonlocal most, done
        active[key] += 1
        most = max(most, active[key])
        await released.wait()
        active[key] -= 1
        done += 1

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: active["a"] == 1)
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(IN_VAIN)
        released.set()
        await until(lambda: done == 2)
        await asyncio.sleep(IN_VAIN)

    run_queue(work, script)
    assert (most, done) == (1, 2)


def test_different_keys_run_at_the_same_time_up_to_the_limit() -> None:
    active, most, done = 0, 0, 0
    released = asyncio.Event()

    async def work(_key: str) -> None:
        nonlocal active, most, done
        active += 1
        most = max(most, active)
        await released.wait()
        active -= 1
        done += 1

    async def script(queue: WorkQueue[str]) -> None:
        for key in "abcdef":
            queue.add(key)
        await until(lambda: active == 3)
        await asyncio.sleep(IN_VAIN)
        released.set()
        await until(lambda: done == 6)

    run_queue(work, script, concurrency=3)
    assert most == 3


def test_the_keys_of_one_group_never_take_every_worker() -> None:
    """A catalog that does not answer holds up its own tables, and nobody else's."""
    done, answered = list[str](), asyncio.Event()
    active: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def work(key: str) -> None:
        group = key.split("/")[0]
        active[group] += 1
        most[group] = max(most[group], active[group])
        if group == "dead":
            await answered.wait()
        active[group] -= 1
        done.append(key)

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(work, concurrency=3, group_of=lambda key: key.split("/")[0])
        runner = asyncio.create_task(queue.run())
        for number in range(6):
            queue.add(f"dead/{number}")
        await until(lambda: active["dead"] == 2)
        await asyncio.sleep(IN_VAIN)
        assert queue.depth == 4
        queue.add("good/1")
        await until(lambda: bool(done))
        assert done == ["good/1"]
        answered.set()
        await until(lambda: len(done) == 7)
        runner.cancel()

    asyncio.run(main())
    assert most["dead"] == 2
    assert sorted(done) == sorted([*(f"dead/{number}" for number in range(6)), "good/1"])


def test_a_failure_is_tried_again_and_does_not_stop_other_keys() -> None:
    seen: list[str] = []

    async def work(key: str) -> None:
        seen.append(key)
        if key == "bad" and seen.count("bad") == 1:
            raise RuntimeError("no luck")

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("bad")
        queue.add("good")
        await until(lambda: len(seen) == 3)

    run_queue(work, script, concurrency=1)
    assert seen == ["bad", "good", "bad"]


def test_a_key_that_asks_for_a_later_look_gets_it_at_the_earliest_wish() -> None:
    times: list[float] = []

    async def work(_key: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 0.03 if len(times) == 1 else None

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: len(times) == 1)
        queue.add_after("a", 60)
        await until(lambda: len(times) == 2)
        await asyncio.sleep(IN_VAIN)

    run_queue(work, script)
    assert len(times) == 2
    assert times[1] - times[0] >= 0.03


def test_a_closed_queue_takes_nothing_and_forgets_its_line_and_its_timers() -> None:
    done: Counter[str] = Counter()

    async def work(key: str) -> None:
        done[key] += 1

    async def script(queue: WorkQueue[str]) -> None:
        queue.add_after("later", 0.01)
        queue.add("waiting")
        queue.close()
        queue.add("refused")
        await asyncio.sleep(IN_VAIN)
        assert not done
        queue.open()
        queue.add("a")
        await until(lambda: done["a"] > 0)
        await asyncio.sleep(IN_VAIN)

    run_queue(work, script)
    assert done == {"a": 1}


def test_closing_waits_for_what_is_under_way_but_not_for_ever() -> None:
    drained: list[bool] = []
    released = asyncio.Event()

    async def work(_key: str) -> None:
        await released.wait()

    async def script(queue: WorkQueue[str]) -> None:
        queue.add("slow")
        await until(lambda: queue.stuck(0.005) == ["slow"])
        queue.close()
        drained.append(await queue.drain(0.01))
        released.set()
        drained.append(await queue.drain(60))

    run_queue(work, script)
    assert drained == [False, True]


def test_the_queue_knows_how_many_wait_and_for_how_long() -> None:
    async def work(_key: str) -> None:
        await asyncio.Event().wait()  # for ever

    async def script(queue: WorkQueue[str]) -> None:
        assert (queue.depth, queue.longest_wait()) == (0, 0.0)
        for key in "abc":
            queue.add(key)
        await asyncio.sleep(0.02)
        await until(lambda: queue.depth == 2)
        assert queue.longest_wait() >= 0.01

    run_queue(work, script, concurrency=1)
