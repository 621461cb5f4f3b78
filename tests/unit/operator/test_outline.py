"""Objects that the API server takes and the models do not, read as far as it goes."""

from typing import Any

import pytest

from tablewright.api.objects import InvalidObjectError, parse
from tablewright.api.outline import policy_outline, run_outline, table_outline
from tablewright.api.table import DeletionPolicy, ManagedTable, ManagementPolicy
from tests.unit.operator.values import NOW, decide, managed_table, present, run

METADATA = {"name": "events", "namespace": "sales", "uid": "u"}


def garbled_table(**changes: Any) -> dict[str, Any]:
    spec = {"catalogRef": {"name": "lake"}, "deletionPolicy": "Purge", "timeZone": "Mars/Olympus"}
    identity = decide(managed_table(), present(), [], NOW).status.identity
    assert identity is not None
    return {"metadata": METADATA, "spec": spec, "status": {"identity": identity.to_json()}, **changes}


def test_a_table_that_cannot_be_read_still_says_which_table_it_is_and_what_its_deletion_does() -> None:
    garbled = garbled_table()
    with pytest.raises(InvalidObjectError):
        parse(ManagedTable, garbled)
    outline = table_outline(garbled)
    assert outline is not None
    assert (outline.identifier, outline.spec.deletion_policy) == (("sales", "events"), DeletionPolicy.PURGE)
    assert outline.status.identity is not None
    observed = table_outline(garbled_table(spec={**garbled["spec"], "managementPolicy": "ObserveOnly"}))
    assert observed is not None
    assert observed.spec.management_policy is ManagementPolicy.OBSERVE_ONLY


def test_a_status_that_cannot_be_read_is_left_out() -> None:
    outline = table_outline(garbled_table(status={"identity": {"uuid": 7}}))
    assert outline is not None
    assert outline.status.identity is None


def test_a_table_that_can_be_read_is_read_whole() -> None:
    table = managed_table()
    whole = {"metadata": table.metadata.model_dump(by_alias=True), "spec": table.spec.to_json()}
    outline = table_outline(whole)
    assert outline is not None
    assert outline.spec == table.spec


def test_a_status_that_a_newer_operator_wrote_is_read_as_far_as_it_is_known() -> None:
    known = decide(managed_table(), present(small_files=50), [], NOW).status.to_json()
    newer = {**known, "invented": 1, "health": {**known["health"], "entropy": 2}}
    newer["operations"] = [{**each, "mood": "good"} for each in known["operations"]]
    read = parse(ManagedTable, {**garbled_table(), "spec": {"catalogRef": {"name": "lake"}}, "status": newer})
    assert read.status.to_json() == known
    assert read.status.operations


def test_a_table_without_a_catalog_has_no_outline() -> None:
    assert table_outline({"metadata": METADATA, "spec": {}}) is None


@pytest.mark.parametrize(("labels", "selected"), [({"team": "mars"}, True), ({}, False)])
def test_a_policy_that_cannot_be_read_still_says_whom_it_selects(labels: dict[str, str], selected: bool) -> None:
    spec = {"selector": {"matchLabels": {"team": "mars"}}, "timeZone": "Mars/Olympus"}
    outline = policy_outline({"metadata": METADATA, "spec": spec})
    assert outline is not None
    assert outline.spec.selector.selects(labels) == selected


def test_a_selector_that_cannot_be_read_selects_everybody() -> None:
    outline = policy_outline({"metadata": METADATA, "spec": {"selector": {"matchLabel": {}}}})
    assert outline is not None
    assert outline.spec.selector.selects({"any": "table"})


def test_a_run_that_cannot_be_read_still_holds_its_table() -> None:
    known = run("r", "Running", jobName="r")
    obj = {"metadata": METADATA, "spec": known.spec.to_json() | {"news": 1}, "status": known.status.to_json()}
    outline = run_outline(obj)
    assert outline is not None
    assert outline.status.job_name == "r"
    assert not outline.status.is_finished


def test_a_table_is_not_maintained_while_one_of_its_policies_cannot_be_read() -> None:
    decision = decide(managed_table(), present(small_files=50), [], NOW, broken_policies=["TablePolicy p: bad"])
    assert decision.start is None
    [maintained] = [c for c in decision.status.conditions if c.type == "Maintained"]
    assert (maintained.reason, "TablePolicy p: bad" in maintained.message) == ("PolicyInvalid", True)
