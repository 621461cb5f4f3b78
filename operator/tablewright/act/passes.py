"""One pass over one table: observe, decide, act, until nothing is left to do at once; then the status.

The same pass serves the cluster and the folder: they differ in the `World` that they give it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from pyiceberg.catalog import Catalog

from tableformat.declaration import Applied, ManagementMode, TableLocation, apply_declaration
from tableformat.errors import PermanentError, TablewrightError, TransientError
from tableformat.maintenance.holds import apply_holds
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.state import (
    ApplyDeclaration,
    ApplyHolds,
    CatalogUnusable,
    CreationRefused,
    StartRun,
    TableAbsent,
    TableDecision,
    TableObservation,
)
from tablewright.decide.tables import decide_table
from tablewright.observe.tables import CatalogFailedError, HealthMemory, observe_table, remember

logger = logging.getLogger(__name__)

MOST_ROUNDS = 5  # absent, created, as declared, its holds set; one more for a race with another writer


class CatalogNotUsableError(TablewrightError):
    """The table's catalog is not declared, or its credentials are missing; `reason` is for the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RunRefusedError(TablewrightError):
    """No run can be created now: a quota is used up, or an admission rule forbids it; somebody has to change that."""


class World(Protocol):
    """What a pass needs from where it runs."""

    def open_catalog(self, table: ManagedTable) -> Catalog:
        """The table's catalog; raises `CatalogNotUsableError`."""
        ...

    def runs_of(self, table: ManagedTable) -> Sequence[MaintenanceRun]: ...

    def older_claim(self, table: ManagedTable) -> ManagedTable | None:
        """Another object that declares the same table and was there first."""
        ...

    def policy_of(self, table: ManagedTable) -> EffectivePolicy: ...

    def broken_policies(self, table: ManagedTable) -> Sequence[str]:
        """What is wrong with policies that select the table and cannot be read; they are no part of its policy."""
        ...

    def start_run(self, table: ManagedTable, start: StartRun) -> None:
        """Raises `RunRefusedError` where that is not allowed; the table is told of then, and its other work goes on."""
        ...

    def overlapping(self, table: ManagedTable, catalog: Catalog, places: Sequence[str]) -> TableLocation | None:
        """A place of another table that overlaps one of these, where the table is to be: no two may share a place."""
        ...

    def declaration_applied(self, table: ManagedTable, applied: Applied) -> None:
        """Told of what bringing the table to its declaration came to, before the status says so."""
        ...

    def clear_request(self, table: ManagedTable) -> None:
        """Removes the annotation that asked for a run: it was acted on."""
        ...

    def delete_run(self, table: ManagedTable, name: str) -> None: ...

    def pass_failed(self, table: ManagedTable, error: Exception, now: datetime) -> None:
        """Told of an error that nobody foresaw, which ends the pass: people must not have to find it in a log."""
        ...

    def write_status(self, table: ManagedTable, status: ManagedTableStatus) -> None:
        """Called once a pass, and only with a status that differs from the table's own."""
        ...


@dataclass(frozen=True)
class PassOutcome:
    status: ManagedTableStatus
    started: StartRun | None
    look_again_at: datetime | None


def reconcile_table(table: ManagedTable, world: World, memory: HealthMemory, now: datetime) -> PassOutcome:
    try:
        decision = _decide(table, world, memory, now)
    except Exception as error:
        world.pass_failed(table, error, now)
        raise
    if decision.start is not None:
        try:
            world.start_run(table, decision.start)
        except RunRefusedError as error:
            decision = _decide(table, world, memory, now, no_runs=str(error))
    if decision.clear_request:  # before the status knows of the run: see decide.requests
        world.clear_request(table)
    if decision.status != table.status:
        world.write_status(table, decision.status)
    for name in decision.delete_runs:  # what they came to is in the status now
        world.delete_run(table, name)
    return PassOutcome(decision.status, decision.start, decision.look_again_at)


def _decide(
    table: ManagedTable, world: World, memory: HealthMemory, now: datetime, *, no_runs: str | None = None
) -> TableDecision:
    policy, runs, rival = world.policy_of(table), world.runs_of(table), world.older_claim(table)
    if rival is not None:
        return decide_table(table, policy, TableAbsent(), runs, now, claimed_by=rival)
    try:
        return _converge(table, policy, world.open_catalog(table), world, memory, now, no_runs)
    except CatalogNotUsableError as error:
        return decide_table(table, policy, CatalogUnusable(error.reason, str(error)), runs, now)
    except TransientError as error:
        return decide_table(table, policy, CatalogUnusable("TryingAgain", str(error)), runs, now)
    except PermanentError as error:  # the catalog or its storage refuses us; nobody tells us when it does not any more
        return decide_table(table, policy, CatalogUnusable("CatalogRefuses", str(error)), runs, now)
    except OSError as error:  # files cannot be written or read
        return decide_table(table, policy, CatalogUnusable("StorageUnreachable", str(error)), runs, now)


def observe_for_deletion(table: ManagedTable, world: World, memory: HealthMemory) -> TableObservation:
    try:
        return observe_table(world.open_catalog(table), table, world.policy_of(table), memory)
    except CatalogNotUsableError as error:
        return CatalogUnusable(error.reason, str(error))
    except (TransientError, OSError) as error:
        return CatalogUnusable("TryingAgain", str(error))


def _converge(
    table: ManagedTable,
    policy: EffectivePolicy,
    catalog: Catalog,
    world: World,
    memory: HealthMemory,
    now: datetime,
    no_runs: str | None,
) -> TableDecision:
    for _ in range(MOST_ROUNDS):
        observed = observe_table(catalog, table, policy, memory)
        broken = world.broken_policies(table)
        decision = decide_table(
            table, policy, observed, world.runs_of(table), now, broken_policies=broken, no_runs=no_runs
        )
        if decision.apply is None:
            return decision
        if isinstance(decision.apply, ApplyHolds):
            apply_holds(catalog, table.identifier, decision.apply.holds, placed=decision.apply.placed, now=now)
            continue
        applied = _apply(table, catalog, decision.apply, world)
        world.declaration_applied(table, applied)
        if applied.table is not None:
            remember(applied.table, policy, memory)
        if applied.refusals and isinstance(observed, TableAbsent):
            return decide_table(table, policy, CreationRefused(applied.refusals), world.runs_of(table), now)
    return decision


def _apply(table: ManagedTable, catalog: Catalog, action: ApplyDeclaration, world: World) -> Applied:
    identity = table.status.identity
    try:
        return apply_declaration(
            catalog,
            action.declaration,
            mode=ManagementMode.FULL,
            known_uuid=UUID(identity.uuid) if identity else None,
            previously_declared_properties=frozenset(table.status.declared_properties),
            overlapping=lambda opened, _, places: world.overlapping(table, opened, places),
        )
    except (TablewrightError, OSError):
        raise
    except Exception as error:  # PyIceberg's own catalogs raise what their clients do
        logger.debug("bringing %s/%s to its declaration failed", *table.key, exc_info=error)
        raise CatalogFailedError(f"the catalog failed ({type(error).__name__}): {error}") from error
