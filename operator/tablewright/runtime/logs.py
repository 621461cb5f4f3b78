"""One line an event, for the on-call engineer: as text to read, or as JSON to search.

What a line is about (table, run, snapshot, operation) goes into `extra` under these names, so that it can be searched
for and not only read. Nothing of a Secret is ever handed to a logger.
"""

import json
import logging
import sys
from datetime import UTC, datetime

from kubernetes.client.exceptions import ApiException

FIELDS = ("table", "run", "operation", "snapshot", "namespace", "reason")


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


def brief(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, ApiException):
        return f"{error.status} {error.reason}"
    return " ".join(str(error).split()) or type(error).__name__


def set_up_logs(*, as_json: bool, level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # it misses signals that are not for it
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)  # a line a watch and a try; the lease says it
    for chatty in ("kopf", "kopf.objects", "aiohttp.access", "kubernetes", "urllib3"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    values = ((name, getattr(record, name, None)) for name in FIELDS)
    return {name: value for name, value in values if value is not None}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
