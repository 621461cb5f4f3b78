"""What is said of objects that cannot be read or used: in a policy's or a catalog's own status, and in a table's."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tablewright.api.conditions import IN_SYNC, READY, RECONCILING, STALLED, Condition, condition, merged
from tablewright.decide.progress import with_progress


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
    conditions = merged(with_progress([found]), previous, generation=generation, now=now)
    return {"observedGeneration": generation, "conditions": [each.to_json() for each in conditions]}


def unreadable_table_conditions(
    message: str, previous: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Of a table whose declaration cannot be read. What was known of the table itself goes on being said."""
    before = tuple(previous)
    invalid = [condition(IN_SYNC, False, "Invalid", message)]
    if all(each.type != READY for each in before):
        invalid.insert(0, condition(READY, False, "Invalid", message))
    decided = merged(with_progress(invalid), before, generation=generation, now=now)
    replaced = {RECONCILING, STALLED, *(each.type for each in decided)}
    return *(each for each in before if each.type not in replaced), *decided
