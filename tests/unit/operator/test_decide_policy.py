"""Which policy holds for a table, and when it makes a compaction start."""

from datetime import timedelta
from typing import Any

import pytest

from tablewright.api.objects import parse
from tablewright.api.policy import TablePolicy
from tablewright.api.table import ManagedTable
from tablewright.decide.policy import effective_policy
from tests.unit.operator.values import NOW, decide, managed_table, present


def policy(name: str, **spec: Any) -> TablePolicy:
    return parse(TablePolicy, {"metadata": {"name": name, "namespace": "sales"}, "spec": spec})


def plain_table(labels: dict[str, str] | None = None, **spec: Any) -> ManagedTable:
    """A table that says nothing of maintenance by itself, created a day ago."""
    table = managed_table(compaction={}, **spec)
    update = {"labels": labels or {}, "creation_timestamp": NOW - timedelta(days=1)}
    return table.model_copy(update={"metadata": table.metadata.model_copy(update=update)})


def origins(table: ManagedTable, *policies: TablePolicy) -> dict[str, tuple[str, str]]:
    return {field.field: (field.value, field.origin) for field in effective_policy(table, policies).fields}


def test_the_table_wins_over_policies_and_policies_over_defaults_field_by_field() -> None:
    table = managed_table(compaction={"triggers": {"smallFiles": 10}})
    found = origins(table, policy("p", compaction={"triggers": {"smallFiles": 99}, "minInputFiles": 7}))
    assert found["compaction.triggers.smallFiles"] == ("10", "table")
    assert found["compaction.minInputFiles"] == ("7", "policy/p")
    assert found["compaction.coolDown"] == ("0d", "default")


def test_of_policies_the_higher_priority_wins_then_the_first_by_name() -> None:
    policies = [
        policy("b", compaction={"minInputFiles": 2}),
        policy("c", compaction={"minInputFiles": 3}, priority=5),
        policy("a", compaction={"minInputFiles": 4, "coolDown": "10m"}),
    ]
    found = origins(plain_table(), *policies)
    assert found["compaction.minInputFiles"] == ("3", "policy/c")
    assert found["compaction.coolDown"] == ("10m", "policy/a")


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"tier": "gold"}}, True),
        ({"matchLabels": {"tier": "silver"}}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"tier": "gold"}, "matchExpressions": [{"key": "team", "operator": "Exists"}]}, False),
    ],
)
def test_policies_select_tables_by_label(selector: dict[str, Any], selected: bool) -> None:
    found = effective_policy(
        plain_table({"tier": "gold"}), [policy("p", selector=selector, compaction={"minInputFiles": 9})]
    )
    assert (found.min_input_files == 9) == selected


def test_a_policy_of_another_namespace_says_nothing() -> None:
    stranger = parse(
        TablePolicy, {"metadata": {"name": "p", "namespace": "other"}, "spec": {"compaction": {"minInputFiles": 9}}}
    )
    assert effective_policy(plain_table(), [stranger]).min_input_files == 5


@pytest.mark.parametrize("table_says", [None, False, True])
def test_whoever_says_suspend_is_heard(table_says: bool | None) -> None:
    table = plain_table() if table_says is None else plain_table(suspend=table_says)
    assert effective_policy(table, [policy("p", suspend=True)]).suspend
    assert effective_policy(table, []).suspend == bool(table_says)


def test_a_policys_trigger_starts_a_compaction() -> None:
    policies = [policy("p", compaction={"triggers": {"smallFiles": 10}})]
    assert decide(plain_table(), present(small_files=10), [], NOW, policies=policies).start is not None
    assert decide(plain_table(), present(small_files=10), [], NOW).start is None


HOURLY = [policy("hourly", compaction={"schedule": "0 * * * *"})]


def test_a_scheduled_time_starts_a_compaction_where_there_is_enough_to_do() -> None:
    assert decide(plain_table(), present(small_files=5), [], NOW, policies=HOURLY).start is not None
    assert decide(plain_table(), present(small_files=4), [], NOW, policies=HOURLY).start is None


def test_outside_its_windows_nothing_starts_and_the_next_opening_is_waited_for() -> None:
    windows = [{"days": ["Sun"], "start": "22:00", "duration": "8h"}]  # NOW is a Sunday, at noon
    table = managed_table(windows=windows)
    decision = decide(table, present(small_files=50), [], NOW)
    assert decision.start is None
    assert decision.look_again_at == NOW + timedelta(hours=10)
    assert decide(table, present(small_files=50), [], NOW + timedelta(hours=10)).start is not None
