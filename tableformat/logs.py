"""One line an event, for the on-call engineer: as text to read, or as JSON to search; the operator's and the drivers'.

What a line is about (table, run, snapshot, operation) goes into `extra` under these names, so that it can be searched
for and not only read. Nothing of a Secret is ever handed to a logger.
"""

import json
import logging
from datetime import UTC, datetime

FIELDS = ("table", "run", "operation", "snapshot", "namespace", "reason", "path")


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{fields}"
        return f"{line}\n{record.exc_text or self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    values = ((name, getattr(record, name, None)) for name in FIELDS)
    return {name: value for name, value in values if value is not None}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
