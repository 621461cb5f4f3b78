"""Which tables are in trouble, as Prometheus reads it: one series for each condition that does not hold."""

from typing import Any

import pytest

from tablewright.api.table import ManagedTable
from tablewright.runtime.metrics import Metrics
from tablewright.runtime.store import ObjectStore


def table(name: str, **conditions: str) -> dict[str, Any]:
    """Conditions are given as `status/reason`."""
    found = [
        dict(zip(("type", "status", "reason"), (kind, *said.split("/")), strict=True))
        for kind, said in conditions.items()
    ]
    return {
        "metadata": {"namespace": "sales", "name": name, "uid": name},
        "status": {"conditions": found},
    }


def troubles(*tables: dict[str, Any], leads: bool = True, most_tables: int = 10) -> list[str]:
    store, metrics = ObjectStore(), Metrics()
    for each in tables:
        store.put(ManagedTable.kind_name, each)
    metrics.watch_tables(store, lambda: leads, most_tables=most_tables)
    lines = metrics.text().decode().splitlines()
    return [line.removeprefix("tablewright_table_trouble") for line in lines if line.startswith("tablewright_table_tr")]


REFUSED = table("refused", Ready="True/Available", InSync="False/Refused", Stalled="True/Refused")
LOST = table("lost", Ready="Unknown/PassFailed", InSync="Unknown/PassFailed")
WELL = table("a-well-one", Ready="True/Available", InSync="True/AsDeclared")
NEW: dict[str, Any] = {"metadata": {"namespace": "sales", "name": "new", "uid": "new"}}


def test_what_does_not_hold_is_told_with_its_reason_and_what_holds_is_not() -> None:
    assert troubles(REFUSED, LOST, WELL, NEW) == [
        '{condition="Ready",namespace="sales",reason="PassFailed",status="Unknown",table="lost"} 1.0',
        '{condition="InSync",namespace="sales",reason="PassFailed",status="Unknown",table="lost"} 1.0',
        '{condition="InSync",namespace="sales",reason="Refused",status="False",table="refused"} 1.0',
    ]


def test_conditions_that_are_there_only_while_something_goes_on_are_no_trouble() -> None:
    busy = table("busy", Ready="True/Available", RunAccepted="False/NotAllowed", Reconciling="Unknown/Evolving")
    assert troubles(busy) == []


@pytest.mark.parametrize(("most", "told"), [(0, 0), (1, 2), (2, 3)])
def test_the_limit_counts_the_tables_in_trouble_not_those_that_are_well(most: int, told: int) -> None:
    assert len(troubles(REFUSED, LOST, WELL, most_tables=most)) == told


def test_a_standby_tells_of_no_table() -> None:
    assert troubles(REFUSED, leads=False) == []
