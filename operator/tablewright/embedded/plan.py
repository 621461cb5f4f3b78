"""What `apply` would do to a folder's tables, found out without doing any of it: nothing is written, made or locked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyiceberg.catalog import Catalog

from tableformat.declaration import Difference, InvalidDeclarationError, creation_refusals, difference
from tableformat.errors import TransientError
from tableformat.maintenance.holds.planning import PREFIX, plan_holds
from tablewright.act.catalogs import look_into_declared
from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.conditions import HEALTHY, IN_SYNC, MAINTAINED, READY, RUN_ACCEPTED
from tablewright.api.declaration import declaration_of
from tablewright.api.run import Cause, MaintenanceRun, Operation, Phase
from tablewright.api.table import ManagedTable, ManagementPolicy
from tablewright.decide.causes import RUN_ANNOTATION
from tablewright.decide.holds import decide_holds
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.schedules import is_open
from tablewright.decide.state import (
    CatalogUnusable,
    CreationRefused,
    StartRun,
    TableAbsent,
    TableDecision,
    TableObservation,
    TablePresent,
)
from tablewright.decide.tables import decide_table
from tablewright.embedded.apply import did_not_answer, older_claim, policy_of, tried_again
from tablewright.embedded.catalogs import catalog_of, described, is_embedded_and_unmade
from tablewright.embedded.folder import Declarations
from tablewright.embedded.state import EmbeddedState
from tablewright.observe.tables import HealthMemory, observe_table

# Conditions that say of themselves that `apply` goes on from there: all others that do not hold are problems.
_ON_THE_WAY = frozenset({"Creating", "Evolving", "Drifted", "Refused"})


@dataclass(frozen=True)
class DueRun:
    operation: Operation
    reason: str


@dataclass(frozen=True)
class ComingRun:
    """Maintenance that is not due yet, or waits for its window."""

    operation: Operation
    at: datetime
    when_window_opens: bool


@dataclass(frozen=True)
class PlannedTable:
    table: ManagedTable
    difference: Difference | None
    """None where it cannot be told: `problem` says why."""
    problem: str
    catalog: str
    """Its name, its type, and where its tables go."""
    is_new: bool
    applies: bool
    """Whether the changes would be made: only where the object rules the table."""
    holds: tuple[str, ...] = ()
    """What would become of holds, a sentence each."""
    due: tuple[DueRun, ...] = ()
    """In the order in which they would run."""
    coming: tuple[ComingRun, ...] = ()
    suspended_by: str | None = None
    """The level that suspends maintenance, if one does."""
    did_not_answer: bool = False
    """Whether the problem is a catalog or a storage that cannot be reached."""

    @property
    def has_work(self) -> bool:
        return bool(self.due or self.holds) or self.has_changes

    @property
    def has_changes(self) -> bool:
        return self.applies and self.difference is not None and not self.difference.is_empty

    @property
    def is_refused(self) -> bool:
        return bool(self.problem) or (self.difference is not None and bool(self.difference.refusals))


@dataclass(frozen=True)
class PlanSummary:
    create: int
    change: int
    forget: int
    runs_due: int
    refused: int
    """Tables with a refused change or another problem; runs of theirs may be due all the same."""
    unreachable: int
    """Tables whose catalog or storage did not answer."""


@dataclass(frozen=True)
class FolderPlan:
    tables: tuple[PlannedTable, ...]
    forgotten: tuple[str, ...]
    """Keys of objects whose declaration is gone; their tables stay."""

    @property
    def has_work(self) -> bool:
        return bool(self.forgotten) or any(each.has_work for each in self.tables)

    @property
    def summary(self) -> PlanSummary:
        possible = [each for each in self.tables if not each.is_refused]
        created = [each for each in possible if each.is_new and each.has_changes]
        return PlanSummary(
            create=len(created),
            change=sum(bool(each.has_changes or each.holds) for each in possible) - len(created),
            forget=len(self.forgotten),
            runs_due=sum(len(each.due) for each in self.tables),
            refused=sum(each.is_refused and not each.did_not_answer for each in self.tables),
            unreachable=sum(each.did_not_answer for each in self.tables),
        )


def plan_folder(declarations: Declarations, state: EmbeddedState, now: datetime) -> FolderPlan:
    memory = HealthMemory()
    state.look()
    state.refuse_other_tables(declarations.tables)
    return FolderPlan(
        tuple(_plan_table(declared, declarations, state, memory, now) for declared in declarations.tables),
        tuple(state.gone(declarations.tables, declarations.given)),
    )


def _plan_table(
    declared: ManagedTable, declarations: Declarations, state: EmbeddedState, memory: HealthMemory, now: datetime
) -> PlannedTable:
    table = tried_again(state.remembered(declared))
    rival = older_claim(table, declarations)
    observed = TableAbsent() if rival else _observe(table, declarations, state, memory)
    catalog = described(catalog_of(table, declarations.catalogs, state.folder), declarations.catalogs)
    return _planned(table, catalog, observed, declarations, state.runs_of(table), now, rival)


def _observe(
    table: ManagedTable, declarations: Declarations, state: EmbeddedState, memory: HealthMemory
) -> TableObservation:
    try:
        catalog = catalog_of(table, declarations.catalogs, state.folder)
        if is_embedded_and_unmade(declarations.catalogs, state.folder):
            return TableAbsent()
        opened = look_into_declared(catalog.metadata.name, catalog.config({}))
        if opened is None:
            return TableAbsent()
        observed = observe_table(opened, table, policy_of(table, declarations), memory)
        return _refused(table, opened) or observed if isinstance(observed, TableAbsent) else observed
    except CatalogNotUsableError as error:
        return CatalogUnusable(error.reason, str(error))
    except TransientError as error:
        return CatalogUnusable("CatalogUnreachable", str(error))


def _refused(table: ManagedTable, catalog: Catalog) -> CreationRefused | None:
    try:
        refusals = creation_refusals(catalog, declaration_of(table))
    except InvalidDeclarationError:  # which is said of it anyway
        return None
    return CreationRefused(refusals) if refusals else None


def _planned(
    table: ManagedTable,
    catalog: str,
    observed: TableObservation,
    declarations: Declarations,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    rival: ManagedTable | None,
) -> PlannedTable:
    policy = policy_of(table, declarations)
    first = decide_table(table, policy, observed, runs, now, claimed_by=rival)
    problem = _problem(first, READY, IN_SYNC)
    found = None if problem else _difference(table, observed)
    planned = PlannedTable(
        table,
        found,
        problem or _problem(first, RUN_ACCEPTED, MAINTAINED),
        catalog,
        is_new=isinstance(observed, TableAbsent | CreationRefused),
        applies=table.spec.management_policy is ManagementPolicy.FULL,
        did_not_answer=did_not_answer(first.status),
        suspended_by=policy.suspended_by,
    )
    if problem or not isinstance(observed, TablePresent):
        return planned
    holds = _holds(table, policy, observed, now)
    interrupted = [run for run in runs if not run.status.is_finished]
    # As if its definition and its holds were settled, and what was interrupted had ended: maintenance waits for that in
    # a pass, and follows in the next.
    ended = [_ended(run, now) if run in interrupted else run for run in runs]
    settled, policy = _settled(table), replace(policy, holds=())
    decision = decide_table(settled, policy, observed, ended, now)
    asked = [start for start in decision.due if start.cause is Cause.ANNOTATION]
    if asked:  # a person goes first, and what is due follows
        decision = decide_table(_without_request(settled), policy, observed, ended, now)
    resumed = {run.spec.operation for run in interrupted}
    starts = [start for start in (*asked, *decision.due) if start.operation not in resumed or start in asked]
    again = [DueRun(run.spec.operation, f"run {run.metadata.name} was interrupted") for run in interrupted]
    return replace(
        planned,
        holds=holds,
        due=(*again, *(DueRun(start.operation, _reason(start, decision)) for start in starts)),
        coming=tuple(
            ComingRun(status.operation, status.next_run, _opens_at(policy, status.next_run))
            for status in decision.status.operations
            if status.next_run is not None and status.next_run > now
        ),
    )


def _opens_at(policy: EffectivePolicy, when: datetime) -> bool:
    return not is_open(policy.windows, when - timedelta(microseconds=1))


def _problem(decision: TableDecision, *kinds: str) -> str:
    """Why `apply` would not get anywhere: the first of these conditions that does not hold, and would not then."""
    conditions = {condition.type: condition for condition in decision.status.conditions}
    for found in (conditions[kind] for kind in kinds if kind in conditions):
        if found.status != "True" and found.reason not in _ON_THE_WAY:
            return f"{found.reason}: {found.message}"
    return ""


def _difference(table: ManagedTable, observed: TableObservation) -> Difference | None:
    present = observed.metadata if isinstance(observed, TablePresent) else None
    before = frozenset(table.status.declared_properties)
    found = difference(declaration_of(table), present, previously_declared_properties=before)
    more = observed.refusals if isinstance(observed, CreationRefused) else ()
    return replace(found, refusals=(*found.refusals, *more))


def _holds(table: ManagedTable, policy: EffectivePolicy, observed: TablePresent, now: datetime) -> tuple[str, ...]:
    if table.spec.management_policy is ManagementPolicy.OBSERVE_ONLY:
        return ()
    wanted = decide_holds(table, policy, observed.metadata, now).apply
    if wanted is None:
        return ()
    plan = plan_holds(".".join(table.identifier), observed.metadata, wanted.holds, placed=wanted.placed, now=now)
    placed = (f"place hold {held.tag.removeprefix(PREFIX)} on snapshot {held.snapshot_id}" for held in plan.to_set)
    return (*placed, *(f"release hold {tag.removeprefix(PREFIX)}" for tag in plan.to_release))


def _settled(table: ManagedTable) -> ManagedTable:
    policy = table.spec.management_policy
    kept = ManagementPolicy.MAINTAIN_ONLY if policy is ManagementPolicy.FULL else policy
    spec = table.spec.model_copy(update={"management_policy": kept})
    return table.model_copy(update={"spec": spec, "status": table.status.model_copy(update={"holds": ()})})


def _without_request(table: ManagedTable) -> ManagedTable:
    annotations = {name: text for name, text in table.metadata.annotations.items() if name != RUN_ANNOTATION}
    return table.model_copy(update={"metadata": table.metadata.model_copy(update={"annotations": annotations})})


def _ended(run: MaintenanceRun, now: datetime) -> MaintenanceRun:
    status = run.status.model_copy(update={"phase": Phase.SUCCEEDED, "completion_time": now})
    return run.model_copy(update={"status": status})


def _reason(start: StartRun, decision: TableDecision) -> str:
    if start.cause is Cause.ANNOTATION:
        return f"the annotation {RUN_ANNOTATION} asks for it"
    if start.cause is Cause.TRIGGER:
        return next((c.message for c in decision.status.conditions if c.type == HEALTHY), "it is past its policy")
    owed = any(each.operation is start.operation and each.record.owed for each in decision.status.operations)
    return "its last scheduled run failed" if owed else "its scheduled time has come"
