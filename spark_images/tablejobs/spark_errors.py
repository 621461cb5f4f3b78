"""Errors of Spark in words of our own, while it is still there to be asked for them.

What PySpark raises is a reference to an object in the JVM, and has neither a text nor a type of ours once the JVM is
gone; and the JVM is gone by the time that anybody reports. A task's own error is in it as text: a Python traceback
within a Java one, and of that the end is what a person needs. The whole is in the driver's log, by Spark.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tableformat.errors import TransientError

_TRACEBACK = "Traceback (most recent call last):"
_JAVA_FRAME = "\tat "


class TaskFailed(TransientError):
    """Spark tried a part of the work as often as it does, or has lost what it needs to. The table is as it was."""


@contextmanager
def spark_errors() -> Iterator[None]:
    """Makes a `TaskFailed` of whatever Spark says went wrong."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise TaskFailed(essence(_text(error))) from None  # what it stems from cannot be shown later


def essence(text: str) -> str:
    """Of Spark's text of a failed job: the error of the Python task if there was one, or Spark's own first line."""
    before, traceback, rest = text.rpartition(_TRACEBACK)
    if not traceback:
        return before.strip().partition("\n")[0] or rest.strip().partition("\n")[0]
    lines = rest.partition(f"\n{_JAVA_FRAME}")[0].strip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return " ".join(" ".join(lines[frames[-1] + 1 if frames else 0 :]).split())


def _text(error: Exception) -> str:
    try:
        if isinstance(error, Py4JJavaError):
            return str(error.java_exception.getMessage() or error)
        return str(error)
    except Exception as unreachable:  # the JVM has died, and that is the news
        return f"Spark's JVM does not answer: {unreachable}"
