"""What `apply` would do to a folder's tables, found out without doing any of it: nothing is written or locked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tableformat.declaration import Difference, InvalidDeclarationError, difference
from tableformat.errors import TransientError
from tablewright.act.catalogs import open_declared
from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.conditions import HEALTHY
from tablewright.api.declaration import declaration_of
from tablewright.api.run import MaintenanceRun, Operation
from tablewright.api.table import ManagedTable, ManagementPolicy
from tablewright.decide.state import (
    CatalogUnusable,
    StartRun,
    TableAbsent,
    TableObservation,
    TablePresent,
    TableUnreadable,
)
from tablewright.decide.tables import decide_table
from tablewright.embedded.apply import policy_of
from tablewright.embedded.catalogs import catalog_of, database
from tablewright.embedded.folder import Declarations
from tablewright.embedded.state import EmbeddedState
from tablewright.observe.tables import HealthMemory, observe_table


@dataclass(frozen=True)
class DueRun:
    operation: Operation
    reason: str


@dataclass(frozen=True)
class PlannedTable:
    table: ManagedTable
    difference: Difference | None
    """None where it cannot be told: `problem` says why."""
    problem: str
    is_new: bool
    applies: bool
    """Whether the changes would be made: only where the object rules the table."""
    due: tuple[DueRun, ...]
    waits: tuple[str, ...]
    """Maintenance that is not due yet, and when it will be."""

    @property
    def has_work(self) -> bool:
        return bool(self.due) or (self.applies and self.difference is not None and not self.difference.is_empty)

    @property
    def is_refused(self) -> bool:
        return bool(self.problem) or (self.difference is not None and bool(self.difference.refusals))


def plan_folder(declarations: Declarations, state: EmbeddedState, now: datetime) -> Iterator[PlannedTable]:
    memory = HealthMemory()
    state.look()
    for declared in declarations.tables:
        table = state.remembered(declared)
        observed = _observe(table, declarations, state, memory)
        yield _planned(table, observed, declarations, state.runs_of(table), now)


def _observe(
    table: ManagedTable, declarations: Declarations, state: EmbeddedState, memory: HealthMemory
) -> TableObservation:
    try:
        catalog = catalog_of(table, declarations.catalogs, state.folder)
        if not declarations.catalogs and not database(state.folder).exists():
            return TableAbsent()  # opening the catalog would make it
        opened = open_declared(catalog.metadata.name, catalog.config({}))
        return observe_table(opened, table, policy_of(table, declarations), memory)
    except CatalogNotUsableError as error:
        return CatalogUnusable(error.reason, str(error))
    except TransientError as error:
        return CatalogUnusable("CatalogUnreachable", str(error))


def _planned(
    table: ManagedTable,
    observed: TableObservation,
    declarations: Declarations,
    runs: Sequence[MaintenanceRun],
    now: datetime,
) -> PlannedTable:
    applies = table.spec.management_policy is ManagementPolicy.FULL
    found, problem = _difference(table, observed)
    due: tuple[DueRun, ...] = ()
    waits: tuple[str, ...] = ()
    if isinstance(observed, TablePresent) and table.spec.management_policy is not ManagementPolicy.OBSERVE_ONLY:
        # As if its definition were settled: maintenance waits for that in a pass, and follows in the next.
        spec = table.spec.model_copy(update={"management_policy": ManagementPolicy.MAINTAIN_ONLY})
        settled = table.model_copy(update={"spec": spec})
        decision = decide_table(settled, policy_of(table, declarations), observed, runs, now)
        healthy = next((c.message for c in decision.status.conditions if c.type == HEALTHY), "")
        due = () if decision.start is None else (DueRun(decision.start.operation, _reason(decision.start, healthy)),)
        waits = tuple(
            f"{status.operation} at {status.next_run:%Y-%m-%dT%H:%M:%SZ}"
            for status in decision.status.operations
            if status.next_run is not None and status.next_run > now
        )
    return PlannedTable(table, found, problem, isinstance(observed, TableAbsent), applies, due, waits)


def _difference(table: ManagedTable, observed: TableObservation) -> tuple[Difference | None, str]:
    if isinstance(observed, CatalogUnusable | TableUnreadable):
        return None, observed.message
    try:
        declaration = declaration_of(table)
    except InvalidDeclarationError as error:
        return None, str(error)
    known = table.status.identity
    if isinstance(observed, TableAbsent):
        if known is not None:
            return None, f"the table {known.uuid} is no longer in the catalog; nothing is created in its place"
        return difference(declaration, None), ""
    if not isinstance(observed, TablePresent):
        return None, ""
    if known is not None and known.uuid != str(observed.metadata.table_uuid):
        return None, "the catalog has another table under this name than the one that the object stands for"
    before = frozenset(table.status.declared_properties)
    return difference(declaration, observed.metadata, previously_declared_properties=before), ""


def _reason(start: StartRun, healthy: str) -> str:
    return healthy if start.operation is Operation.COMPACT else "its scheduled time has come"
