"""What is kept of Spark's account of a failed job: the sentence that a person needs, without the JVM."""

import pytest
from py4j.protocol import Py4JNetworkError

from tablejobs.spark_errors import TaskFailed, essence, spark_errors

ABORTED = """Job aborted due to stage failure: Task 4 in stage 0.0 failed 4 times, most recent failure: Lost task \
4.3 in stage 0.0 (TID 9) (10.0.0.1 executor driver): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "kernel.py", line 3, in rewrite
    raise KeyError(1)
KeyError: 1

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
    ^^^^^^^^^
{error}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:645)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:"""


def test_the_last_error_of_the_python_task_is_kept() -> None:
    assert essence(ABORTED.format(error="ValueError: no such codec")) == "ValueError: no such codec"


def test_an_error_of_several_lines_becomes_one() -> None:
    assert essence(ABORTED.format(error="ValueError: two\nlines")) == "ValueError: two lines"


def test_without_a_python_error_spark_s_own_first_line_is_kept() -> None:
    lost = "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited): Remote RPC client disassociated"
    assert essence(f"{lost}\nDriver stacktrace:\n\tat org.apache.spark") == lost


def test_an_error_of_spark_becomes_one_whose_text_needs_no_jvm() -> None:
    with pytest.raises(TaskFailed, match="the socket is closed") as failure, spark_errors():
        raise Py4JNetworkError("the socket is closed")
    assert failure.value.__suppress_context__
