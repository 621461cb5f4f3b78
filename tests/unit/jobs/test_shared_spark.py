"""One Spark for several runs: who shares it, who waits, and whose slots hold."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tableformat.maintenance.sizing import GIB, JobSize
from tablejobs import shared_spark
from tablejobs.fleet import runs_at_once
from tablejobs.session import JavaMissing
from tablejobs.shared_spark import SharedSpark, SparkLost
from tests.waiting import eventually


class Sparks:
    """Sessions that only have a process, in the order in which they were started."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.slots: list[int] = []
        self.stopped: list[Any] = []
        self.failure: Exception | None = None

    def start(self, scratch: Path, size: JobSize) -> Any:
        assert scratch.is_dir()
        if self.failure is not None:
            raise self.failure
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        context = SimpleNamespace(_gateway=SimpleNamespace(proc=process), setLocalProperty=lambda *_: None)
        self.started.append(SimpleNamespace(sparkContext=context))
        self.slots.append(size.tasks_at_once)
        return self.started[-1]

    def stop(self, session: Any) -> None:
        self.kill(session)
        self.stopped.append(session)

    def kill(self, session: Any) -> None:
        session.sparkContext._gateway.proc.kill()
        session.sparkContext._gateway.proc.wait()


@pytest.fixture
def sparks(monkeypatch: pytest.MonkeyPatch) -> Sparks:
    sparks = Sparks()
    monkeypatch.setattr(shared_spark, "start_session", sparks.start)
    monkeypatch.setattr(shared_spark, "stop_session", sparks.stop)
    return sparks


@pytest.fixture
def shared(sparks: Sparks) -> Iterator[SharedSpark]:
    shared = SharedSpark()
    yield shared
    shared.close()
    assert sparks.stopped == sparks.started, "none is left"


def sized(tasks_at_once: int) -> JobSize:
    return JobSize(executors=0, cores=4, tasks_at_once=tasks_at_once, memory_bytes=8 * GIB)


def test_runs_share_one_session_that_outlives_them(shared: SharedSpark, sparks: Sparks) -> None:
    with shared.lease(sized(4), "a") as first, shared.lease(sized(4), "b") as second:
        assert first.session is second.session
        assert shared.users == 2
    with shared.lease(sized(4), "c") as third:
        assert third.session is first.session
    assert len(sparks.started) == 1


def test_a_run_whose_tasks_need_more_memory_waits_and_gets_fewer_slots_for_all(
    shared: SharedSpark, sparks: Sparks
) -> None:
    """Or the sum of what runs at once would be more than the limit that each was sized within."""
    at_work, may_end = threading.Event(), threading.Event()

    def large() -> JobSize:
        with shared.lease(sized(1), "large") as lease:
            at_work.set()
            may_end.wait(60)
            return lease.size

    def small() -> JobSize:
        with shared.lease(sized(4), "late") as lease:
            return lease.size

    with ThreadPoolExecutor(2) as threads:
        with shared.lease(sized(4), "small") as lease:
            assert lease.size.tasks_at_once == 4
            waiting = threads.submit(large)
            eventually(lambda: len(shared._wanted), lambda wanted: wanted == 1, seconds=10)
            late = threads.submit(small)
            eventually(lambda: len(shared._wanted), lambda wanted: wanted == 2, seconds=10)
            assert not at_work.is_set()
            assert not late.done(), "whoever comes later does not keep the one who waits from its turn"
        assert late.result(60).tasks_at_once == 1, "beside the large one"
        may_end.set()
        assert waiting.result(60).tasks_at_once == 1
    assert sparks.slots == [4, 1]
    assert sparks.stopped == sparks.started[:1]
    with shared.lease(sized(4), "last") as lease:
        assert lease.size.tasks_at_once == 1


def test_a_session_that_died_is_noticed_by_those_who_use_it_and_by_those_who_come(
    shared: SharedSpark, sparks: Sparks
) -> None:
    with shared.lease(sized(2), "a") as lease:
        assert not shared.is_lost(lease)
        sparks.kill(lease.session)
        assert shared.is_lost(lease)
    with pytest.raises(SparkLost), shared.lease(sized(2), "b"):
        pass
    assert len(sparks.started) == 1


def test_what_keeps_spark_from_starting_reaches_each_run_and_the_next_tries_again(
    shared: SharedSpark, sparks: Sparks
) -> None:
    sparks.failure = JavaMissing("there is no Java")
    for run in ("a", "b"):
        with pytest.raises(JavaMissing), shared.lease(sized(2), run):
            pass
    sparks.failure = None
    with shared.lease(sized(2), "c") as lease:
        assert lease.size.tasks_at_once == 2


@pytest.mark.parametrize(
    ("cores", "memory", "runs"),
    [(4, None, 4), (4, 16 * GIB, 4), (4, 2 * GIB, 2), (4, GIB // 2, 1), (1, 16 * GIB, 1)],
)
def test_no_more_runs_are_at_work_than_cores_and_memory_allow(cores: int, memory: int | None, runs: int) -> None:
    assert runs_at_once(cores, memory) == runs
