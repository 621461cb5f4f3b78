"""The end of a Spark session."""

import logging
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from tablejobs.session import stop_session


class BrokenSession:
    """Whose JVM is gone to it, and does not go."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.sparkContext = SimpleNamespace(_gateway=SimpleNamespace(proc=process, shutdown=self.stop))

    def stop(self) -> None:
        raise ConnectionRefusedError("nobody answers")


def test_a_spark_that_does_not_stop_in_order_is_ended_and_told_of_and_fails_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = SimpleNamespace()
    monkeypatch.setattr(SparkContext, "_gateway", another)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.PIPE)
    broken: Any = BrokenSession(process)
    with caplog.at_level(logging.WARNING, "tablejobs"):
        stop_session(broken)
    assert process.poll() is not None
    assert SparkContext._gateway is another, "the gateway of another session stays"
    assert caplog.text.count("nobody answers") == 2
    assert process.stdin is not None
    process.stdin.close()
