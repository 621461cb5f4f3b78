"""Collects what a report tells: of one table of any catalog, or of a folder's tables with their runs."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tableformat.errors import TablewrightError
from tableformat.inspection.history import snapshot_history
from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.run import MaintenanceRun
from tablewright.cli.catalogs import AddressedTable, address_declared
from tablewright.cli.examination import examine
from tablewright.cli.report.values import ReportedTable
from tablewright.embedded.folder import read_folder
from tablewright.embedded.state import EmbeddedState


def gather_table(found: AddressedTable, *, now: datetime) -> ReportedTable:
    seen = examine(found, now=now)
    return ReportedTable(found.name, seen, history=snapshot_history(found.load().metadata))


def gather_folder(folders: Sequence[Path], state: Path, *, now: datetime) -> list[ReportedTable]:
    """One that is not there yet, or whose catalog does not answer, says so; the others are told all the same."""
    remembered = EmbeddedState(state)
    remembered.look()
    declarations = read_folder(*folders)
    found = []
    for table in declarations.tables:
        known = remembered.remembered(table)
        runs = tuple(sorted(remembered.runs_of(table), key=_begun, reverse=True))
        name = "/".join(table.key)
        try:
            told = gather_table(address_declared(table, declarations, folders, state), now=now)
        except (TablewrightError, CatalogNotUsableError, OSError) as error:
            found.append(ReportedTable(name, None, str(error), known.status.conditions, runs=runs))
            continue
        found.append(
            ReportedTable(name, told.examination, "", known.status.conditions, history=told.history, runs=runs)
        )
    return found


def _begun(run: MaintenanceRun) -> str:
    return str(run.status.start_time or run.metadata.creation_timestamp or "")
