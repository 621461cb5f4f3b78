"""What is decided about a table."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tableformat.declaration import Refusal, RefusalKind
from tablewright.api.table import ManagedTable, ManagedTableStatus
from tablewright.decide.happenings import table_happenings
from tablewright.decide.state import (
    ApplyDeclaration,
    CatalogUnusable,
    CreationRefused,
    TableAbsent,
    TableDecision,
    TableObservation,
    TablePresent,
    TableUnreadable,
)
from tests.unit.operator.values import COLUMNS, NOW, decide, health, managed_table, present, run


def conditions(decision: TableDecision) -> dict[str, str]:
    return {condition.type: f"{condition.status}/{condition.reason}" for condition in decision.status.conditions}


def test_an_absent_table_is_created() -> None:
    decision = decide(managed_table(), TableAbsent(), [], NOW)
    assert isinstance(decision.apply, ApplyDeclaration)
    assert decision.apply.declaration.identifier == ("sales", "events")
    assert conditions(decision)["Ready"] == "False/Creating"


def test_a_table_as_declared_needs_nothing() -> None:
    decision = decide(managed_table(), present(), [], NOW)
    assert (decision.apply, decision.start, decision.look_again_at) == (None, None, None)
    assert conditions(decision) == {
        "Ready": "True/Available",
        "InSync": "True/AsDeclared",
        "Healthy": "True/WithinPolicy",
        "Maintained": "True/NothingDone",
    }
    assert decision.status.observed_generation == 3
    assert decision.status.health is not None
    assert decision.status.identity is not None


def known(observed: TablePresent, **spec: Any) -> ManagedTable:
    """The declared table, once its identity is in its status."""
    quiet = TablePresent(observed.metadata, observed.metadata_location, health())
    status = decide(managed_table(), quiet, [], NOW).status
    return managed_table(**spec).model_copy(update={"status": status})


def test_a_second_look_at_an_unchanged_table_gives_the_same_status() -> None:
    observed = present()
    table = known(observed)
    assert decide(table, observed, [], NOW + timedelta(hours=1)).status == table.status


def test_a_new_column_is_applied() -> None:
    columns = [*COLUMNS, {"name": "city", "type": "string"}]
    observed = present()
    decision = decide(known(observed, schema={"columns": columns}), observed, [], NOW)
    assert decision.apply is not None
    assert conditions(decision)["InSync"] == "False/Evolving"


def test_a_table_that_was_there_before_is_recorded_before_it_is_changed() -> None:
    columns = [*COLUMNS, {"name": "city", "type": "string"}]
    decision = decide(managed_table(schema={"columns": columns}), present(), [], NOW)
    assert decision.apply is None
    assert decision.status.identity is not None
    assert decision.look_again_at == NOW


def test_a_creation_that_is_refused_says_why() -> None:
    refusal = Refusal(RefusalKind.LOCATION_OVERLAP, "location", "it is inside another table's", "Choose another")
    decision = decide(managed_table(), CreationRefused((refusal,)), [], NOW)
    assert decision.apply is None
    refused = dict.fromkeys(("Ready", "InSync"), "False/Refused")
    assert conditions(decision) == {**refused, "Stalled": "True/Refused"}


def test_a_change_that_would_lose_data_is_refused_and_the_table_stays_ready() -> None:
    columns = [{"name": "id", "type": "int"}]
    decision = decide(managed_table(schema={"columns": columns}), present(), [], NOW)
    assert decision.apply is None
    assert conditions(decision)["InSync"] == "False/Refused"
    assert conditions(decision)["Ready"] == "True/Available"


def test_a_type_that_does_not_exist_is_named() -> None:
    columns = [{"name": "id", "type": "lnog"}]
    decision = decide(managed_table(schema={"columns": columns}), TableAbsent(), [], NOW)
    assert decision.apply is None
    [in_sync] = [c for c in decision.status.conditions if c.type == "InSync"]
    assert in_sync.reason == "InvalidDeclaration"
    assert "lnog" in in_sync.message
    assert "id" in in_sync.message


def test_an_unreachable_catalog_keeps_what_is_known() -> None:
    table = known(present())
    decision = decide(table, CatalogUnusable("CatalogUnreachable", "no answer"), [], NOW)
    assert (decision.apply, decision.start) == (None, None)
    assert decision.look_again_at is not None
    assert decision.status.identity == table.status.identity
    assert conditions(decision) == {
        "InSync": "True/AsDeclared",
        "Healthy": "True/WithinPolicy",
        "Maintained": "True/NothingDone",
        "Ready": "Unknown/CatalogUnreachable",
        "Reconciling": "True/CatalogUnreachable",
    }


@pytest.mark.parametrize("trouble", [CatalogUnusable("CatalogUnreachable", "no answer"), TableUnreadable("torn")])
def test_an_outage_is_told_and_nothing_that_was_known_before_is_told_again_after_it(trouble: TableObservation) -> None:
    table = managed_table(managementPolicy="MaintainOnly", properties={"a": "b"})
    table = table.model_copy(update={"status": decide(table, present(small_files=99), [], NOW).status})
    before = {each.type: each for each in table.status.conditions}
    told: list[str] = []
    for number, observed in enumerate((trouble, trouble, present(small_files=99))):
        if isinstance(observed, TablePresent):
            same = observed.metadata.model_copy(update={"table_uuid": UUID(table.status.identity.uuid)})  # type: ignore[union-attr]
            observed = TablePresent(same, observed.metadata_location, observed.health)
        status = decide(table, observed, [], NOW + timedelta(minutes=number + 1)).status
        told += [happening.reason for happening in table_happenings(table, status)]
        for each in status.conditions:
            if each.type not in ("Ready", "Reconciling", "Stalled"):
                old = before[each.type]
                assert (each.status, each.last_transition_time) == (old.status, old.last_transition_time)
        assert before.keys() <= {each.type for each in status.conditions}
        table = table.model_copy(update={"status": status})
    assert told == ["CatalogUnreachable" if isinstance(trouble, CatalogUnusable) else "Unreadable", "Available"]


def test_unreadable_metadata_is_left_alone_and_looked_at_again() -> None:
    """No event tells of a file that was restored, as the message asks for."""
    decision = decide(managed_table(), TableUnreadable("the pointer names a file that is gone"), [], NOW)
    assert (decision.apply, decision.start) == (None, None)
    assert decision.look_again_at is not None
    assert conditions(decision)["Ready"] == "False/Unreadable"


def test_a_table_that_someone_re_created_is_not_taken_over() -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "new", "type": "long"}]
    table = known(present(), schema={"columns": columns})
    decision = decide(table, present(small_files=50), [], NOW)
    assert (decision.apply, decision.start) == (None, None)
    assert conditions(decision)["InSync"] == "False/TableReplaced"
    assert decision.status.identity == table.status.identity


def test_a_table_that_someone_dropped_is_not_silently_created_again() -> None:
    decision = decide(known(present()), TableAbsent(), [], NOW)
    assert decision.apply is None
    assert conditions(decision)["Ready"] == "False/TableMissing"


# -- when maintenance runs


def test_too_many_small_files_start_a_compaction() -> None:
    decision = decide(managed_table(), present(small_files=10), [], NOW)
    assert decision.start is not None
    assert conditions(decision)["Healthy"] == "False/TooManySmallFiles"


@pytest.mark.parametrize("small_files", [0, 9])
def test_a_tolerable_number_of_small_files_starts_none(small_files: int) -> None:
    assert decide(managed_table(), present(small_files=small_files), [], NOW).start is None


@pytest.mark.parametrize(
    "table", [managed_table(compaction={}), managed_table(suspend=True)], ids=["no trigger", "suspended"]
)
def test_nothing_starts_unasked(table: ManagedTable) -> None:
    assert decide(table, present(small_files=1000), [], NOW).start is None


@pytest.mark.parametrize("phase", [None, "Pending", "Running"])
def test_one_run_a_table_at_a_time(phase: str | None) -> None:
    assert decide(managed_table(), present(small_files=50), [run("other", phase)], NOW).start is None


def test_the_same_cause_starts_the_same_run() -> None:
    first = decide(managed_table(), present(small_files=50), [], NOW)
    second = decide(managed_table(), present(small_files=50), [], NOW + timedelta(hours=5))
    assert first.start == second.start


# -- how far the object rules the table


@pytest.mark.parametrize("policy", ["MaintainOnly", "ObserveOnly"])
def test_only_full_management_changes_a_table(policy: str) -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "new", "type": "long"}]
    observed = present()
    decision = decide(known(observed, managementPolicy=policy, schema={"columns": columns}), observed, [], NOW)
    assert decision.apply is None
    assert conditions(decision)["InSync"] == "False/Drifted"


@pytest.mark.parametrize(("policy", "starts"), [("Full", True), ("MaintainOnly", True), ("ObserveOnly", False)])
def test_only_observation_maintains_nothing(policy: str, starts: bool) -> None:
    observed = present(small_files=50)
    decision = decide(known(observed, managementPolicy=policy), observed, [], NOW)
    assert (decision.start is not None) == starts


@pytest.mark.parametrize("policy", ["MaintainOnly", "ObserveOnly"])
def test_only_full_management_creates_a_table(policy: str) -> None:
    decision = decide(managed_table(managementPolicy=policy), TableAbsent(), [], NOW)
    assert decision.apply is None
    assert conditions(decision)["Ready"] == "False/TableAwaited"


def test_a_table_that_others_define_needs_no_schema() -> None:
    observed = present()
    decision = decide(managed_table(managementPolicy="MaintainOnly", schema=None), observed, [], NOW)
    assert conditions(decision)["InSync"] == "True/AsDeclared"


def test_a_property_that_is_no_longer_declared_is_unset_and_others_are_left_alone() -> None:
    observed = present()
    table = managed_table().model_copy(update={"status": known(observed).status})
    assert table.status.declared_properties == ()
    declared = known(observed, layout={"targetFileSize": "512Mi"})
    status = decide(declared, observed, [], NOW).status
    assert status.declared_properties == ("write.target-file-size-bytes",)
    forgotten = managed_table().model_copy(update={"status": status})
    decision = decide(forgotten, observed, [], NOW)
    assert decision.apply is not None
    assert conditions(decision)["InSync"] == "False/Evolving"
    assert decide(table, observed, [], NOW).apply is None


def test_the_status_says_that_the_tables_own_properties_keep_its_snapshots() -> None:
    def shown(status: ManagedTableStatus) -> dict[str, tuple[str, str]]:
        found = {field.field: (field.value, field.origin) for field in status.effective_policy}
        return {name.rsplit(".")[-1]: found[name] for name in found if name.startswith("retention.snapshots.m")}

    table = managed_table(retention={"snapshots": {"minCount": 3}})
    age = "history.expire.max-snapshot-age-ms"
    own = present(properties={age: "172800000", "history.expire.min-snapshots-to-keep": "9"})
    status = decide(table, own, [], NOW).status
    expected = {"maxAge": ("2d", f"property/{age}"), "minCount": ("3", "table")}
    assert shown(status) == expected
    known = table.model_copy(update={"status": status})
    assert shown(decide(known, CatalogUnusable("CatalogUnreachable", "x"), [], NOW).status) == expected
    assert shown(decide(table, present(), [], NOW).status)["maxAge"] == ("5d", "default")
    for odd, said in (("1500", "1500ms"), (str(2**63 - 1), f"{2**63 - 1}ms"), ("5 days", "5 days")):
        assert shown(decide(table, present(properties={age: odd}), [], NOW).status)["maxAge"][0] == said


@pytest.mark.parametrize("operation", ["Rollback", "Inspect"])
def test_what_a_person_tried_in_vain_does_not_say_that_the_table_is_not_maintained(operation: str) -> None:
    oops = run("oops", "Failed", operation=operation, reason="Refused", message="no such tag")
    assert conditions(decide(managed_table(), present(), [oops], NOW))["Maintained"] == "True/NothingDone"
    broken = run("broken", "Failed", operation="Compact", reason="Refused", message="no")
    assert conditions(decide(managed_table(), present(), [broken], NOW))["Maintained"] == "False/RunFailed"


def test_the_status_says_in_two_fields_when_maintenance_was_and_when_it_is_next() -> None:
    """What `kubectl get` shows of all operations together."""
    operations = [
        {"operation": "Compact", "lastSuccess": "2026-02-01T00:00:00Z", "nextRun": "2026-03-02T00:00:00Z"},
        {"operation": "ExpireSnapshots", "lastSuccess": "2026-02-02T00:00:00Z"},
        {"operation": "Inspect", "nextRun": "2026-03-01T13:00:00Z"},
    ]
    table = managed_table(status={"operations": operations})
    status = decide(table, CatalogUnusable("CatalogUnreachable", "no answer"), [], NOW).status
    assert status.last_maintenance == datetime(2026, 2, 2, tzinfo=UTC)
    assert status.next_maintenance == NOW + timedelta(hours=1)
    nothing = decide(managed_table(), present(), [], NOW).status
    assert (nothing.last_maintenance, nothing.next_maintenance) == (None, None)
