"""The driver's Spark session. Rows stay in the native kernel's memory, so the JVM is small and quiet."""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tableformat.errors import PermanentError
from tableformat.maintenance.sizing import JobSize
from tablejobs.configuration import spark_configuration
from tablejobs.pods import DriverPod

_ENDING = (signal.SIGINT, signal.SIGTERM)
_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
"""


class JavaMissing(PermanentError):
    """There is no Java for Spark to run on. Nothing was changed."""


def start_session(scratch: Path, size: JobSize, driver: DriverPod | None = None) -> SparkSession:
    """`scratch` is for Spark's own temporary files; `driver` is this process's pod, where there are executors."""
    _require_java()
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING)
    if driver is not None:
        driver.write_template(scratch)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # tasks must find the packages that the driver has
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:-UsePerfData -XX:TieredStopAtLevel=1")
    os.environ.setdefault("SPARK_LOCAL_IP", driver.ip if driver is not None else "127.0.0.1")
    builder = SparkSession.builder
    for name, value in spark_configuration(size, driver, scratch=scratch, logging=logging).items():
        builder = builder.config(name, value)
    session: SparkSession | None = None
    try:
        with _signals_postponed():
            session = builder.getOrCreate()
    except BaseException:
        if session is not None:
            stop_session(session)
        raise
    return session


@contextmanager
def _signals_postponed() -> Iterator[None]:
    """What asks this process to end waits until the JVM is there.

    PySpark's launcher, when it is interrupted, removes the folder in which the JVM that it has begun would say that
    it is ready; and a JVM that finds no such folder stays for ever.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which(str(Path(home) / "bin" / "java") if home else "java") is None:
        where = f"JAVA_HOME ({home}) has none" if home else "there is none on the path"
        raise JavaMissing(
            f"Spark needs Java 17 or later, and {where}: install it (on Debian or Ubuntu: apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME. Nothing was changed"
        )


def stop_session(session: SparkSession) -> None:
    """Stops Spark and waits for its JVM, so that a finished driver leaves no process behind."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(20)
