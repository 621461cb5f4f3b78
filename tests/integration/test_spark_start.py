"""Spark's start, which a driver may be asked to end in: it waits for the JVM, and takes it along."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import toolchain

pytestmark = pytest.mark.xdist_group("spark")

# Ctrl-C is pressed again and again as soon as the start waits with it, until it has its effect.
PRESSED_ALL_THE_TIME = """
import os, signal, threading
from pathlib import Path
from pyspark import SparkContext
from tableformat.maintenance.sizing import JobSize
from tablejobs.session import start_session

effective = threading.Event()

def interrupted(*_):
    if not effective.is_set():  # one more may be on its way
        effective.set()
        raise KeyboardInterrupt

def press():
    while not effective.wait(0.01):
        os.kill(os.getpid(), signal.SIGINT)

def press_from_now_on(*arguments):
    signal.signal = really
    previous = signal.signal(*arguments)
    threading.Thread(target=press).start()
    return previous

signal.signal(signal.SIGINT, interrupted)
really, signal.signal = signal.signal, press_from_now_on  # when the start takes over: until then it would not wait
try:
    start_session(Path("."), JobSize(executors=0, cores=1, tasks_at_once=1, memory_bytes=0))
except KeyboardInterrupt:
    print("interrupted,", "and Spark is gone" if SparkContext._gateway is None else "and Spark is there")
"""


FEWER_SLOTS = """
from tableformat.maintenance.sizing import JobSize
from tablejobs.shared_spark import SharedSpark

def squares(slots):
    size = JobSize(executors=0, cores=4, tasks_at_once=slots, memory_bytes=0)
    with shared.lease(size, f"run-{slots}") as lease:
        context = lease.session.sparkContext
        return context.defaultParallelism, context.parallelize(range(4), 4).map(lambda n: n * n).sum()

shared = SharedSpark()
print([squares(slots) for slots in (4, 2, 4)])
shared.close()
"""


def test_a_run_that_needs_fewer_slots_gets_a_spark_that_has_no_more_and_later_ones_share_it(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(Path(toolchain.java()).resolve().parent.parent)}
    command = [sys.executable, "-c", FEWER_SLOTS]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stdout) == (0, "[(4, 14), (2, 14), (2, 14)]\n"), ended.stderr


def test_an_interruption_while_spark_starts_waits_for_it_and_then_ends_it(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(Path(toolchain.java()).resolve().parent.parent)}
    command = [sys.executable, "-c", PRESSED_ALL_THE_TIME]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "interrupted, and Spark is gone\n"), ended.stderr
