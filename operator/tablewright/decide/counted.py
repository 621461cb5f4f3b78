"""What runs counted of a table that has too many files for the operator to look at each.

A run looks at all of them anyway, and says in its status what it found, and at which snapshot. For as long as that is
the current one its figures are the table's; after that they are shown as what they are, and nothing is decided by them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tableformat.inspection import small_below
from tablewright.api.quantities import readable_size
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import CountedFiles, ManagedTableStatus
from tablewright.decide.state import TableObservation, TablePresent


def with_counted_files(
    observed: TableObservation, known: ManagedTableStatus, runs: Iterable[MaintenanceRun]
) -> TableObservation:
    """`known` is the table's status: it has what was counted by runs that are gone by now."""
    if not isinstance(observed, TablePresent) or not observed.health.estimated:
        return observed
    health = observed.health
    before = known.health.exact if known.health is not None else None
    last = max((*_counted(runs), *([before] if before else ())), key=lambda each: each.time, default=None)
    if last is None:
        return observed
    health = health.model_copy(update={"exact": last})
    is_present = last.snapshot_id == observed.metadata.current_snapshot_id
    if is_present and last.small_file_bytes == small_below(health.target_file_bytes):
        exact = last.model_dump(include={"data_files", "small_files", "data_bytes", "median_file_bytes"})
        health = health.model_copy(update={"estimated": False, "size": readable_size(last.data_bytes), **exact})
    return replace(observed, health=health)


def _counted(runs: Iterable[MaintenanceRun]) -> Iterator[CountedFiles]:
    """A dry run counts once, before its plan."""
    for run in runs:
        figures, end = run.status.after or run.status.before, run.status.completion_time
        if figures is not None and figures.snapshot_id is not None and end is not None:
            counted = figures.model_dump(include=set(CountedFiles.model_fields))
            yield CountedFiles(time=end, **counted)
