"""The whole decision about one table: what to do next, and what its status says."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tableformat.declaration import Difference, InvalidDeclarationError, TableDeclaration, difference
from tablewright.api.conditions import HEALTHY, IN_SYNC, MAINTAINED, READY, Condition, condition, merged
from tablewright.api.declaration import declaration_of
from tablewright.api.run import MaintenanceRun, Operation
from tablewright.api.table import (
    HealthFigures,
    ManagedTable,
    ManagedTableStatus,
    ManagementPolicy,
    OperationStatus,
    TableIdentity,
)
from tablewright.decide.compaction import is_past_policy
from tablewright.decide.history import consecutive_failures, in_order
from tablewright.decide.maintenance import MaintenanceDecision, decide_maintenance
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.state import (
    ApplyDeclaration,
    CatalogUnusable,
    CreationRefused,
    TableAbsent,
    TableDecision,
    TableObservation,
    TablePresent,
    TableUnreadable,
)

UNUSABLE_CATALOG_RETRY = timedelta(seconds=30)  # nobody tells us when a server is back, or a Secret is there


def decide_table(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TableObservation,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    *,
    claimed_by: ManagedTable | None = None,
    broken_policies: Sequence[str] = (),
) -> TableDecision:
    """`claimed_by` is another object that has the same table already.

    While a policy that selects the table cannot be read, the table is not maintained: what it would have said of
    retention must not silently become what others say.
    """
    if claimed_by is not None:
        message = f"the table is declared by the older ManagedTable {claimed_by.metadata.name}: delete one of the two"
        conditions = [condition(kind, False, "ClaimedByAnother", message) for kind in (READY, IN_SYNC)]
        return TableDecision(_status(table, policy, conditions, runs, now))
    if isinstance(observed, CatalogUnusable):
        ready = condition(READY, None if table.status.identity else False, observed.reason, observed.message)
        return TableDecision(_status(table, policy, [ready], runs, now), look_again_at=now + UNUSABLE_CATALOG_RETRY)
    try:
        declaration = declaration_of(table)
    except InvalidDeclarationError as error:
        return TableDecision(_invalid(table, policy, observed, runs, now, str(error)))
    if isinstance(observed, TableUnreadable):
        ready = condition(READY, False, "Unreadable", observed.message)
        return TableDecision(_status(table, policy, [ready], runs, now))
    if isinstance(observed, CreationRefused):
        reasons = "; ".join(str(refusal) for refusal in observed.refusals)
        refused = [condition(kind, False, "Refused", reasons) for kind in (READY, IN_SYNC)]
        return TableDecision(_status(table, policy, refused, runs, now))
    known = table.status.identity
    if isinstance(observed, TableAbsent):
        if known is not None:
            return TableDecision(_status(table, policy, [_missing(known)], runs, now))
        if table.spec.management_policy is not ManagementPolicy.FULL:
            message = f"there is no such table, and managementPolicy {table.spec.management_policy} creates none"
            return TableDecision(_status(table, policy, [condition(READY, False, "TableMissing", message)], runs, now))
        conditions = [
            condition(READY, False, "Creating", "the table is being created"),
            condition(IN_SYNC, False, "Creating", "the table is being created"),
        ]
        return TableDecision(_status(table, policy, conditions, runs, now), apply=ApplyDeclaration(declaration))
    if known is not None and known.uuid != str(observed.metadata.table_uuid):
        return TableDecision(_status(table, policy, _replaced(known, observed), runs, now))
    return _decide_present(table, policy, observed, declaration, runs, now, broken_policies)


def _decide_present(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TablePresent,
    declaration: TableDeclaration,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    broken_policies: Sequence[str],
) -> TableDecision:
    management = table.spec.management_policy
    before = frozenset(table.status.declared_properties)
    changes = difference(declaration, observed.metadata, previously_declared_properties=before)
    snapshot_id = observed.metadata.current_snapshot_id
    maintenance = (
        MaintenanceDecision()
        if broken_policies
        else decide_maintenance(table, policy, observed.health, snapshot_id, runs, now)
    )
    conditions = [
        condition(READY, True, "Available", "the table is there and can be used"),
        _in_sync(changes, management),
        _healthy(policy, observed.health, maintenance),
        _maintained(runs, broken_policies),
    ]
    status = _status(table, policy, conditions, runs, now, observed)
    if management is ManagementPolicy.FULL and changes.changes and not changes.refusals:
        if table.status.identity is None:  # it was there before us: record which table it is, then change it
            return TableDecision(status, look_again_at=now)
        return TableDecision(status, apply=ApplyDeclaration(declaration))
    if not (changes.changes or changes.refusals):
        status = status.model_copy(update={"declared_properties": tuple(sorted(declaration.properties))})
    if management is ManagementPolicy.OBSERVE_ONLY:
        return TableDecision(status)
    return TableDecision(status, start=maintenance.start, look_again_at=maintenance.wait_until)


def _missing(known: TableIdentity) -> Condition:
    message = (
        f"the table {known.uuid} is no longer in the catalog; nothing is created in its place: register it again from "
        f"{known.metadata_location}, or delete and re-apply this object for a new, empty table"
    )
    return condition(READY, False, "TableMissing", message)


def _replaced(known: TableIdentity, observed: TablePresent) -> list[Condition]:
    message = (
        f"the catalog now has another table ({observed.metadata.table_uuid}) under this name than the one that this "
        f"object stands for ({known.uuid}); it is left alone: delete and re-apply this object to take it over"
    )
    return [
        condition(READY, True, "Available", "there is a table of this name, and it can be used"),
        condition(IN_SYNC, False, "TableReplaced", message),
    ]


def _in_sync(changes: Difference, policy: ManagementPolicy) -> Condition:
    if policy is not ManagementPolicy.FULL and (changes.changes or changes.refusals):
        differences = "; ".join([*(c.sentence for c in changes.changes), *(str(r) for r in changes.refusals)])
        return condition(IN_SYNC, False, "Drifted", f"managementPolicy {policy} changes nothing: {differences}")
    if changes.refusals:
        return condition(IN_SYNC, False, "Refused", "; ".join(str(refusal) for refusal in changes.refusals))
    if changes.changes:
        return condition(IN_SYNC, False, "Evolving", "; ".join(change.sentence for change in changes.changes))
    return condition(IN_SYNC, True, "AsDeclared", "the table is as declared")


def _healthy(policy: EffectivePolicy, health: HealthFigures, maintenance: MaintenanceDecision) -> Condition:
    if not is_past_policy(policy, health):
        return condition(HEALTHY, True, "WithinPolicy", f"{health.small_files} small files of {health.data_files}")
    tolerated = f"the policy tolerates fewer than {policy.small_files}"
    message = f"{health.small_files} small files of {health.data_files}; {tolerated}"
    if policy.suspend:
        message += "; maintenance is suspended"
    elif maintenance.wait_until is not None:
        message += f"; the next run may start at {maintenance.wait_until:%Y-%m-%dT%H:%M:%SZ}"
    return condition(HEALTHY, False, "TooManySmallFiles", message)


def _maintained(runs: Sequence[MaintenanceRun], broken_policies: Sequence[str]) -> Condition:
    """Whether the last runs succeeded: of each operation, the last."""
    if broken_policies:
        message = f"no maintenance starts until this is corrected: {'; '.join(broken_policies)}"
        return condition(MAINTAINED, False, "PolicyInvalid", message)
    finished = sorted(
        (run for run in runs if run.status.completion_time is not None), key=lambda run: str(run.status.completion_time)
    )
    failing = [(operation, consecutive_failures(runs, operation)) for operation in Operation]
    failing = [(operation, failures) for operation, failures in failing if failures]
    if not failing:
        message = f"run {finished[-1].metadata.name} succeeded" if finished else "no maintenance was needed yet"
        return condition(MAINTAINED, True, "Succeeded" if finished else "NothingDone", message)
    messages, reason = [], "RunFailed"
    for operation, failures in failing:
        last = [run for run in finished if run.spec.operation == operation][-1]
        messages.append(f"run {last.metadata.name}: {last.status.message or 'failed'} ({failures} in a row)")
        reason = last.status.reason or reason
    return condition(MAINTAINED, False, reason, "; ".join(messages))


def _invalid(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TableObservation,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    message: str,
) -> ManagedTableStatus:
    """A declaration that cannot be understood leaves an existing table as usable as it was."""
    present = observed if isinstance(observed, TablePresent) else None
    ready = (
        condition(READY, True, "Available", "the table is there and can be used")
        if present
        else condition(READY, False, "InvalidDeclaration", message)
    )
    return _status(table, policy, [ready, condition(IN_SYNC, False, "InvalidDeclaration", message)], runs, now, present)


def _status(
    table: ManagedTable,
    policy: EffectivePolicy,
    conditions: Sequence[Condition],
    runs: Sequence[MaintenanceRun],
    now: datetime,
    observed: TablePresent | None = None,
) -> ManagedTableStatus:
    previous, generation = table.status, table.metadata.generation
    return ManagedTableStatus(
        observed_generation=generation,
        conditions=merged(conditions, previous.conditions, generation=generation, now=now),
        identity=_identity(observed) if observed else previous.identity,
        health=observed.health if observed else previous.health,
        operations=_operations(runs),
        effective_policy=policy.fields,
        declared_properties=previous.declared_properties,
    )


def _identity(observed: TablePresent) -> TableIdentity:
    metadata = observed.metadata
    return TableIdentity(
        uuid=str(metadata.table_uuid),
        location=metadata.location,
        metadata_location=observed.metadata_location,
        snapshot_id=metadata.current_snapshot_id,
        schema_id=metadata.current_schema_id,
        spec_id=metadata.default_spec_id,
    )


def _operations(runs: Sequence[MaintenanceRun]) -> tuple[OperationStatus, ...]:
    statuses = []
    for operation in Operation:
        mine = in_order(runs, operation)
        if mine:
            successes = [run.status.completion_time for run in mine if run.status.phase == "Succeeded"]
            statuses.append(
                OperationStatus(
                    operation=operation,
                    last_run=mine[-1].metadata.name,
                    last_success=successes[-1] if successes else None,
                    consecutive_failures=consecutive_failures(runs, operation),
                )
            )
    return tuple(statuses)
