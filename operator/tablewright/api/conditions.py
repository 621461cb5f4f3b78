"""Conditions as Kubernetes writes them, and the one way to carry a transition time from one status to the next."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import Field

from tablewright.api.objects import StatusModel
from tablewright.api.texts import Message

READY = "Ready"
IN_SYNC = "InSync"
HEALTHY = "Healthy"
MAINTAINED = "Maintained"
RUN_ACCEPTED = "RunAccepted"  # only while an annotation asks for a run that cannot be
SUCCEEDED = "Succeeded"  # of a run
VALID = "Valid"  # of a policy
RECONCILING = "Reconciling"  # only while it is true, as the next
STALLED = "Stalled"


class Condition(StatusModel):
    type: str = Field(max_length=64)
    status: Literal["True", "False", "Unknown"]
    reason: str = Field(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")
    message: Message
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


def condition(kind: str, holds: bool | None, reason: str, message: str) -> Condition:
    """A condition as decided; None is for what is not known yet."""
    status: Literal["True", "False", "Unknown"] = "Unknown" if holds is None else "True" if holds else "False"
    return Condition(type=kind, status=status, reason=reason, message=message)


def merged(
    decided: Iterable[Condition], previous: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The decided conditions with their transition times: kept where the status did not change, now where it did."""
    before = {old.type: old for old in previous}
    result = []
    for new in decided:
        old = before.get(new.type)
        changed = old is None or old.status != new.status or old.last_transition_time is None
        since = now if changed or old is None else old.last_transition_time
        result.append(new.model_copy(update={"last_transition_time": since, "observed_generation": generation}))
    return tuple(result)
