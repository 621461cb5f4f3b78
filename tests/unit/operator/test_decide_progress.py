"""What tools read that know nothing of our kinds: kstatus takes an object for current, in progress or failed.

`as_tools_read` is kstatus' rule for custom resources whose generation was observed: Reconciling, Stalled, then Ready.
"""

from datetime import timedelta
from typing import Any

import pytest

from tableformat.declaration import Refusal, RefusalKind
from tablewright.api.conditions import Condition
from tablewright.decide.happenings import table_happenings
from tablewright.decide.runs import Waiting, decide_run
from tablewright.decide.state import (
    CatalogUnusable,
    CreationRefused,
    JobObservation,
    TableAbsent,
    TableObservation,
    TableUnreadable,
)
from tablewright.decide.validity import Problem, unreadable_table_conditions, usability_status
from tests.unit.operator.test_decide_tables import known
from tests.unit.operator.values import NOW, decide, managed_table, present, run


def as_tools_read(conditions: tuple[Condition, ...]) -> str:
    holds = {each.type: each.status == "True" for each in conditions}
    if holds.get("Reconciling"):
        return "InProgress"
    if holds.get("Stalled"):
        return "Failed"
    return "Current" if holds.get("Ready", True) else "InProgress"


def types(conditions: tuple[Condition, ...]) -> set[str]:
    return {each.type for each in conditions} & {"Reconciling", "Stalled"}


@pytest.mark.parametrize(
    ("observed", "read"),
    [
        (present(), "Current"),
        (TableAbsent(), "InProgress"),
        (CatalogUnusable("CatalogNotFound", "there is none"), "InProgress"),
        (CatalogUnusable("CatalogUnreachable", "no answer"), "InProgress"),
        (CatalogUnusable("CatalogInvalid", "no such time zone"), "Failed"),
        (TableUnreadable("no JSON"), "Failed"),
    ],
)
def test_a_table_is_current_on_its_way_or_failed(observed: TableObservation, read: str) -> None:
    conditions = decide(managed_table(), observed, [], NOW).status.conditions
    assert as_tools_read(conditions) == read
    assert len(types(conditions)) == (read != "Current"), "present only when true, and never both"


def test_a_refused_change_fails_though_the_table_stays_ready() -> None:
    observed = present()
    table = known(observed, schema={"columns": [{"name": "id", "type": "int"}]})
    conditions = decide(table, observed, [], NOW).status.conditions
    assert {each.type: each.status for each in conditions}["Ready"] == "True"
    assert as_tools_read(conditions) == "Failed"
    [stalled] = [each for each in conditions if each.type == "Stalled"]
    assert "schema.columns[id].type" in stalled.message
    mended = known(observed).model_copy(update={"status": table.status.model_copy(update={"conditions": conditions})})
    assert types(decide(mended, observed, [], NOW).status.conditions) == set(), "it goes when it is not true any more"


def test_what_only_a_person_can_settle_fails() -> None:
    assert as_tools_read(decide(managed_table(), present(), [], NOW, claimed_by=managed_table()).status.conditions) == (
        "Failed"
    )
    assert as_tools_read(decide(known(present()), TableAbsent(), [], NOW).status.conditions) == "Failed"
    assert as_tools_read(decide(known(present()), present(), [], NOW).status.conditions) == "Failed", "another uuid"
    broken = managed_table(schema={"columns": [{"name": "id", "type": "lang"}]})
    assert as_tools_read(decide(broken, TableAbsent(), [], NOW).status.conditions) == "Failed"


def test_a_creation_that_is_refused_fails() -> None:
    refusal = Refusal(RefusalKind.LOCATION_OVERLAP, "location", "it is taken", "Choose another")
    conditions = decide(managed_table(), CreationRefused((refusal,)), [], NOW).status.conditions
    assert as_tools_read(conditions) == "Failed"


def test_a_table_that_others_are_to_create_is_waited_for() -> None:
    conditions = decide(managed_table(managementPolicy="MaintainOnly"), TableAbsent(), [], NOW).status.conditions
    assert as_tools_read(conditions) == "InProgress"


def test_a_difference_that_the_policy_leaves_alone_is_no_failure() -> None:
    observed = present()
    columns: dict[str, Any] = {"columns": [{"name": "id", "type": "long"}, {"name": "more", "type": "int"}]}
    table = known(observed, managementPolicy="MaintainOnly", schema=columns)
    conditions = decide(table, observed, [], NOW).status.conditions
    assert {each.type: each.reason for each in conditions}["InSync"] == "Drifted"
    assert as_tools_read(conditions) == "Current"


def test_failing_maintenance_is_no_failure_of_the_table() -> None:
    failed = run("r", "Failed", reason="OutOfMemory", message="no memory")
    conditions = decide(managed_table(), present(), [failed], NOW).status.conditions
    assert {each.type: each.status for each in conditions}["Maintained"] == "False"
    assert as_tools_read(conditions) == "Current"


def job(**facts: Any) -> JobObservation:
    plain: dict[str, Any] = {"active": False, "succeeded": False, "failed": False}
    return JobObservation(**{**plain, **facts})


def test_a_run_is_on_its_way_until_it_ends_and_stays_failed() -> None:
    waiting = decide_run(run("r", None), None, None, NOW, waiting=Waiting("waits")).status
    assert as_tools_read(waiting.conditions) == "InProgress"
    assert as_tools_read(decide_run(run("r", None), None, job(active=True), NOW).status.conditions) == "InProgress"
    succeeded = decide_run(run("r", None), None, job(succeeded=True), NOW).status.conditions
    assert (as_tools_read(succeeded), types(succeeded)) == ("Current", set())
    assert as_tools_read(decide_run(run("r", None), "no table", None, NOW).status.conditions) == "Failed"


@pytest.mark.parametrize(
    ("problem", "read"),
    [
        (None, "Current"),
        (Problem("Invalid", "no such time zone"), "Failed"),
        (Problem("CatalogInvalid", "no such time zone"), "Failed"),
        (Problem("SecretNotFound", "no Secret keys"), "InProgress"),
    ],
)
@pytest.mark.parametrize("kind", ["Valid", "Ready"])
def test_policies_and_catalogs_are_read_so_too(problem: Problem | None, read: str, kind: str) -> None:
    found = usability_status(kind, problem, (), generation=1, now=NOW)["conditions"]
    assert as_tools_read(tuple(Condition.model_validate(each) for each in found)) == read


def test_what_is_stuck_is_told_once_in_the_words_of_the_condition_that_says_so() -> None:
    observed = present()
    table = known(observed, schema={"columns": [{"name": "id", "type": "int"}]})
    status = decide(table, observed, [], NOW).status
    assert [happening.reason for happening in table_happenings(table, status)] == ["Refused"]


def test_a_declaration_that_cannot_be_read_fails_and_keeps_what_is_known_of_the_table() -> None:
    before = decide(managed_table(), present(), [], NOW).status.conditions
    later = NOW + timedelta(hours=1)
    found = unreadable_table_conditions("no such time zone", before, generation=4, now=later)
    assert as_tools_read(found) == "Failed"
    said = {each.type: (each.status, each.observed_generation) for each in found}
    assert said["Ready"] == ("True", 3)
    assert said["InSync"] == ("False", 4)
    again = unreadable_table_conditions("no such time zone", found, generation=4, now=later + timedelta(hours=1))
    assert set(again) == set(found), "a second look says the same, since the same time"


def test_of_a_new_table_whose_declaration_cannot_be_read_nothing_is_known() -> None:
    found = unreadable_table_conditions("no such time zone", (), generation=1, now=NOW)
    assert {each.type: each.status for each in found} == {"Ready": "False", "InSync": "False", "Stalled": "True"}
