"""The whole decision about one table: what to do next, and what its status says."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tableformat.declaration import Difference, InvalidDeclarationError, TableDeclaration, difference
from tableformat.plurals import plural
from tablewright.api.conditions import HEALTHY, IN_SYNC, MAINTAINED, READY, Condition, condition, merged
from tablewright.api.declaration import declaration_of
from tablewright.api.run import MaintenanceRun, Operation
from tablewright.api.table import (
    HealthFigures,
    HoldStatus,
    ManagedTable,
    ManagedTableStatus,
    ManagementPolicy,
    OperationStatus,
    TableIdentity,
)
from tablewright.decide.bookkeeping import Operations, ready_after_failure, remembered
from tablewright.decide.causes import RUN_ANNOTATION
from tablewright.decide.claims import claimant
from tablewright.decide.compaction import past_policy, small_files_said
from tablewright.decide.counted import with_counted_files
from tablewright.decide.feasibility import (
    NOT_POSSIBLE,
    ImpossibleRun,
    TableFacts,
    impossible_runs,
    wanted_operations,
)
from tablewright.decide.history import surplus_runs
from tablewright.decide.holds import HoldDecision, decide_holds
from tablewright.decide.maintenance import PRECEDENCE, MaintenanceDecision, decide_maintenance, with_schedules
from tablewright.decide.policy import EffectivePolicy, fields_shown
from tablewright.decide.progress import with_progress
from tablewright.decide.requests import RequestDecision, decide_request, requested
from tablewright.decide.schedules import earliest
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
from tablewright.decide.validity import beside_what_was_known

REFUSED_CREATION_RETRY = timedelta(minutes=1)  # nobody tells us when another table leaves its place
REFUSED_RUN_RETRY = timedelta(minutes=1)  # nor when a quota has room
UNREADABLE_RETRY = timedelta(minutes=1)  # nor when a file is restored, or a right is given
UNUSABLE_CATALOG_RETRY = timedelta(seconds=30)  # nobody tells us when a server is back, or a Secret is there
USUALLY_HELD_UP_AFTER = timedelta(minutes=30)  # a cluster that grows has a new node by then
HELD_UP_AFTER = {"Queued": timedelta(hours=24)}  # waiting is what a queue is for


def decide_table(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TableObservation,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    *,
    claimed_by: ManagedTable | None = None,
    broken_policies: Sequence[str] = (),
    no_runs: str | None = None,
) -> TableDecision:
    """`claimed_by` is another object that has the same table already; `no_runs` says why none can be created now.

    While a policy that selects the table cannot be read, the table is not maintained: what it would have said of
    retention must not silently become what others say.
    """
    observed = with_counted_files(observed, table.status, runs)
    if claimed_by is not None:
        rival = claimant(claimed_by, seen_from=table)
        message = f"the table is declared by the older ManagedTable {rival}: delete one of the two"
        conditions = [condition(kind, False, "ClaimedByAnother", message) for kind in (READY, IN_SYNC)]
        return TableDecision(_status(table, policy, conditions, now))
    if isinstance(observed, CatalogUnusable):
        ready = condition(READY, None if table.status.identity else False, observed.reason, observed.message)
        return TableDecision(_unseen(table, policy, ready, now), look_again_at=now + UNUSABLE_CATALOG_RETRY)
    try:
        declaration = declaration_of(table)
    except InvalidDeclarationError as error:
        return TableDecision(_invalid(table, policy, observed, now, str(error)))
    if isinstance(observed, TableUnreadable):
        ready = condition(READY, False, "Unreadable", observed.message)
        return TableDecision(_unseen(table, policy, ready, now), look_again_at=now + UNREADABLE_RETRY)
    if isinstance(observed, CreationRefused):
        reasons = "; ".join(str(refusal) for refusal in observed.refusals)
        refused = [condition(kind, False, "Refused", reasons) for kind in (READY, IN_SYNC)]
        return TableDecision(_status(table, policy, refused, now), look_again_at=now + REFUSED_CREATION_RETRY)
    known = table.status.identity
    if isinstance(observed, TableAbsent):
        if known is not None:
            return TableDecision(_status(table, policy, [_missing(known)], now))
        if table.spec.management_policy is not ManagementPolicy.FULL:
            message = (
                f"there is no such table, and managementPolicy {table.spec.management_policy} creates none: create it"
            )
            return TableDecision(_status(table, policy, [condition(READY, False, "TableAwaited", message)], now))
        impossible = _impossible(table, policy, TableFacts.of_declaration(declaration))
        conditions = [
            condition(READY, False, "Creating", "the table is being created"),
            condition(IN_SYNC, False, "Creating", "the table is being created"),
            *([_not_maintainable(impossible)] if impossible else ()),
        ]
        return TableDecision(_status(table, policy, conditions, now), apply=ApplyDeclaration(declaration))
    if known is not None and known.uuid != str(observed.metadata.table_uuid):
        return TableDecision(_status(table, policy, _replaced(known, observed), now))
    return _decide_present(table, policy, observed, declaration, runs, now, broken_policies, no_runs)


def _decide_present(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TablePresent,
    declaration: TableDeclaration,
    runs: Sequence[MaintenanceRun],
    now: datetime,
    broken_policies: Sequence[str],
    no_runs: str | None,
) -> TableDecision:
    runs = [run for run in runs if not _was_cancelled(run)]
    management = table.spec.management_policy
    before = frozenset(table.status.declared_properties)
    changes = difference(declaration, observed.metadata, previously_declared_properties=before)
    observes = management is ManagementPolicy.OBSERVE_ONLY
    holds = HoldDecision() if observes else decide_holds(table, policy, observed.metadata, now)
    evolves = management is ManagementPolicy.FULL and changes.changes and not changes.refusals
    # What the table is to become is judged when it is there.
    facts = TableFacts.of_declaration(declaration) if evolves else TableFacts.of_table(observed.metadata)
    impossible = () if observes else _impossible(table, policy, facts)
    request = decide_request(table, policy, runs, broken_policies, impossible_runs(table, policy, facts))
    operations = with_schedules(remembered(table, runs, observed.health, now), table, policy, now)
    if no_runs is not None:  # what is due, and what a person asks for, is still so when that is over
        request = RequestDecision()
        maintenance = MaintenanceDecision(operations, wait_until=now + REFUSED_RUN_RETRY)
    elif request.start is not None:  # a person goes first; what is due now is still due when that run has ended
        operations[request.start.operation] = requested(operations[request.start.operation], request.start, runs, now)
        maintenance = MaintenanceDecision(operations, start=request.start, due=(request.start,))
    elif observes or broken_policies:
        maintenance = MaintenanceDecision(operations)
    else:
        blocked = {each.operation for each in impossible}
        maintenance = decide_maintenance(table, policy, observed, runs, operations, now, not_possible=blocked)
    held_up, held_up_from = _held_up(runs, now)
    conditions = [
        condition(READY, True, "Available", "the table is there and can be used"),
        _in_sync(changes, management),
        _healthy(policy, observed.health, maintenance),
        _maintained(maintenance.operations, broken_policies, no_runs, held_up, impossible),
        *([request.complaint] if request.complaint is not None else ()),
    ]
    status = _status(table, policy, conditions, now, observed, maintenance.operations, holds.statuses)
    if evolves:
        if table.status.identity is None:  # it was there before us: record which table it is, then change it
            return TableDecision(_before_acting(status, table), look_again_at=now)
        return TableDecision(_before_acting(status, table), apply=ApplyDeclaration(declaration))
    if not (changes.changes or changes.refusals):
        status = status.model_copy(update={"declared_properties": tuple(sorted(declaration.properties))})
    if holds.apply is not None:  # before any expiry starts
        return TableDecision(_before_acting(status, table), apply=holds.apply)
    return TableDecision(
        status,
        start=maintenance.start,
        due=maintenance.due,
        clear_request=request.is_done,
        delete_runs=surplus_runs(runs, maintenance.operations, policy.run_history),
        look_again_at=earliest(maintenance.wait_until, holds.look_again_at, held_up_from),
    )


def _was_cancelled(run: MaintenanceRun) -> bool:
    """Deleted while it waited: it never gets a Job and never ends, however long somebody's finalizer keeps it there."""
    waits = run.status.job_name is None and not run.status.is_finished
    return waits and run.metadata.deletion_timestamp is not None


def _before_acting(status: ManagedTableStatus, table: ManagedTable) -> ManagedTableStatus:
    """What was decided about maintenance is not carried out in this round, so it must not be remembered."""
    return status.model_copy(update={"operations": table.status.operations})


def _missing(known: TableIdentity) -> Condition:
    message = (
        f"the table {known.uuid} is no longer in the catalog; nothing is created in its place: register it "
        f"again from {known.metadata_location} (tablewright register), or delete and re-apply this object for a new, "
        "empty table"
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
    compaction = maintenance.operations[Operation.COMPACT]
    past = past_policy(policy, health, compaction.record)
    if not past:
        return condition(HEALTHY, True, "WithinPolicy", small_files_said(health))
    message = "; ".join(sentence for _, sentence in past)
    next_run = compaction.next_run
    if policy.suspended_by is not None:
        message += f"; maintenance is suspended by {policy.suspended_by}"
    elif next_run is not None:
        message += f"; the next run may start at {next_run:%Y-%m-%dT%H:%M:%SZ}"
    return condition(HEALTHY, False, past[0][0], message)


def _held_up(runs: Sequence[MaintenanceRun], now: datetime) -> tuple[MaintenanceRun | None, datetime | None]:
    """The run by which the table's maintenance stands still, because its pod does not start; or when one will be."""
    for run in runs:
        if run.status.held_up_since is not None and not run.status.is_finished:
            counts_from = run.status.held_up_since + HELD_UP_AFTER.get(run.status.reason or "", USUALLY_HELD_UP_AFTER)
            return (run, None) if now >= counts_from else (None, counts_from)
    return None, None


def _impossible(table: ManagedTable, policy: EffectivePolicy, facts: TableFacts) -> tuple[ImpossibleRun, ...]:
    """What the operator would start, and what cannot succeed."""
    wanted = wanted_operations(policy)
    return tuple(each for each in impossible_runs(table, policy, facts) if each.operation in wanted)


def _not_maintainable(impossible: Sequence[ImpossibleRun]) -> Condition:
    message = "; ".join(f"{each.operation} is not started, because it cannot succeed: {each}" for each in impossible)
    return condition(MAINTAINED, False, NOT_POSSIBLE, message)


def _maintained(
    operations: Operations,
    broken_policies: Sequence[str],
    no_runs: str | None,
    held_up: MaintenanceRun | None,
    impossible: Sequence[ImpossibleRun],
) -> Condition:
    """Whether the last runs succeeded: of each operation, the last. What only people start says nothing of upkeep."""
    if broken_policies:
        message = f"no maintenance starts until this is corrected: {'; '.join(broken_policies)}"
        return condition(MAINTAINED, False, "PolicyInvalid", message)
    if no_runs is not None:
        return condition(MAINTAINED, False, "RunRefused", no_runs)
    if held_up is not None:
        return condition(MAINTAINED, False, "RunHeldUp", _why_held_up(held_up))
    if impossible:
        return _not_maintainable(impossible)
    failing = [status for name, status in operations.items() if status.consecutive_failures and name in PRECEDENCE]
    if not failing:
        ended = [status for status in operations.values() if status.last_success is not None]
        if not ended:
            return condition(MAINTAINED, True, "NothingDone", "no maintenance was needed yet")
        return condition(MAINTAINED, True, "Succeeded", f"{', '.join(status.operation for status in ended)} succeeded")
    stopped = any(status.stopped for status in failing)
    return condition(
        MAINTAINED,
        False,
        "OperationStopped" if stopped else "RunFailed",
        "; ".join(_failure(status) for status in failing),
    )


def _why_held_up(run: MaintenanceRun) -> str:
    return (
        f"run {run.metadata.name} has been held up since {run.status.held_up_since:%Y-%m-%dT%H:%M:%SZ} "
        f"({run.status.reason}: {run.status.message}), and the table's other runs wait for it. It goes on when "
        "that is mended: a Job of which no driver ever ran is made anew when its declaration changes. Or delete the run"
    )


def _failure(status: OperationStatus) -> str:
    times = plural(status.consecutive_failures, "time")
    failures = f"{status.operation} failed {times} in a row, last by {status.message}"
    ready = ready_after_failure(status)
    if not status.stopped or ready is None:
        return failures
    return (
        f"{failures}; it is stopped until {ready:%Y-%m-%dT%H:%M:%SZ}, or until the spec changes, or "
        f"{RUN_ANNOTATION}={status.operation} asks for it"
    )


def _invalid(
    table: ManagedTable,
    policy: EffectivePolicy,
    observed: TableObservation,
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
    return _status(table, policy, [ready, condition(IN_SYNC, False, "InvalidDeclaration", message)], now, present)


def _unseen(table: ManagedTable, policy: EffectivePolicy, ready: Condition, now: datetime) -> ManagedTableStatus:
    """Of a table that could not be looked at. Its other conditions stay: they are no news when it can be again."""
    status = _status(table, policy, [ready], now)
    return status.model_copy(update={"conditions": beside_what_was_known(status.conditions, table.status.conditions)})


def _status(
    table: ManagedTable,
    policy: EffectivePolicy,
    conditions: Sequence[Condition],
    now: datetime,
    observed: TablePresent | None = None,
    operations: Operations | None = None,
    holds: tuple[HoldStatus, ...] | None = None,
) -> ManagedTableStatus:
    """What was not looked at stays as it was known."""
    previous, generation = table.status, table.metadata.generation
    told = previous.operations if operations is None else _worth_telling(operations)
    return ManagedTableStatus(
        observed_generation=generation,
        conditions=merged(with_progress(conditions), previous.conditions, generation=generation, now=now),
        identity=_identity(observed) if observed else previous.identity,
        health=observed.health if observed else previous.health,
        last_maintenance=max((each.last_success for each in told if each.last_success), default=None),
        next_maintenance=min((each.next_run for each in told if each.next_run), default=None),
        operations=told,
        holds=previous.holds if holds is None else holds,
        effective_policy=fields_shown(
            policy, observed.metadata.properties if observed else None, previous.effective_policy
        ),
        declared_properties=previous.declared_properties,
    )


def _worth_telling(operations: Operations) -> tuple[OperationStatus, ...]:
    return tuple(status for status in operations.values() if status != OperationStatus(operation=status.operation))


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
