"""The line in which runs wait for their turn, as events and passes move it."""

import threading
from datetime import timedelta
from typing import Any

from tablewright.decide.limits import Place
from tablewright.runtime.line import RunLine
from tablewright.runtime.store import ObjectStore
from tests.unit.operator.values import NOW


class Line:
    """A line with a store behind it: tables of a catalog, and their runs."""

    def __init__(self, *, total: int = 10, catalog_limit: int | None = None) -> None:
        self.store = ObjectStore()
        spec = {} if catalog_limit is None else {"maxConcurrentRuns": catalog_limit}
        self.store.put("TableCatalog", {"metadata": {"namespace": "sales", "name": "lake"}, "spec": spec})
        self.line = RunLine(self.store, total)

    def run(self, name: str, *, table: str | None = None, age: int = 0, **status: Any) -> None:
        table = table or name
        catalog = {"catalogRef": {"name": "lake"}}
        self.store.put("ManagedTable", {"metadata": {"namespace": "sales", "name": table}, "spec": catalog})
        self.line.notice_run(self._object(name, table, age, status), deleted=False)

    def cancel(self, name: str, *, age: int) -> None:
        """As somebody's finalizer keeps it."""
        obj = self._object(name, name, age, {})
        obj["metadata"]["deletionTimestamp"] = NOW.isoformat()
        self.line.notice_run(obj, deleted=False)

    def delete(self, name: str, *, table: str | None = None) -> None:
        self.line.notice_run(self._object(name, table or name, 0, {}), deleted=True)

    def ask(self, name: str) -> str | None:
        return self.line.ask(Place("sales", name))

    def next(self) -> list[str]:
        return [place.name for place in self.line.next()]

    @staticmethod
    def _object(name: str, table: str, age: int, status: dict[str, Any]) -> dict[str, Any]:
        created = (NOW - timedelta(minutes=age)).isoformat()
        metadata = {"namespace": "sales", "name": name, "creationTimestamp": created}
        return {"metadata": metadata, "spec": {"tableRef": {"name": table}}, "status": status}


def test_a_turn_is_taken_when_it_is_asked_for_and_the_next_waits() -> None:
    line = Line(catalog_limit=1)
    line.run("a", age=2)
    line.run("b", age=1)
    assert line.ask("a") is None
    assert "TableCatalog lake allows at once" in str(line.ask("b"))
    line.run("a", age=2, phase="Succeeded", completionTime=NOW.isoformat())
    assert line.next() == ["b"]
    assert line.ask("b") is None


def test_who_asks_first_does_not_go_first() -> None:
    line = Line(catalog_limit=1)
    line.run("young", age=1)
    line.run("old", age=9)
    assert line.ask("young") == "waits for tables that have waited longer"
    assert line.ask("old") is None


def test_a_run_that_steps_aside_keeps_no_turn_from_others() -> None:
    line = Line(catalog_limit=1)
    line.run("blocked", age=9)
    line.run("free", age=1)
    line.line.step_aside(Place("sales", "blocked"))
    assert line.next() == ["free"]
    assert line.ask("blocked") is None, "once it asks again, it is its turn"


def test_a_turn_that_could_not_be_used_is_given_back() -> None:
    line = Line(total=1)
    line.run("a", age=2)
    line.run("b", age=1)
    assert line.ask("a") is None
    line.line.give_back(Place("sales", "a"), NOW)
    assert line.ask("b") is None
    assert "the operator allows at once" in str(line.ask("a"))


def test_a_late_event_does_not_free_a_turn_that_was_just_taken() -> None:
    line = Line(total=1)
    line.run("a", age=2)
    assert line.ask("a") is None
    line.run("a", age=2, phase="Pending")  # from before its Job
    line.run("b", age=1)
    assert line.ask("b") is not None


def test_a_job_whose_run_does_not_know_of_it_counts() -> None:
    line = Line(total=1)
    line.run("a", age=1)
    line.line.notice_job({"metadata": {"namespace": "sales", "name": "a"}})
    line.run("b", age=9)
    assert line.ask("b") is not None
    assert line.ask("a") is None


def test_a_deleted_run_makes_way() -> None:
    line = Line(total=1)
    line.run("a", jobName="a")
    line.run("b")
    assert line.next() == []
    line.delete("a")
    assert line.next() == ["b"]


def test_a_run_that_was_seen_before_its_table_is_held_to_the_limit_of_its_catalog() -> None:
    line = Line(catalog_limit=1)
    line.run("under-way", jobName="j")
    line.line.notice_run(line._object("early", "late", 0, {}), deleted=False)
    line.store.put(
        "ManagedTable", {"metadata": {"namespace": "sales", "name": "late"}, "spec": {"catalogRef": {"name": "lake"}}}
    )
    assert "TableCatalog lake allows at once" in str(line.ask("early"))


def test_the_runs_of_one_table_do_not_take_two_turns() -> None:
    line = Line()
    line.run("a1", table="a", age=9)
    line.run("a2", table="a", age=8)
    assert line.next() == ["a1"]
    assert line.ask("a1") is None
    assert line.next() == []


def test_however_many_ask_at_once_the_limit_holds() -> None:
    line, admitted = Line(total=3), list[str]()
    names = [f"run-{number}" for number in range(40)]
    for name in names:
        line.run(name)

    def ask(name: str) -> None:
        if line.ask(name) is None:
            admitted.append(name)

    threads = [threading.Thread(target=ask, args=(name,)) for name in reversed(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:  # whoever asked too early asks again
        ask(name)
    assert sorted(set(admitted)) == ["run-0", "run-1", "run-10"], "by age, which is the same, and then by name"


def test_thousands_that_wait_for_a_full_catalog_cost_nothing_at_each_event() -> None:
    line = Line(total=20, catalog_limit=2)
    for number in range(2):
        line.run(f"under-way-{number}", jobName="j")
    looked_at = 0

    class Counted(dict[Place, Any]):
        def items(self) -> Any:
            nonlocal looked_at
            looked_at += len(self)
            return super().items()

    line.line._waiting = Counted()
    for number in range(1000):
        line.run(f"run-{number}")
        assert line.next() == []
    assert looked_at == 0
    line.delete("under-way-0")
    assert line.next() == ["run-0"]
    assert looked_at == 1000


def test_a_run_that_was_cancelled_while_it_waited_keeps_no_turn_from_others() -> None:
    line = Line(catalog_limit=1)
    line.run("kept-by-a-strangers-finalizer", age=9)
    line.run("next", age=1)
    line.cancel("kept-by-a-strangers-finalizer", age=9)
    assert line.next() == ["next"]
    assert line.ask("next") is None
