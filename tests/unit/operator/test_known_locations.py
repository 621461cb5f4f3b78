"""A new table is compared with all others, and is loaded for that only if nothing is known of it."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.catalogs.naming import KIND_TABLE, labels_of, object_name
from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.objects import parse
from tablewright.api.table import ManagedTable
from tablewright.runtime.locations import POINTER, KnownLocations, pointer_outline
from tablewright.runtime.store import ObjectStore

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


class Scene:
    """Tables in a catalog of files, whose pointers are told of as those of a ConfigMap catalog would be."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.loaded = folder, list[str]()
        self.catalog = open_catalog(
            SqlConfig(name="lake", warehouse=f"file://{folder}", uri=f"sqlite:///{folder}/catalog.db")
        )
        self.catalog.create_namespace("db")
        load = self.catalog.load_table
        self.catalog.load_table = lambda name: (self.loaded.append(name[-1]), load(name))[1]  # type: ignore[assignment,method-assign,func-returns-value]
        self.store = ObjectStore()
        place = {"name": "lake", "namespace": "sales", "uid": "catalog", "resourceVersion": "1"}
        self.store.put("TableCatalog", {"metadata": place, "spec": {kind: {}}})
        self.known = KnownLocations(self.store, lambda _: None)

    def create(self, name: str, place: str) -> None:
        self.catalog.create_table(("db", name), SCHEMA, location=f"file://{self.folder}/{place}")
        self.loaded.clear()

    def tell(self, name: str, *, deleted: bool = False) -> None:
        pointer = object_name("lake", KIND_TABLE, ("db", name))
        location = "" if deleted else self.catalog.load_table(("db", name)).metadata_location
        self.loaded.clear()
        data = {"identifier": json.dumps(["db", name]), "metadata_location": location}
        labels = labels_of("lake", KIND_TABLE, ("db", name))
        metadata = {"name": pointer, "namespace": "sales", "uid": name, "resourceVersion": "1", "labels": labels}
        obj = pointer_outline({"metadata": metadata, "data": data})
        if deleted:
            self.store.remove(POINTER, obj)
        else:
            self.store.put(POINTER, obj)
        self.known.notice(POINTER, obj, deleted=deleted)

    def take(self, name: str, place: str) -> str | None:
        found = self.known.take(table(name), self.catalog, [f"file://{self.folder}/{place}"], nobody)
        return None if found is None else found.identifier[-1]


def nobody(namespace: str, name: str) -> Catalog:
    raise CatalogNotUsableError("CatalogNotFound", f"there is no TableCatalog {name} in namespace {namespace}")


def table(name: str, namespace: str = "sales", catalog: str = "lake", **status: Any) -> ManagedTable:
    return parse(ManagedTable, object_of(name, namespace, catalog, **status))


def object_of(name: str, namespace: str = "sales", catalog: str = "lake", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"},
        "spec": {
            "catalogRef": {"name": catalog},
            "identifier": {"namespace": "db", "name": name},
            "schema": {"columns": [{"name": "id", "type": "long"}]},
        },
        "status": status,
    }


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, "configMap")
    yield scene
    scene.catalog.close()


@pytest.fixture
def unwatched(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, "sql")
    yield scene
    scene.catalog.close()


def test_a_place_of_another_table_of_the_catalog_is_taken_whoever_made_it(watched: Scene) -> None:
    watched.create("one", "a/b")
    watched.tell("one")
    assert watched.take("two", "a/b/c") == "one"
    assert watched.take("two", "a") == "one"
    assert watched.take("two", "a/bc") is None
    assert watched.take("one", "a/b") is None, "its own place is no obstacle"


def test_a_table_is_loaded_once_however_many_are_created(watched: Scene) -> None:
    for name in ("one", "two"):
        watched.create(name, name)
        watched.tell(name)
    for number in range(5):
        assert watched.take(f"new{number}", f"new{number}") is None
    assert sorted(watched.loaded) == ["one", "two"]


def test_what_a_pass_has_read_already_is_not_loaded_again(watched: Scene) -> None:
    watched.create("one", "a/b")
    watched.tell("one")
    watched.known = KnownLocations(watched.store, lambda _: (f"file://{watched.folder}/elsewhere",))
    watched.tell("one")
    assert watched.take("two", "elsewhere/inside") == "one"
    assert watched.loaded == []


def test_a_dropped_table_leaves_its_place(watched: Scene) -> None:
    watched.create("one", "a")
    watched.tell("one")
    assert watched.take("two", "a") == "one"
    watched.tell("one", deleted=True)
    assert watched.take("two", "a") is None


def test_a_table_that_cannot_be_read_holds_up_nobody_and_is_tried_again(watched: Scene) -> None:
    watched.create("one", "a")
    file = Path(watched.catalog.load_table(("db", "one")).metadata_location.removeprefix("file://"))
    text = file.read_text()
    watched.tell("one")
    file.write_text("no JSON")
    assert watched.take("two", "b") is None
    file.write_text(text)
    assert watched.take("three", "a") == "one"


def test_of_two_that_are_created_at_the_same_time_one_has_the_place(watched: Scene) -> None:
    """Neither has a pointer yet that anybody could have seen."""
    together = threading.Barrier(8)

    def create(number: int) -> str | None:
        together.wait()
        return watched.take(f"t{number}", "same" if number % 2 else "same/inside")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(create, range(8)))
    assert found.count(None) == 1


def test_a_creation_that_failed_leaves_its_place(watched: Scene) -> None:
    assert watched.take("one", "a") is None
    assert watched.take("two", "a") == "one"
    watched.known.release(table("one"))
    assert watched.take("two", "a") is None


def test_a_table_that_was_just_created_has_its_place_before_its_pointer_is_seen(watched: Scene) -> None:
    assert watched.take("one", "a") is None
    watched.create("one", "a")
    created = watched.catalog.load_table(("db", "one"))
    watched.known.learn(table("one"), created.metadata_location, created.metadata)
    watched.known.release(table("one"))
    assert watched.take("two", "a/b") == "one"


def test_a_table_of_another_catalog_or_namespace_has_its_place_too(watched: Scene) -> None:
    identity = {"uuid": "u", "location": f"file://{watched.folder}/shared/t", "metadataLocation": "m"}
    other = object_of("far", "elsewhere", "theirs", identity={**identity, "schemaId": 0, "specId": 0})
    watched.known.notice("ManagedTable", other, deleted=False)
    assert watched.take("near", "shared/t") == "far"
    watched.known.notice("ManagedTable", other, deleted=True)
    assert watched.take("near", "shared/t") is None


def test_a_catalog_that_nobody_watches_is_asked_for_names_and_loads_only_new_ones(unwatched: Scene) -> None:
    unwatched.create("one", "a")
    assert unwatched.take("new", "a") == "one"
    assert unwatched.take("new", "b") is None
    assert unwatched.loaded == ["one"]
    unwatched.known.release(table("new"))
    unwatched.create("two", "b")
    assert unwatched.take("new", "b") == "two"
    assert unwatched.loaded == ["two"]
    unwatched.catalog.drop_table(("db", "two"))
    assert unwatched.take("new", "b") is None


def test_what_was_created_here_is_not_loaded_from_a_catalog_that_nobody_watches(unwatched: Scene) -> None:
    catalog: Catalog = unwatched.catalog
    assert unwatched.take("one", "a") is None
    created = catalog.create_table(("db", "one"), SCHEMA, location=f"file://{unwatched.folder}/a")
    unwatched.known.learn(table("one"), created.metadata_location, created.metadata)
    unwatched.known.release(table("one"))
    assert unwatched.take("two", "a") == "one"
    unwatched.catalog.drop_table(("db", "one"))
    assert unwatched.take("two", "a") is None


class SharedStore:
    """Two catalogs, of the namespaces sales and preview, that lead to the same tables."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.reachable = scene, {("sales", "lake"), ("preview", "lake")}
        metadata = {"name": "lake", "namespace": "preview", "uid": "other", "resourceVersion": "1"}
        scene.store.put("TableCatalog", {"metadata": metadata, "spec": {"sql": {}}})

    def open(self, namespace: str, name: str) -> Catalog:
        return self.scene.catalog if (namespace, name) in self.reachable else nobody(namespace, name)

    def take(self, name: str, place: str, namespace: str = "sales") -> str | None:
        places = [f"file://{self.scene.folder}/{place}"]
        found = self.scene.known.take(table(name, namespace), self.scene.catalog, places, self.open)
        self.scene.known.release(table(name, namespace))
        return None if found is None else found.identifier[-1]


@pytest.fixture
def shared(unwatched: Scene) -> SharedStore:
    """The table x is at x, and preview has listed it for a creation of its own."""
    unwatched.create("x", "x")
    store = SharedStore(unwatched)
    assert store.take("new", "new", "preview") is None
    return store


def test_a_table_that_was_purged_is_no_obstacle_to_itself_by_what_another_catalog_of_its_store_listed(
    shared: SharedStore,
) -> None:
    shared.scene.catalog.drop_table(("db", "x"))
    assert shared.take("x", "x") is None


def test_a_table_that_another_catalog_has_elsewhere_by_now_leaves_its_old_place(shared: SharedStore) -> None:
    shared.scene.catalog.drop_table(("db", "x"))
    shared.scene.create("x", "moved")
    assert shared.take("y", "x") is None
    assert shared.take("y", "moved") == "x"


def test_a_table_that_another_catalog_still_has_keeps_its_place(unwatched: Scene, tmp_path: Path) -> None:
    """Whatever the name of the new one: two stores may both have an x."""
    theirs = SqlConfig(name="lake", warehouse=f"file://{tmp_path}", uri=f"sqlite:///{tmp_path}/theirs.db")
    store = SharedStore(unwatched)
    unwatched.create("x", "x")
    assert store.take("new", "new", "preview") is None
    other = open_catalog(theirs)
    place = [f"file://{tmp_path}/x"]
    found = unwatched.known.take(table("x"), other, place, store.open)
    assert found is not None
    assert found.identifier == ("db", "x")
    unwatched.catalog.rename_table(("db", "x"), ("db", "renamed"))
    found = unwatched.known.take(table("x"), other, place, store.open)
    other.close()
    assert found is not None
    assert found.identifier == ("db", "renamed")


def test_another_catalog_that_does_not_answer_keeps_the_places_that_it_listed(shared: SharedStore) -> None:
    shared.scene.catalog.drop_table(("db", "x"))
    shared.reachable = set()
    assert shared.take("x", "x") == "x"
    shared.reachable = {("preview", "lake")}
    assert shared.take("x", "x") is None


def test_what_another_catalog_is_asked_again_is_one_table_however_long_ago_it_was_listed(shared: SharedStore) -> None:
    shared.scene.create("z", "z")
    assert shared.take("new", "new", "preview") is None
    assert shared.take("new", "new") is None
    shared.scene.loaded.clear()
    shared.scene.known._listed["preview", "lake"].since = float("-inf")
    assert shared.take("y", "x/inside") == "x"
    assert shared.scene.loaded == ["x"]


def memory_of(known: KnownLocations) -> tuple[int, int, int]:
    """How many lists, places of them and locks are kept."""
    return len(known._listed), len(known._index._places), len(known._following)


def test_nothing_is_kept_of_the_list_of_a_catalog_that_is_gone(unwatched: Scene) -> None:
    unwatched.create("one", "a")
    assert unwatched.take("new", "a") == "one"
    unwatched.known.forget_catalog("sales", "lake")
    assert memory_of(unwatched.known) == (0, 0, 0)


def test_a_catalog_that_is_deleted_while_a_pass_lists_it_is_forgotten_when_the_pass_is_over(unwatched: Scene) -> None:
    unwatched.create("one", "a")
    declared = unwatched.store.get("TableCatalog", "sales", "lake")
    assert declared is not None
    load = unwatched.catalog.load_table

    def deleted_meanwhile(name: Any) -> Any:
        unwatched.store.remove("TableCatalog", declared)
        unwatched.known.forget_catalog("sales", "lake")
        return load(name)

    unwatched.catalog.load_table = deleted_meanwhile  # type: ignore[assignment,method-assign]
    assert unwatched.take("two", "a") == "one", "the pass goes on with what it read"
    unwatched.known.release(table("two"))
    assert memory_of(unwatched.known) == (0, 0, 0)
