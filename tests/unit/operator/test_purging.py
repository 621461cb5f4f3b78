"""A purge ends with no file left, however often it is cut short, and takes nothing that is another table's by then."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.storage import Deleted
from tableformat.storage.local import LocalStore
from tablewright.runtime.table_passes import TablePasses
from tests.unit.operator.test_reconciler import FINALIZER, TABLE, Answer, World
from tests.unit.operator.values import NOW

NAME = ("sales", "events")


class Killed(BaseException):
    """The operator's process ends."""


class Going:
    """A table with some history whose object is being deleted, and the operator that sees to it."""

    def __init__(self, folder: Path) -> None:
        self.warehouse, self.versions = folder / "warehouse", 0
        where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{self.warehouse}"}
        self.catalog: Catalog = open_catalog(SqlConfig(name="lake", **where))
        self.catalog.create_namespace("sales")
        table = self.catalog.create_table(NAME, pa.schema([("id", pa.int64())]))
        for number in range(5):
            table.append(pa.table({"id": [number]}))
        self.status: dict[str, Any] = {
            "observedGeneration": 1,
            "identity": {
                "uuid": str(table.metadata.table_uuid),
                "location": table.location(),
                "metadataLocation": table.metadata_location,
                "schemaId": 0,
                "specId": 0,
            },
        }
        self.spec = {"sql": {"uri": where["uri"]}, "warehouse": where["warehouse"]}

    def operator(self, *pods: dict[str, Any]) -> World:
        """A new one, which knows what the one before wrote."""
        world = World(self.spec)
        world.server.answers["/pods$"] = Answer(200, {"items": list(pods)})
        self.tell(world)
        return world

    def tell(self, world: World) -> None:
        """Of the object, as it is now."""
        self.versions += 1
        going = {"deletionTimestamp": NOW.isoformat(), "finalizers": [FINALIZER], "resourceVersion": str(self.versions)}
        spec = {**TABLE, "deletionPolicy": "Purge", "identifier": {"namespace": "sales", "name": "events"}}
        world.see("ManagedTable", "events", spec, metadata=going, status=self.status)

    def work(self, world: World) -> bool:
        """One pass; whether it let the object go."""
        try:
            world.reconcile("ManagedTable", "events")
        finally:
            for body in world.server.written("/managedtables/events/status$"):
                self.status = json.loads(body)["status"]
        return bool(world.server.written("/managedtables/events$"))

    def files(self) -> list[Path]:
        return [path for path in self.warehouse.rglob("*") if path.is_file()]


@pytest.fixture
def going(tmp_path: Path) -> Going:
    return Going(tmp_path)


def dying_after(monkeypatch: pytest.MonkeyPatch, deletions: int) -> Callable[[], None]:
    """Deletes file by file, and dies after that many; returns how to stop that."""
    delete, left = LocalStore.delete, [deletions]

    def mortal(self: LocalStore, locations: list[str]) -> Deleted:
        for location in locations:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            delete(self, [location])
        return Deleted(tuple(locations))

    monkeypatch.setattr(LocalStore, "delete", mortal)
    return lambda: monkeypatch.setattr(LocalStore, "delete", delete)


@pytest.mark.parametrize("deletions", [0, 1, 4, 5, 9, 15, 20])
def test_an_operator_that_dies_in_a_purge_is_followed_by_one_that_ends_it(
    going: Going, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    survive = dying_after(monkeypatch, deletions)
    with pytest.raises(Killed):
        going.work(going.operator())
    assert not going.catalog.table_exists(NAME)
    assert going.files()
    survive()
    world = going.operator()
    assert going.work(world), "the object goes"
    assert going.files() == []
    assert [event["reason"] for event in world.server.written("events.k8s.io")] == ["Purged"]


def die_before_the_pointer_goes(going: Going, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("tableformat.catalogs.pointer_catalog.PointerCatalog.drop_version", die)
        with pytest.raises(Killed):
            going.work(going.operator())


def test_an_operator_that_dies_before_the_pointer_goes_is_followed_by_one_that_purges(
    going: Going, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_before_the_pointer_goes(going, monkeypatch)
    assert going.status["purging"] == going.catalog.load_table(NAME).metadata_location
    world = going.operator()
    assert going.work(world)
    assert world.server.written("/managedtables/events/status$") == [], "it is noted already"
    assert going.files() == []


def test_a_table_that_was_renamed_before_it_was_dropped_keeps_its_files(
    going: Going, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_before_the_pointer_goes(going, monkeypatch)
    going.catalog.rename_table(NAME, ("sales", "kept"))
    before = going.files()
    world = going.operator()
    assert not going.work(world)
    assert going.files() == before
    assert "sales.kept is at" in world.server.written("events.k8s.io")[0]["note"]
    assert going.catalog.load_table(("sales", "kept")).scan().to_arrow().num_rows == 5


def test_what_cannot_be_deleted_is_tried_again_with_all_that_leads_to_it(
    going: Going, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = LocalStore.delete

    def refused(self: LocalStore, locations: list[str]) -> Deleted:
        done = delete(self, [each for each in locations if "/data/" not in each])
        return Deleted(done.deleted, failed={each: "denied" for each in locations if "/data/" in each})

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete", refused)
        world = going.operator()
        assert not going.work(world)
        assert "denied" in world.server.written("events.k8s.io")[0]["note"]
    assert going.work(going.operator())
    assert going.files() == []


@pytest.mark.parametrize("kind", ["snap-", "-m0.avro"])
def test_what_cannot_be_read_for_now_stays_with_all_that_it_leads_to(
    going: Going, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    open_it = PyArrowFile.open

    def refused(self: PyArrowFile, seekable: bool = True) -> InputStream:
        if kind in self.location and not going.catalog.table_exists(NAME):
            raise OSError("503 Slow Down")
        return open_it(self, seekable)

    with monkeypatch.context() as patch:
        patch.setattr(PyArrowFile, "open", refused)
        world = going.operator()
        assert not going.work(world)
        assert "503 Slow Down" in world.server.written("events.k8s.io")[0]["note"]
    assert going.work(going.operator())
    assert going.files() == []


def test_nothing_is_purged_while_a_pod_of_a_stopped_run_may_still_write(going: Going) -> None:
    pods = [{"metadata": {"name": name}, "status": {"phase": name}} for name in ("Running", "Succeeded")]
    world = going.operator(*pods)
    assert not going.work(world)
    assert going.catalog.table_exists(NAME)
    assert "have not ended yet: Running" in world.server.written("events.k8s.io")[0]["note"]
    assert going.work(going.operator(pods[1]))


def test_a_table_that_took_the_name_since_it_was_looked_at_is_left_alone(
    going: Going, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_anew(*_: object) -> None:
        going.catalog.drop_table(NAME)
        going.catalog.create_table(NAME, pa.schema([("id", pa.int64())])).append(pa.table({"id": [7]}))

    with monkeypatch.context() as patch:
        patch.setattr(TablePasses, "_require_no_pods", made_anew)
        world = going.operator()
        assert not going.work(world)
        assert "another table under the name" in world.server.written("events.k8s.io")[0]["note"]
    assert going.work(going.operator()), "the object goes"
    assert going.catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist() == [7]


def test_an_operator_that_was_away_when_the_object_was_deleted_tries_as_long_as_any(going: Going) -> None:
    world = going.operator({"metadata": {"name": "driver"}, "status": {"phase": "Running"}})
    world.now += timedelta(hours=1)
    assert not going.work(world)
    world.server.answers["/pods$"] = Answer(200, {"items": []})
    world.now += timedelta(minutes=1)
    assert going.work(world)
    assert going.files() == []


def test_a_purge_that_takes_long_is_not_given_up_for_one_file(going: Going, monkeypatch: pytest.MonkeyPatch) -> None:
    world = going.operator()

    def slow(self: LocalStore, locations: list[str]) -> Deleted:
        world.now += timedelta(hours=1)
        return Deleted((), failed=dict.fromkeys(locations, "slow down"))

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete", slow)
        assert not going.work(world)
        going.tell(world)
        assert not going.work(world)
    going.tell(world)
    assert going.work(world)
    assert going.files() == []
