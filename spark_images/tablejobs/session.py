"""The driver's Spark session. Rows stay in the native kernel's memory, so the JVM is small and quiet."""

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tableformat.errors import PermanentError
from tableformat.maintenance.sizing import JobSize
from tablejobs.configuration import spark_configuration
from tablejobs.pods import DriverPod

logger = logging.getLogger("tablejobs")

_OLDEST_JAVA = 17
_NO_TRACES = ("-XX:-UsePerfData",)  # in the shared folder for temporary files
_SECONDS_TO_STOP = 20
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
    """There is no Java for Spark to run on, or one that is too old. Nothing was changed."""


def start_session(scratch: Path, size: JobSize, driver: DriverPod | None = None) -> SparkSession:
    """`scratch` is for Spark's own temporary files; `driver` is this process's pod, where there are executors."""
    java = _required_java()
    settings = scratch / "log4j2.properties"
    settings.write_text(_LOGGING)
    if driver is not None:
        driver.write_template(scratch)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # tasks must find the packages that the driver has
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:-UsePerfData -XX:TieredStopAtLevel=1")
    os.environ.setdefault("SPARK_LOCAL_IP", driver.ip if driver is not None else "127.0.0.1")
    builder = SparkSession.builder
    for name, value in spark_configuration(size, driver, scratch=scratch, logging=settings).items():
        builder = builder.config(name, value)
    session: SparkSession | None = None
    try:
        # In the main thread PySpark would take Ctrl-C for itself, and fail on one that comes while it still starts.
        with _signals_postponed(), ThreadPoolExecutor(1) as thread:
            session = thread.submit(builder.getOrCreate).result()
    except BaseException as error:
        if session is not None:
            stop_session(session)
        elif isinstance(error, Exception):
            _refuse_old_java(java)
        raise
    return session


@contextlib.contextmanager
def _signals_postponed() -> Iterator[None]:
    """What asks this process to end waits until the JVM is there, or has failed to start.

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


def _required_java() -> str:
    """The one that Spark's own scripts take."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        raise _java_missing(f"JAVA_HOME ({home}) has none" if home else "there is none on the path")
    return found


def _refuse_old_java(java: str) -> None:
    """Asked when Spark did not start, because all that is said then is that Java ended; asking costs a JVM's start."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        asked = [java, *_NO_TRACES, "-version"]
        told = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False).stderr
        version = re.search(r'version "(?:1\.)?(\d+)', told)  # the eighth called itself 1.8
        if version is not None and int(version[1]) < _OLDEST_JAVA:
            raise _java_missing(f"{java} is version {version[1]}")


def _java_missing(what: str) -> JavaMissing:
    return JavaMissing(
        f"Spark needs Java {_OLDEST_JAVA} or later, and {what}: install it (on Debian or Ubuntu: apt-get install "
        "openjdk-17-jre-headless), or set JAVA_HOME. Nothing was changed"
    )


def stop_session(session: SparkSession) -> None:
    """Stops Spark and waits for its JVM, so that a finished driver leaves no process behind.

    What was done is done: an error on the way out is told, and changes nothing about it. A session may be started anew.
    """
    gateway = session.sparkContext._gateway
    try:
        session.stop()
    except Exception as error:
        logger.warning("Spark did not stop in order: %s", error)
    if SparkContext._gateway is gateway:  # the one that the next session would take
        SparkContext._gateway, SparkContext._jvm = None, None
    if gateway is not None:
        _end(gateway)


def _end(gateway: Any) -> None:
    try:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_SECONDS_TO_STOP)
    except Exception as error:
        logger.warning("Spark's JVM did not end in order: %s", error)
        gateway.proc.kill()
        gateway.proc.wait()
