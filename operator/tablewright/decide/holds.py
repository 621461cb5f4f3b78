"""Whether a table's holds are as declared, what brings them there, and what the status says of each."""

from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table.metadata import TableMetadata

from tableformat.maintenance.holds import Hold, HoldPlan, plan_holds
from tablewright.api.policy import MOST_HOLDS
from tablewright.api.table import HoldState, HoldStatus, ManagedTable
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.state import ApplyHolds


@dataclass(frozen=True)
class HoldDecision:
    statuses: tuple[HoldStatus, ...] = ()
    apply: ApplyHolds | None = None
    look_again_at: datetime | None = None  # when a hold begins or ends


def decide_holds(table: ManagedTable, policy: EffectivePolicy, metadata: TableMetadata, now: datetime) -> HoldDecision:
    """Holds that the status does not name were placed by others, by the command line for one, and stay."""
    holds = tuple(Hold(name=hold.name, as_of=hold.as_of, until=hold.until) for hold in policy.holds)
    if not holds and not table.status.holds:
        return HoldDecision()
    placed = tuple(status.name for status in table.status.holds if status.state is not HoldState.REFUSED)
    plan = plan_holds(".".join(table.identifier), metadata, holds, placed=placed, now=now)
    statuses = tuple(_status(hold, plan, now) for hold in holds)
    times = [time for hold in holds for time in (hold.as_of, hold.until) if time > now]
    if plan.is_empty:
        return HoldDecision(statuses, look_again_at=min(times, default=None))
    # Those that are yet to be released stay in the status until they are: it alone knows that they are ours. What is
    # said of declared ones can be said again.
    gone = [status for status in table.status.holds if status.name not in {hold.name for hold in holds}]
    said = (*statuses[: MOST_HOLDS - len(gone)], *gone)
    return HoldDecision(said, ApplyHolds(holds, placed), min(times, default=None))


def _status(hold: Hold, plan: HoldPlan, now: datetime) -> HoldStatus:
    refused = next((refusal.reason for refusal in plan.refusals if refusal.hold == hold.name), None)
    if hold.until <= now:
        return HoldStatus(name=hold.name, state=HoldState.EXPIRED, message=f"it ended at {hold.until.isoformat()}")
    if refused is not None:
        return HoldStatus(name=hold.name, state=HoldState.REFUSED, message=refused)
    if hold.name in plan.pending:
        return HoldStatus(name=hold.name, state=HoldState.PENDING, message=f"it begins at {hold.as_of.isoformat()}")
    if any(held.tag == hold.tag for held in plan.to_set):
        return HoldStatus(name=hold.name, state=HoldState.PENDING, message="it is being set")
    return HoldStatus(
        name=hold.name, state=HoldState.HELD, message=f"until {hold.until.isoformat()}, as tag {hold.tag}"
    )
