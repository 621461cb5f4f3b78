"""What a table consists of around a run, for people who want to see what the run changed.

Figures are a courtesy: a table whose manifests cannot be read must still be rolled back, so what cannot be counted is
left out, and said in the log.
"""

import logging

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tableformat.inspection import table_health, targets
from tableformat.maintenance.job import CompactWork, InspectWork, MaintenanceJob, TableFigures

logger = logging.getLogger(__name__)


def take_figures(job: MaintenanceJob, catalog: Catalog) -> TableFigures | None:
    """Of the table as it is now. Manifests that were read lately in this process are not read again."""
    try:
        table = catalog.load_table(job.identifier)
        small = small_below(job, table)
        return TableFigures.of(table_health(table, small_file_bytes=small), small_file_bytes=small)
    except NoSuchTableError:
        raise
    except Exception as error:
        logger.warning("no figures: %s", error, extra={"table": ".".join(job.identifier), "run": job.run_id})
        return None


def small_below(job: MaintenanceJob, table: Table) -> int:
    """As the job says, or the work, or the table's own target."""
    if job.small_file_bytes is not None:
        return job.small_file_bytes
    if isinstance(job.work, InspectWork):
        return job.work.small_file_bytes
    if isinstance(job.work, CompactWork):
        return job.work.options.small_below
    return targets.small_below(targets.own_target_bytes(table.metadata.properties))
