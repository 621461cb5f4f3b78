"""What a policy's or a catalog's own status says: whether it can be used, and if not, why."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tablewright.api.conditions import Condition, condition, merged


@dataclass(frozen=True)
class Problem:
    reason: str
    message: str


def usability_status(
    kind: str, problem: Problem | None, previous: Iterable[Condition], *, generation: int, now: datetime
) -> dict[str, Any]:
    """`kind` is the condition's type; without a problem it holds."""
    found = condition(
        kind,
        problem is None,
        "Usable" if problem is None else problem.reason,
        "it can be used" if problem is None else problem.message,
    )
    conditions = merged([found], previous, generation=generation, now=now)
    return {"observedGeneration": generation, "conditions": [each.to_json() for each in conditions]}
