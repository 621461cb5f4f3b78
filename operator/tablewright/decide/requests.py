"""What a person asks for by the annotation `tablewright.dev/run` on a table: one run, once.

The run's name follows from the last run that the status knows of. The annotation is removed before the status says
more, so an operator that died in between creates the same run again, which is there already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tableformat.suggestions import quoted
from tablewright.api.conditions import RUN_ACCEPTED, Condition, condition
from tablewright.api.run import Cause, MaintenanceRun, Operation
from tablewright.api.table import ManagedTable, ManagementPolicy, OperationStatus
from tablewright.decide.bookkeeping import forgiven, started
from tablewright.decide.causes import RUN_ANNOTATION, run_name
from tablewright.decide.feasibility import NOT_POSSIBLE, ImpossibleRun
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.state import StartRun

_TO_A_SNAPSHOT = (Operation.ROLLBACK, Operation.CHERRY_PICK)  # which an annotation does not name
BY_ANNOTATION = tuple(operation for operation in Operation if operation not in _TO_A_SNAPSHOT)


@dataclass(frozen=True)
class RequestDecision:
    start: StartRun | None = None
    is_done: bool = False  # the annotation can go
    complaint: Condition | None = None


def decide_request(
    table: ManagedTable,
    policy: EffectivePolicy,
    runs: Sequence[MaintenanceRun],
    broken_policies: Sequence[str],
    impossible: Sequence[ImpossibleRun] = (),
) -> RequestDecision:
    asked = table.metadata.annotations.get(RUN_ANNOTATION)
    if asked is None:
        return RequestDecision()
    if asked not in tuple(BY_ANNOTATION):
        return _complaint(
            "UnknownOperation", f"unknown operation {quoted(asked[:100])}; expected one of {', '.join(BY_ANNOTATION)}"
        )
    operation = Operation(asked)
    if operation is Operation.DELETE_EXPIRED_ROWS and policy.row_retention is None:
        return _complaint("NotDeclared", "spec.retention.rows: give column and maxAge, which say what is expired")
    refusal = not_allowed(table, operation, dry_run=False)
    if refusal is not None:
        return _complaint("NotAllowed", refusal)
    obstacle = next((each for each in impossible if each.operation is operation), None)
    if obstacle is not None:
        return _complaint(NOT_POSSIBLE, f"{operation} cannot succeed: {obstacle}")
    if broken_policies:
        return _complaint("PolicyInvalid", f"waits until this is corrected: {'; '.join(broken_policies)}")
    known = next((status for status in table.status.operations if status.operation is operation), None)
    name = run_name(table, operation, f"{Cause.ANNOTATION}/{known.last_run if known else None}")
    if any(run.metadata.name == name for run in runs):
        return RequestDecision(is_done=True)
    return RequestDecision(StartRun(name, operation, Cause.ANNOTATION), is_done=True)


def requested(
    status: OperationStatus, start: StartRun, runs: Sequence[MaintenanceRun], now: datetime
) -> OperationStatus:
    """What a person asks for makes a new beginning. While another run is under way, that one is remembered first."""
    status = forgiven(status)
    under_way = any(run.spec.operation == start.operation and not run.status.is_finished for run in runs)
    return status if under_way else started(status, start, now, None)


def not_allowed(table: ManagedTable, operation: Operation, *, dry_run: bool) -> str | None:
    """Why a person's run must not be carried out on this table, if so."""
    harmless = dry_run or operation is Operation.INSPECT
    if harmless or table.spec.management_policy is not ManagementPolicy.OBSERVE_ONLY:
        return None
    return f"managementPolicy {ManagementPolicy.OBSERVE_ONLY} changes nothing: a dry run or Inspect may run"


def _complaint(reason: str, message: str) -> RequestDecision:
    complaint = condition(RUN_ACCEPTED, False, reason, f"annotation {RUN_ANNOTATION}: {message}")
    return RequestDecision(complaint=complaint)
