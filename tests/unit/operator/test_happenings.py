"""What people are told, from one status to the next: once each, and the same again after a crash."""

from datetime import timedelta

from tablewright.act.events import LONGEST_NOTE, build_event
from tablewright.api.run import MaintenanceRunStatus, Operation, Phase, RunResult
from tablewright.api.table import HoldState, HoldStatus, ManagedTableStatus, OperationStatus
from tablewright.decide.deletion import DeletionDecision, DropTable
from tablewright.decide.happenings import Happening, deletion_happenings, run_happenings, table_happenings
from tablewright.decide.state import CatalogUnusable, TablePresent
from tests.unit.operator.values import NOW, decide, health, managed_table, metadata, run

TABLE = metadata()  # one table: another call would make another uuid


def present(*, small_files: int = 0) -> TablePresent:
    return TablePresent(TABLE, "file:///m.json", health(small_files=small_files))


def reasons(happenings: tuple[Happening, ...]) -> list[tuple[str, bool]]:
    return [(happening.reason, happening.warning) for happening in happenings]


def test_a_table_that_became_usable_is_told_of_once() -> None:
    table = managed_table()
    status = decide(table, present(), (), NOW).status
    assert reasons(table_happenings(table, status)) == [("Available", False)]
    recorded = table.model_copy(update={"status": status})
    assert table_happenings(recorded, decide(recorded, present(), (), NOW + timedelta(hours=1)).status) == ()


def test_a_pass_that_is_repeated_after_a_crash_tells_the_same() -> None:
    table = managed_table()
    first = table_happenings(table, decide(table, present(small_files=50), (), NOW).status)
    again = table_happenings(table, decide(table, present(small_files=50), (), NOW + timedelta(minutes=9)).status)
    assert first == again
    assert ("TooManySmallFiles", True) in reasons(first)


def test_figures_that_changed_while_a_crash_was_repaired_are_told_once() -> None:
    table = managed_table()
    first = table_happenings(table, decide(table, present(small_files=50), (), NOW).status)
    again = table_happenings(table, decide(table, present(small_files=70), (), NOW + timedelta(minutes=9)).status)
    assert {happening.key for happening in first} == {happening.key for happening in again}


def test_a_catalog_that_is_lost_twice_is_told_of_twice() -> None:
    table, told = managed_table(), []
    for minute in range(4):
        now = NOW + timedelta(minutes=minute)
        observed = CatalogUnusable("CatalogUnreachable", "no answer") if minute % 2 else present()
        status = decide(table, observed, (), now).status
        told += list(table_happenings(table, status))
        table = table.model_copy(update={"status": status})
    assert [happening.reason for happening in told].count("CatalogUnreachable") == 2
    assert len({happening.key for happening in told}) == len(told)


def test_figures_that_change_under_the_same_condition_are_no_news() -> None:
    table = managed_table()
    table = table.model_copy(update={"status": decide(table, present(small_files=50), (), NOW).status})
    assert table_happenings(table, decide(table, present(small_files=60), (), NOW).status) == ()


def test_small_files_are_told_of_once_though_the_declaration_changes() -> None:
    """Before a status with them is written, or after it."""
    table = managed_table()
    status = decide(table, present(small_files=50), (), NOW).status
    [told] = [each for each in table_happenings(table, status) if each.reason == "TooManySmallFiles"]
    evolved = table.model_copy(update={"metadata": table.metadata.model_copy(update={"generation": 4})})
    again = table_happenings(evolved, decide(evolved, present(small_files=60), (), NOW).status)
    assert [each.key for each in again if each.reason == "TooManySmallFiles"] == [told.key]
    known = evolved.model_copy(update={"status": status})
    later = table_happenings(known, decide(known, present(small_files=70), (), NOW).status)
    assert "TooManySmallFiles" not in [each.reason for each in later]


def test_another_refusal_for_another_declaration_is_news() -> None:
    bad = {"columns": [{"name": "id", "type": "int"}]}
    table = managed_table(schema=bad)
    status = decide(table, present(), (), NOW).status
    told = table_happenings(table, status)
    assert ("Refused", True) in reasons(told)
    worse = managed_table(schema={"columns": [{"name": "id", "type": "string"}]})
    metadata = worse.metadata.model_copy(update={"generation": 4})
    worse = worse.model_copy(update={"status": status, "metadata": metadata})
    assert ("Refused", True) in reasons(table_happenings(worse, decide(worse, present(), (), NOW).status))


def test_a_run_tells_of_its_start_and_its_end_with_what_it_said() -> None:
    pending = run("r1", "Pending")
    running = MaintenanceRunStatus(phase=Phase.RUNNING)
    assert reasons(run_happenings(pending, running)) == [("RunStarted", False)]
    under_way = pending.model_copy(update={"status": running})
    assert run_happenings(under_way, running) == ()
    done = MaintenanceRunStatus(phase=Phase.SUCCEEDED, message="12 files became 1", result=RunResult())
    [happening] = run_happenings(under_way, done)
    assert (happening.reason, happening.run) == ("RunSucceeded", "r1")
    assert "12 files became 1" in happening.message
    failed = MaintenanceRunStatus(phase=Phase.FAILED, reason="OutOfMemory", message="killed")
    [happening] = run_happenings(under_way, failed)
    assert happening.warning
    assert "OutOfMemory: killed" in happening.message


def test_deletions_tell_what_became_of_the_table() -> None:
    table = managed_table(deletionPolicy="Purge")
    assert reasons(deletion_happenings(table, DeletionDecision(drop=DropTable(purge=True, uuid=""), release=True))) == [
        ("Purged", False)
    ]
    assert reasons(deletion_happenings(table, DeletionDecision(release=True, note="kept"))) == [("Released", False)]
    waits = DeletionDecision(note="the catalog is not reachable", stop_runs=("r1",))
    assert reasons(deletion_happenings(table, waits)) == [("DeletionWaits", True), ("RunsStopped", False)]


def test_an_events_name_is_a_function_of_what_happened_and_to_whom() -> None:
    table, happening = managed_table(), Happening("Created", "created it", "key")
    one = build_event(table, happening, NOW, "a")
    assert one["metadata"] == build_event(table, happening, NOW + timedelta(days=1), "b")["metadata"]
    others = [Happening("Created", "created it", "another"), Happening("Evolved", "created it", "key")]
    names = {build_event(table, other, NOW, "a")["metadata"]["name"] for other in others}
    assert len({one["metadata"]["name"], *names}) == 3


def test_a_long_message_is_cut_within_the_servers_limit_in_bytes() -> None:
    event = build_event(managed_table(), Happening("Refused", "ü" * 5000, "key"), NOW, "a")
    assert len(event["note"].encode()) <= LONGEST_NOTE
    assert event["note"].endswith("…")


def test_an_operation_that_is_stopped_and_one_that_is_tried_again_are_told_of() -> None:
    failing = OperationStatus(operation=Operation.COMPACT, last_run="r9", consecutive_failures=5)
    stopped = failing.model_copy(update={"stopped": True, "message": "5 failures without progress"})
    table = managed_table().model_copy(update={"status": ManagedTableStatus(operations=(failing,))})
    [happening] = table_happenings(table, ManagedTableStatus(operations=(stopped,)))
    assert (happening.reason, happening.warning, happening.run) == ("OperationStopped", True, "r9")
    assert "5 failures without progress" in happening.message
    table = table.model_copy(update={"status": ManagedTableStatus(operations=(stopped,))})
    assert table_happenings(table, table.status) == ()
    assert reasons(table_happenings(table, ManagedTableStatus(operations=(failing,)))) == [("OperationResumed", False)]


def test_a_hold_is_told_of_when_it_is_placed_refused_and_over() -> None:
    states = [HoldState.PENDING, HoldState.HELD, HoldState.HELD, HoldState.EXPIRED, HoldState.REFUSED]
    table, told = managed_table(), []
    for state in states:
        status = ManagedTableStatus(holds=(HoldStatus(name="audit", state=state),))
        told += reasons(table_happenings(table, status))
        table = table.model_copy(update={"status": status})
    assert told == [("HoldHeld", False), ("HoldExpired", False), ("HoldRefused", True)]
