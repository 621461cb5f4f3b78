"""Log lines: one an event, with the fields that people search by."""

import json
import logging

from tableformat.logs import JsonFormatter, TextFormatter


def record(**fields: object) -> logging.LogRecord:
    made = logging.LogRecord("tablewright", logging.WARNING, "f.py", 1, "run %s failed", ("r1",), None)
    made.__dict__.update(fields)
    return made


def test_a_json_line_has_the_fields_that_are_known_and_no_others() -> None:
    line = json.loads(JsonFormatter().format(record(table="sales/events", run="r1", operation="Compact")))
    assert line["time"].endswith("+00:00")
    del line["time"]
    assert line == {
        "level": "warning",
        "logger": "tablewright",
        "message": "run r1 failed",
        "table": "sales/events",
        "run": "r1",
        "operation": "Compact",
    }


def test_a_text_line_ends_with_its_fields() -> None:
    line = TextFormatter().format(record(table="sales/events", snapshot=None))
    assert line.endswith("WARNING tablewright run r1 failed table=sales/events")
