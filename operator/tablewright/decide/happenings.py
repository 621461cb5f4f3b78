"""What a person would want to be told of, from one status to the next. A repeated pass changes no status, so it says
nothing; each happening has a key that is the same however often a pass is repeated after a crash.

Times of day are in no key for that reason. What may happen again (a catalog that is lost twice a day) is told apart by
the transition time that the status had before, which is on record until the new status is written.
"""

from dataclasses import dataclass

from tableformat.declaration import Applied
from tablewright.api.conditions import HEALTHY, IN_SYNC, MAINTAINED, READY, RECONCILING, STALLED, Condition
from tablewright.api.run import MaintenanceRun, MaintenanceRunStatus, Phase
from tablewright.api.table import HoldState, ManagedTable, ManagedTableStatus
from tablewright.decide.deletion import DeletionDecision
from tablewright.decide.runs import REPLACED
from tablewright.decide.state import StartRun

# Conditions that hold from the beginning are no news; that a table can be used is.
_NO_NEWS_AT_FIRST = {IN_SYNC, HEALTHY, MAINTAINED}
_PASSING = {"Creating", "Evolving"}  # reasons that the same pass leaves behind
_TOLD_BY_OTHERS = {RECONCILING, STALLED}  # they repeat what another condition says


@dataclass(frozen=True)
class Happening:
    reason: str  # CamelCase, of the event
    message: str
    key: str
    warning: bool = False
    run: str | None = None  # the MaintenanceRun that it is about


def table_happenings(table: ManagedTable, status: ManagedTableStatus) -> tuple[Happening, ...]:
    """From the table's status to this one."""
    before = {condition.type: condition for condition in table.status.conditions}
    found = [
        _condition_happening(before.get(new.type), new) for new in status.conditions if new.type not in _TOLD_BY_OTHERS
    ]
    found += _operation_happenings(table.status, status)
    found += _hold_happenings(table.status, status)
    return tuple(happening for happening in found if happening is not None)


def applied_happenings(applied: Applied) -> tuple[Happening, ...]:
    """What bringing the table to its declaration came to."""
    if applied.table is None or not (applied.created or applied.changes):
        return ()
    place = applied.table.metadata_location
    if applied.created:
        message = f"created the table {applied.table.metadata.table_uuid} at {applied.table.metadata.location}"
        return (Happening("Created", message, place),)
    return (Happening("Evolved", "; ".join(change.sentence for change in applied.changes), place),)


def start_happening(start: StartRun) -> Happening:
    return Happening("RunCreated", f"{start.operation}: run {start.name} was created", start.name, run=start.name)


def run_happenings(run: MaintenanceRun, status: MaintenanceRunStatus) -> tuple[Happening, ...]:
    """From the run's status to this one."""
    what, key = f"{run.spec.operation}: run {run.metadata.name}", f"{run.metadata.uid}/{status.phase}"
    waits = status.phase in (Phase.PENDING, Phase.RUNNING)
    if status.reason == REPLACED:
        replaced = f"{run.metadata.uid}/{status.reason}/{run.status.held_up_since}"
        told = Happening(REPLACED, f"{what}: {status.message}", replaced, run=run.metadata.name)
        return (told,) if run.status.reason != REPLACED else ()
    if waits and status.reason and status.reason != run.status.reason:
        held_up = f"{run.metadata.uid}/{status.reason}"
        return (Happening("RunHeldUp", _said(f"{what} waits", status), held_up, warning=True, run=run.metadata.name),)
    if status.phase == run.status.phase:
        return ()
    match status.phase:
        case Phase.RUNNING:
            return (Happening("RunStarted", f"{what} started", key, run=run.metadata.name),)
        case Phase.SUCCEEDED:
            return (Happening("RunSucceeded", _said(f"{what} succeeded", status), key, run=run.metadata.name),)
        case Phase.FAILED:
            return (Happening("RunFailed", _said(f"{what} failed", status), key, warning=True, run=run.metadata.name),)
        case _:
            return ()


def deletion_happenings(table: ManagedTable, decision: DeletionDecision) -> tuple[Happening, ...]:
    found = []
    if decision.drop is not None:
        place = table.status.identity.location if table.status.identity else "an unknown place"
        purged = Happening("Purged", f"dropped the table, and deleted its files at {place}", "purged")
        dropped = Happening("Dropped", f"dropped the table; its files stay at {place}", "dropped")
        found.append(purged if decision.drop.purge else dropped)
    elif decision.note:
        reason = "Released" if decision.release else "DeletionWaits"
        found.append(Happening(reason, decision.note, decision.note, warning=not decision.release))
    if decision.stop_runs:
        names = ", ".join(decision.stop_runs)
        found.append(Happening("RunsStopped", f"the object is being deleted: stopped {names}", names))
    return tuple(found)


def _condition_happening(old: Condition | None, new: Condition) -> Happening | None:
    holds = new.status == "True"
    if new.reason in _PASSING or (old is None and holds and new.type in _NO_NEWS_AT_FIRST):
        return None
    same = old is not None and (old.status, old.reason) == (new.status, new.reason)
    by_figures = new.type == HEALTHY  # which a declaration has little to do with
    if same and (holds or by_figures or old is None or old.observed_generation == new.observed_generation):
        return None
    if same and old is not None and old.message == new.message:
        return None
    if holds and new.type == MAINTAINED and (old is None or old.status == "True"):
        return None  # the runs have told of their success themselves
    since = old.last_transition_time if old is not None else None
    # Figures change from one look to the next, also to that of an operator which died before it wrote them down, and
    # so may the declaration meanwhile.
    detail = "" if by_figures else f"{new.observed_generation}/{'' if holds else new.message}"
    key = f"{new.type}/{new.status}/{new.reason}/{since}/{detail}"
    return Happening(new.reason, _condition_message(new), key, warning=not holds)


def _operation_happenings(old: ManagedTableStatus, new: ManagedTableStatus) -> list[Happening | None]:
    """An operation that was stopped after repeated failures, or that is tried again."""
    found: list[Happening | None] = []
    stopped = {operation.operation for operation in old.operations if operation.stopped}
    for operation in new.operations:
        key = f"{operation.operation}/{operation.last_run}/{operation.stopped}"
        if operation.stopped and operation.operation not in stopped:
            message = f"{operation.operation} is stopped: {operation.message or 'it failed again and again'}"
            found.append(Happening("OperationStopped", message, key, warning=True, run=operation.last_run))
        elif operation.operation in stopped and not operation.stopped:
            found.append(Happening("OperationResumed", f"{operation.operation} is tried again", key))
    return found


def _hold_happenings(old: ManagedTableStatus, new: ManagedTableStatus) -> list[Happening | None]:
    before = {hold.name: hold.state for hold in old.holds}
    return [
        Happening(
            f"Hold{hold.state}",
            f"hold {hold.name} is {hold.state.lower()}{f': {hold.message}' if hold.message else ''}",
            f"{hold.name}/{hold.state}/{before.get(hold.name)}/{new.observed_generation}",
            warning=hold.state is HoldState.REFUSED,
        )
        for hold in new.holds
        if hold.state is not before.get(hold.name) and hold.state is not HoldState.PENDING
    ]


def _condition_message(new: Condition) -> str:
    return f"{new.type}: {new.message}" if new.type != READY else new.message


def _said(what: str, status: MaintenanceRunStatus) -> str:
    said = [text for text in (status.reason, status.message) if text]
    return f"{what}: {': '.join(said)}" if said else what
