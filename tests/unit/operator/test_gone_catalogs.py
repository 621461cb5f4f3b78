"""A catalog that is not declared any more is let go: preview environments come and go, and each may have its own."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tableformat.catalogs import CatalogConfig
from tablewright.api.objects import KubernetesObject
from tablewright.runtime.grants import Grants
from tablewright.runtime.keys import Key
from tablewright.runtime.sync import Synchroniser
from tests.unit.operator.test_reconciler import CATALOG, TABLE, Answer, World

LAKE = Key("TableCatalog", "sales", "lake")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The catalog and its Secret were read, and a table asked it for the places of all others."""
    world = World({**CATALOG, "warehouse": f"file://{tmp_path}"})
    world.server.answers["/secrets/"] = Answer(200, {"data": {}})
    world.see("ManagedTable", "events", TABLE)
    world.reconcile("TableCatalog", "lake")
    world.reconcile("ManagedTable", "events")
    assert kept(world) == (1, 1, 1)
    return world


def kept(world: World) -> tuple[int, int, int]:
    """How many opened catalogs, Secrets and lists of tables there are."""
    return len(world.catalogs._opened), len(world.catalogs._secrets), len(world.locations._listed)


def delete(world: World, name: str = "lake") -> Sequence[Key]:
    obj = world.store.get("TableCatalog", "sales", name)
    assert obj is not None
    return world.router.notice("TableCatalog", obj, deleted=True)


def test_a_catalog_that_is_deleted_is_let_go_with_its_secret_and_its_list(world: World) -> None:
    """At once, and by no pass: a standby that led before has none."""
    assert LAKE not in delete(world)
    assert kept(world) == (0, 0, 0)


def test_a_catalog_whose_deletion_only_a_listing_shows_is_let_go_too(world: World) -> None:
    world.server.answers[""] = Answer(200, {"items": [], "metadata": {"resourceVersion": "9"}})

    def notice(kind: str, obj: KubernetesObject, deleted: bool) -> None:
        world.router.notice(kind, obj, deleted=deleted)

    cluster = world.reconciler._cluster
    grants = Grants(cluster, set, role="tablewright-tables", in_cluster=True)
    Synchroniser(cluster, world.store, [], grants, notice).synchronise()
    assert kept(world) == (0, 0, 0)


def test_a_secret_that_another_catalog_of_the_namespace_names_stays(world: World) -> None:
    world.see("TableCatalog", "other", CATALOG)
    world.see("TableCatalog", "unreadable", {"sql": "no object"})
    delete(world)
    assert list(world.catalogs._secrets) == [("sales", "keys")]
    delete(world, "other")
    assert kept(world) == (0, 0, 0)


def test_a_catalog_that_is_deleted_while_it_is_opened_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event may come before the pass that opens it is done."""
    world = World()
    world.server.answers["/secrets/"] = Answer(200, {"data": {}})
    opened = object()

    def deleted_meanwhile(name: str, config: CatalogConfig) -> object:
        delete(world)
        return opened

    monkeypatch.setattr("tablewright.runtime.catalogs.open_declared", deleted_meanwhile)
    assert world.catalogs.open("sales", "lake") is opened, "who asked for it may use it"
    assert kept(world) == (0, 0, 0)


def test_a_policy_that_is_deleted_leaves_nothing_to_let_go() -> None:
    world = World()
    world.see("TablePolicy", "all", {})
    obj = world.store.get("TablePolicy", "sales", "all")
    assert obj is not None
    assert world.router.notice("TablePolicy", obj, deleted=True) == []
