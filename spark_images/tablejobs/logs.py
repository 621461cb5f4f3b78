"""How a driver logs: its own lines and the library's, each with the one table and run that the process is there for."""

import logging
import os
import sys

from tableformat.logs import JsonFormatter, TextFormatter
from tableformat.maintenance.driver_environment import LOG_FORMAT
from tableformat.maintenance.job import MaintenanceJob
from tableformat.secrets import KNOWN, SecretFilter, learn_environment


def set_up_logs(job: MaintenanceJob) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if os.environ.get(LOG_FORMAT) == "json" else TextFormatter())
    learn_environment()
    KNOWN.learn({"uri": getattr(job.catalog, "uri", ""), **job.catalog.properties})
    handler.addFilter(SecretFilter(KNOWN))
    handler.addFilter(_About(table=".".join(job.identifier), run=job.run_id))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for ours in ("tablejobs", "tableformat"):
        logging.getLogger(ours).setLevel(logging.INFO)


class _About(logging.Filter):
    """Says what a line is about where the line does not say it itself."""

    def __init__(self, **fields: str) -> None:
        super().__init__()
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        record.__dict__.update({name: value for name, value in self._fields.items() if not hasattr(record, name)})
        return True
