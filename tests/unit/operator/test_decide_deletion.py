"""What happens to the table when its object is deleted: as declared, and never more than that."""

from datetime import timedelta

import pytest

from tablewright.api.objects import InvalidObjectError, parse
from tablewright.api.table import ManagedTable
from tablewright.decide.deletion import LONGEST_HOLD, DropTable, decide_deletion, deletion_waits, wants_finalizer
from tablewright.decide.state import CatalogUnusable, TableAbsent, TableObservation, TablePresent, TableUnreadable
from tests.unit.operator.values import NOW, decide, managed_table, present, run

LONG_AGO = NOW - LONGEST_HOLD - timedelta(seconds=1)


def deleted(observed: TablePresent | None, policy: str, *, management: str = "Full") -> ManagedTable:
    """The table's object on its way out, having recorded the observed table."""
    table = managed_table(deletionPolicy=policy, managementPolicy=management)
    status = decide(table, observed, [], NOW).status if observed else table.status
    long_ago = NOW - LONGEST_HOLD * 2  # nobody may have been there to do anything about it
    metadata = table.metadata.model_copy(update={"deletion_timestamp": long_ago})
    return table.model_copy(update={"status": status, "metadata": metadata})


def purging(table: ManagedTable) -> ManagedTable:
    return table.model_copy(update={"status": table.status.model_copy(update={"purging": "file:///m.json"})})


@pytest.mark.parametrize(("policy", "purge"), [("Drop", False), ("Purge", True)])
def test_drop_and_purge_remove_the_table_and_let_the_object_go(policy: str, purge: bool) -> None:
    observed = present()
    decision = decide_deletion(deleted(observed, policy), observed, [], NOW)
    assert decision.drop == DropTable(purge=purge, uuid=str(observed.metadata.table_uuid))
    assert decision.release


def test_retain_touches_nothing() -> None:
    observed = present()
    decision = decide_deletion(deleted(observed, "Retain"), observed, [], NOW)
    assert (decision.drop, decision.release) == (None, True)


@pytest.mark.parametrize("policy", ["Drop", "Purge"])
def test_a_table_that_is_only_observed_is_left_to_others_whatever_else_was_declared(policy: str) -> None:
    """Handed over to somebody else by ObserveOnly, it must not go with the object that had it."""
    observed = present()
    table = deleted(observed, policy, management="ObserveOnly")
    decision = decide_deletion(table, observed, [], NOW)
    assert (decision.drop, decision.release) == (None, True)
    assert not wants_finalizer(table)


@pytest.mark.parametrize("policy", ["Drop", "Purge"])
def test_a_table_that_this_object_never_had_is_not_dropped(policy: str) -> None:
    decision = decide_deletion(deleted(None, policy), present(), [], NOW)
    assert (decision.drop, decision.release) == (None, True)


@pytest.mark.parametrize("policy", ["Drop", "Purge"])
def test_a_table_that_somebody_re_created_is_not_dropped(policy: str) -> None:
    decision = decide_deletion(deleted(present(), policy), present(), [], NOW)
    assert (decision.drop, decision.release) == (None, True)


def test_a_catalog_that_is_gone_does_not_trap_the_object() -> None:
    gone = CatalogUnusable("CatalogNotFound", "there is no TableCatalog lake")
    assert decide_deletion(deleted(present(), "Purge"), gone, [], NOW).release


@pytest.mark.parametrize("observed", [CatalogUnusable("CatalogUnreachable", "no answer"), TableUnreadable("torn")])
def test_an_unreachable_table_holds_the_object_for_a_while_and_not_for_ever(observed: TableObservation) -> None:
    first = decide_deletion(deleted(present(), "Purge"), observed, [], NOW)
    assert not first.release
    assert first.look_again_at is not None
    last = decide_deletion(deleted(present(), "Purge"), observed, [], NOW, waits_since=LONG_AGO)
    assert last.release
    assert last.drop is None


def test_a_table_that_is_gone_already_lets_the_object_go() -> None:
    assert decide_deletion(deleted(present(), "Drop"), TableAbsent(), [], NOW).release


def test_runs_are_stopped_before_the_table_is_dropped() -> None:
    observed = present()
    decision = decide_deletion(deleted(observed, "Purge"), observed, [run("r", "Running")], NOW)
    assert decision.stop_runs == ("r",)
    assert (decision.drop, decision.release) == (None, False)


def test_a_run_that_stays_though_it_was_stopped_does_not_hold_the_object_for_ever() -> None:
    observed = present()
    runs = [run("kept-by-a-strangers-finalizer", "Running")]
    decision = decide_deletion(deleted(observed, "Purge"), observed, runs, NOW, waits_since=LONG_AGO)
    assert (decision.drop, decision.release) == (None, True)
    assert "kept-by-a-strangers-finalizer" in decision.note


def test_a_purge_that_was_cut_short_goes_on_though_the_table_is_not_in_the_catalog_any_more() -> None:
    observed = present()
    table = purging(deleted(observed, "Purge"))
    rest = DropTable(purge=True, uuid=str(observed.metadata.table_uuid), left_at="file:///m.json")
    assert decide_deletion(table, TableAbsent(), [], NOW).drop == rest
    assert decide_deletion(table, TableAbsent(), [run("r", "Running")], NOW).stop_runs == ("r",)


def test_a_purge_that_was_cut_short_takes_nothing_of_a_table_that_has_the_name_by_now() -> None:
    decision = decide_deletion(purging(deleted(present(), "Purge")), present(), [], NOW)
    assert (decision.drop, decision.release) == (None, True)


def test_only_policies_that_touch_the_table_need_a_finalizer() -> None:
    assert [wants_finalizer(managed_table(deletionPolicy=p)) for p in ("Retain", "Drop", "Purge")] == [
        False,
        True,
        True,
    ]


def test_a_bad_policy_is_refused() -> None:
    with pytest.raises(InvalidObjectError, match="deletionPolicy"):
        parse(ManagedTable, {"metadata": {"name": "t"}, "spec": {"deletionPolicy": "Delete"}})


@pytest.mark.parametrize("policy", ["Drop", "Purge"])
def test_a_table_that_an_older_object_has_is_not_dropped_with_the_younger(policy: str) -> None:
    observed = present()
    decision = decide_deletion(deleted(observed, policy), observed, [], NOW, claimed_by=managed_table())
    assert (decision.drop, decision.release) == (None, True)


def test_a_table_that_cannot_be_dropped_holds_its_object_for_a_while_and_not_for_ever() -> None:
    for since in (None, NOW - LONGEST_HOLD / 2):
        young = deletion_waits("access denied", since, NOW)
        assert (young.release, young.look_again_at is not None) == (False, True)
    old = deletion_waits("access denied", LONG_AGO, NOW)
    assert old.release
    assert "access denied" in old.note
