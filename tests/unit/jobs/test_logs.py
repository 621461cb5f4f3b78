"""A driver's log: the library's lines as well as its own, each with the table and the run that it is about."""

import json
import logging
from collections.abc import Iterator

import pytest

from tableformat.catalogs import SqlConfig
from tableformat.maintenance.job import InspectWork, JobReport, MaintenanceJob
from tablejobs.logs import set_up_logs
from tablejobs.reporting import Reporter

JOB = MaintenanceJob(
    run_id="nightly",
    catalog=SqlConfig(name="lake", uri="sqlite://", warehouse="file:///lake"),
    identifier=("sales", "events"),
    work=InspectWork(small_file_bytes=1),
)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    loggers = [root, logging.getLogger("tablejobs"), logging.getLogger("tableformat")]
    levels, handlers = [logger.level for logger in loggers], root.handlers[:]
    root.handlers = []
    yield
    root.handlers = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def test_what_the_library_tells_is_there_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(JOB)
    logging.getLogger("tableformat.commits").info("planning again", extra={"table": "sales.events", "snapshot": 7})
    logging.getLogger("botocore").info("a request")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(" INFO tableformat.commits planning again table=sales.events run=nightly snapshot=7")


def test_a_warning_is_found_by_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    """As whoever started the driver as a process finds it."""
    set_up_logs(JOB)
    logging.getLogger("pyiceberg").warning("deprecated")
    assert " WARNING " in capsys.readouterr().err


def test_lines_are_json_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TABLEWRIGHT_LOG_FORMAT", "json")
    monkeypatch.setenv("TABLEWRIGHT_TERMINATION_LOG", "/nowhere/at/all")
    set_up_logs(JOB)
    Reporter(JOB).finished(JobReport(succeeded=False, reason="TooYoung", message="an hour is too short"))
    line = json.loads(capsys.readouterr().err)
    told = {name: line[name] for name in ("level", "message", "reason", "table", "run")}
    assert told == {
        "level": "error",
        "message": "an hour is too short",
        "reason": "TooYoung",
        "table": "sales.events",
        "run": "nightly",
    }
