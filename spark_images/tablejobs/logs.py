"""How a driver logs: its own lines and the library's, each with the table and the run that it is about."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tableformat.logs import JsonFormatter, TextFormatter
from tableformat.maintenance.driver_environment import LOG_FORMAT
from tableformat.maintenance.job import MaintenanceJob
from tableformat.secrets import KNOWN, SecretFilter, learn_environment

_about: ContextVar[dict[str, str] | None] = ContextVar("about", default=None)


def set_up_logs(job: MaintenanceJob | None = None) -> None:
    """`job` is the one that the process is there for; one that is there for several says `about` which a line is."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if os.environ.get(LOG_FORMAT) == "json" else TextFormatter())
    learn_environment()
    handler.addFilter(SecretFilter(KNOWN))
    handler.addFilter(_About(_fields(job) if job is not None else {}))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for ours in ("tablejobs", "tableformat"):
        logging.getLogger(ours).setLevel(logging.INFO)


@contextmanager
def about(job: MaintenanceJob) -> Iterator[None]:
    """The lines that this thread logs are about this job."""
    token = _about.set(_fields(job))
    try:
        yield
    finally:
        _about.reset(token)


def _fields(job: MaintenanceJob) -> dict[str, str]:
    KNOWN.learn({"uri": getattr(job.catalog, "uri", ""), **job.catalog.properties})
    return {"table": ".".join(job.identifier), "run": job.run_id}


class _About(logging.Filter):
    """Says what a line is about where the line does not say it itself."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__()
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        fields = self._fields | (_about.get() or {})
        record.__dict__.update({name: value for name, value in fields.items() if not hasattr(record, name)})
        return True
