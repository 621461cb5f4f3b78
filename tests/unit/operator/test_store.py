"""The store of watched objects: it may lag, but it never goes back."""

from typing import Any

from pyiceberg.catalog.memory import InMemoryCatalog

from tablewright.decide.limits import Place
from tablewright.runtime.catalogs import OpenCatalogs
from tablewright.runtime.claims import Claims
from tablewright.runtime.events import EventRouter
from tablewright.runtime.line import RunLine
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.store import ObjectStore
from tests.unit.operator.values import managed_table


def table(name: str = "events", *, uid: str = "u1", version: str = "1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "sales", "uid": uid, "resourceVersion": version}
    columns = [{"name": "id", "type": "long"}]
    return {"metadata": metadata, "spec": {"catalogRef": {"name": "lake"}, "schema": {"columns": columns}, **spec}}


def run(name: str, of: str, uid: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "sales", "uid": uid, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"tableRef": {"name": of}, "operation": "Compact"}}


def unopened(store: ObjectStore) -> OpenCatalogs:
    return OpenCatalogs(store, lambda *_: None, None)


def test_a_late_event_does_not_undo_what_our_own_write_told() -> None:
    store = ObjectStore()
    assert store.put("ManagedTable", table(version="10"))
    assert not store.put("ManagedTable", table(version="9"))
    found = store.get("ManagedTable", "sales", "events")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "10"


def test_an_object_that_was_created_anew_replaces_the_one_of_its_name() -> None:
    store = ObjectStore()
    store.put("ManagedTable", table(uid="u1", version="10"))
    assert store.put("ManagedTable", table(uid="u2", version="3"))


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    store = ObjectStore()
    store.put("ManagedTable", table())
    store.remove("ManagedTable", table())
    assert not store.put("ManagedTable", table(version="99"))
    assert store.get("ManagedTable", "sales", "events") is None


def test_the_deletion_of_an_older_object_leaves_its_successor() -> None:
    store = ObjectStore()
    store.put("ManagedTable", table(uid="u2"))
    store.remove("ManagedTable", table(uid="u1"))
    assert store.get("ManagedTable", "sales", "events") is not None


def test_the_runs_of_a_table_are_found_without_looking_at_others() -> None:
    store = ObjectStore()
    for number in range(3):
        store.put("MaintenanceRun", run(f"a{number}", "events", f"ua{number}"))
        store.put("MaintenanceRun", run(f"b{number}", "others", f"ub{number}"))
    store.remove("MaintenanceRun", run("a1", "events", "ua1"))
    assert [found["metadata"]["name"] for found in store.runs_of("sales", "events")] == ["a0", "a2"]


def test_what_is_made_of_an_object_is_made_once_a_version() -> None:
    store, made = ObjectStore(), list[str]()

    def version(obj: dict[str, Any]) -> str:
        made.append(obj["metadata"]["resourceVersion"])
        return made[-1]

    for number in ("1", "2"):
        store.put("ManagedTable", table(version=number))
        found = store.get("ManagedTable", "sales", "events")
        assert found is not None
        assert [store.derived(version, found) for _ in range(3)] == [number] * 3
    assert made == ["1", "2"]


def test_nothing_is_remembered_of_an_object_that_is_not_in_the_store() -> None:
    store, made = ObjectStore(), list[int]()
    gone = table()
    for _ in range(2):
        store.derived(lambda _: made.append(1), gone)
    assert len(made) == 2


def test_who_wrote_which_field_is_not_kept() -> None:
    store, obj = ObjectStore(), table()
    obj["metadata"]["managedFields"] = [{"manager": "somebody"}]
    store.put("ManagedTable", obj)
    found = store.get("ManagedTable", "sales", "events")
    assert found is not None
    assert "managedFields" not in found["metadata"]


def test_an_object_whose_last_finalizer_we_took_is_gone_whatever_event_comes_late() -> None:
    """The server answers with the version that it had before."""
    store = ObjectStore()
    router = EventRouter(store, Claims(), RunLine(store, 1), KnownLocations(store, lambda _: None), unopened(store))
    going, released = table(version="10"), table(version="10")
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["tablewright.dev/table"]}
    released["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    router.notice("ManagedTable", going, deleted=False)
    router.wrote("ManagedTable", released)
    assert store.get("ManagedTable", "sales", "events") is None
    router.notice("ManagedTable", going, deleted=False)
    assert store.get("ManagedTable", "sales", "events") is None


def test_the_place_of_a_table_that_was_dropped_is_free_whatever_event_comes_late() -> None:
    store = ObjectStore()
    locations = KnownLocations(store, lambda _: None)
    router = EventRouter(store, Claims(), RunLine(store, 1), locations, unopened(store))
    store.put("TableCatalog", {"metadata": {"name": "lake", "namespace": "sales"}, "spec": {"configMap": {}}})
    dropped = table("dropped") | {"status": {"identity": {"location": "file:///lake/events"}}}
    router.notice("ManagedTable", dropped, deleted=False)
    router.notice("ManagedTable", dropped, deleted=True)
    router.notice("ManagedTable", dropped, deleted=False)
    another = managed_table(identifier={"namespace": "sales", "name": "another"})
    lake = InMemoryCatalog("lake")
    assert locations.take(another, lake, ["file:///lake/events"], lambda *_: lake) is None


def test_a_deletion_that_is_told_of_late_takes_nothing_from_the_object_that_followed() -> None:
    """A listing tells of what is there before it tells of what is gone."""
    store, claims = ObjectStore(), Claims()
    router = EventRouter(store, claims, RunLine(store, 1), KnownLocations(store, lambda _: None), unopened(store))
    router.notice("ManagedTable", table(uid="u1"), deleted=False)
    router.notice("ManagedTable", table(uid="u2", version="5"), deleted=False)
    router.notice("ManagedTable", table(uid="u1"), deleted=True)
    router.notice(
        "ManagedTable", table("rival", uid="u3", identifier={"namespace": "sales", "name": "events"}), deleted=False
    )
    assert claims.rivals("sales", "rival") == [("sales", "events")]


def test_a_run_that_was_created_anew_under_its_name_waits_for_its_own_turn() -> None:
    store = ObjectStore()
    line = RunLine(store, 1)
    router = EventRouter(store, Claims(), line, KnownLocations(store, lambda _: None), unopened(store))
    router.notice("ManagedTable", table(), deleted=False)
    before, after = run("by-hand", "events", "u1"), run("by-hand", "events", "u2")
    before["status"] = {"phase": "Running", "jobName": "by-hand"}
    for each in (before, after):
        each["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    router.notice("MaintenanceRun", before, deleted=False)
    router.notice("MaintenanceRun", after, deleted=False)
    router.notice("MaintenanceRun", before, deleted=True)
    assert line.ask(Place("sales", "by-hand")) is None
