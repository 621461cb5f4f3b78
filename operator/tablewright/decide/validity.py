"""What is said of objects that cannot be read or used: in a policy's or a catalog's own status, and in a table's."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tablewright.api.conditions import IN_SYNC, READY, RECONCILING, STALLED, Condition, condition, merged
from tablewright.api.table import ManagedTable, ManagedTableStatus
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
    return beside_what_was_known(merged(with_progress(invalid), before, generation=generation, now=now), before)


def failed_pass(table: ManagedTable, message: str, now: datetime) -> ManagedTableStatus:
    """Of a table over which a pass ended for a reason that nobody foresaw: nothing is known of it any more."""
    before, generation = table.status.conditions, table.metadata.generation
    unknown = [condition(kind, None, "PassFailed", message) for kind in (READY, IN_SYNC)]
    decided = merged(with_progress(unknown), before, generation=generation, now=now)
    conditions = beside_what_was_known(decided, before)
    return table.status.model_copy(update={"observed_generation": generation, "conditions": conditions})


def beside_what_was_known(decided: Iterable[Condition], previous: Iterable[Condition]) -> tuple[Condition, ...]:
    """With the conditions that were not decided about, as they were; one of its progress is decided or gone."""
    found = tuple(decided)
    replaced = {RECONCILING, STALLED, *(each.type for each in found)}
    return *(each for each in previous if each.type not in replaced), *found
