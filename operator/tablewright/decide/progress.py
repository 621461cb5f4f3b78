"""Whether an object is on its way or stuck, as tools read it that know nothing of our kinds (kstatus: Flux, kpt).

`Reconciling` and `Stalled` are there only while they are true. Reconciling: the operator goes on by itself, now or
when what it waits for is there. Stalled: it goes on only when a person changes something. A run that failed is stalled
for good; a table whose maintenance fails is neither, since it is there and as declared.
"""

from collections.abc import Iterable

from tablewright.api.conditions import IN_SYNC, READY, RECONCILING, STALLED, VALID, Condition, condition

# Reasons of Ready and InSync that no time and no retry changes.
_FOR_A_PERSON = frozenset(
    {
        "CatalogInvalid",
        "ClaimedByAnother",
        "Invalid",
        "InvalidDeclaration",
        "Refused",
        "TableMissing",
        "TableReplaced",
        "Unreadable",
    }
)
_AS_WANTED = frozenset({"Drifted"})  # managementPolicy asks for leaving a difference alone


def with_progress(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions of a table, a policy or a catalog, with the one that says whether it is on its way or stuck."""
    found = tuple(conditions)
    open_ = [each for each in found if each.status != "True" and each.reason not in _AS_WANTED and _is_about_us(each)]
    stuck = next((each for each in open_ if each.reason in _FOR_A_PERSON), None)
    if stuck is not None:
        return *found, stalled(stuck.reason, stuck.message)
    if open_:
        return *found, reconciling(open_[0].reason, open_[0].message)
    return found


def reconciling(reason: str, message: str) -> Condition:
    return condition(RECONCILING, True, reason, message)


def stalled(reason: str, message: str) -> Condition:
    return condition(STALLED, True, reason, message)


def _is_about_us(found: Condition) -> bool:
    return found.type in (READY, IN_SYNC, VALID)
