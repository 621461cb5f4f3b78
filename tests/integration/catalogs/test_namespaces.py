"""What every catalog promises about namespaces, whatever holds them."""

from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchNamespaceError

from tests.integration.catalogs.test_tables import SCHEMA


def test_a_namespace_has_the_properties_that_it_was_created_with(catalog: Catalog) -> None:
    catalog.create_namespace("sales", {"owner": "a", "team": "ü"})
    assert catalog.namespace_exists("sales")
    assert catalog.load_namespace_properties("sales") == {"owner": "a", "team": "ü"}
    assert catalog.load_namespace_properties("db") == {}


def test_a_namespace_is_created_once(catalog: Catalog) -> None:
    with pytest.raises(NamespaceAlreadyExistsError, match="Namespace db already exists"):
        catalog.create_namespace("db", {"other": "properties"})
    assert catalog.load_namespace_properties("db") == {}
    catalog.create_namespace_if_not_exists("db")


def test_a_namespace_that_is_not_there_says_so(catalog: Catalog) -> None:
    assert not catalog.namespace_exists("nowhere")
    for action in (
        catalog.load_namespace_properties,
        catalog.update_namespace_properties,
        catalog.drop_namespace,
        catalog.list_tables,
        catalog.list_namespaces,
    ):
        with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: nowhere"):
            action("nowhere")


def test_properties_are_set_and_removed(catalog: Catalog) -> None:
    catalog.create_namespace("sales", {"a": "1", "b": "2"})
    summary = catalog.update_namespace_properties("sales", removals={"a", "missing"}, updates={"b": "3", "c": "4"})
    assert (summary.removed, sorted(summary.updated), summary.missing) == (["a"], ["b", "c"], ["missing"])
    assert catalog.load_namespace_properties("sales") == {"b": "3", "c": "4"}
    with pytest.raises(ValueError, match="overlap"):
        catalog.update_namespace_properties("sales", removals={"b"}, updates={"b": "5"})


def test_a_namespace_outlives_its_last_property(catalog: Catalog) -> None:
    catalog.create_namespace("sales", {"a": "1"})
    catalog.update_namespace_properties("sales", removals={"a", "exists"})
    assert catalog.namespace_exists("sales")
    assert catalog.load_namespace_properties("sales") == {}


def test_a_namespace_with_a_table_is_not_dropped(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("db")
    catalog.drop_table("db.t")
    catalog.drop_namespace("db")
    assert not catalog.namespace_exists("db")
    assert catalog.list_namespaces() == []


def test_nested_namespaces_are_told_apart_and_listed_by_their_parent(catalog: Catalog) -> None:
    for name in (("db", "eu"), ("db", "eu", "north"), ("eu",), ("db_",), ("db_", "eu")):
        catalog.create_namespace(name)
    assert sorted(catalog.list_namespaces()) == [("db",), ("db_",), ("eu",)]
    assert catalog.list_namespaces("db") == [("db", "eu")]
    assert catalog.list_namespaces(("db", "eu")) == [("db", "eu", "north")]
    catalog.create_table(("db", "eu", "t"), SCHEMA)
    assert catalog.list_tables(("db", "eu")) == [("db", "eu", "t")]
    assert catalog.list_tables("db") == []
    assert catalog.load_table(("db", "eu", "t")).name() == ("db", "eu", "t")


def test_a_namespace_with_another_below_it_is_not_dropped(catalog: Catalog) -> None:
    catalog.create_namespace(("db", "eu"))
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("db")


def test_a_nested_namespace_needs_its_parent(catalog: Catalog) -> None:
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_namespace(("nowhere", "eu"))


def test_a_table_goes_below_its_namespaces_own_location(
    catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = f"file://{tmp_path_factory.mktemp('own')}"
    catalog.create_namespace("sales", {"location": folder})
    assert catalog.create_table("sales.t", SCHEMA).location() == f"{folder}/t"


def test_a_namespace_with_an_empty_name_is_rejected_as_pyiceberg_does(catalog: Catalog) -> None:
    malformed: list[Any] = [(), ("db", ""), "", " ", ("db", " "), "db.", ("db", None)]
    for bad in malformed:
        with pytest.raises(NoSuchNamespaceError, match="Not a namespace"):
            catalog.create_namespace(bad)
        assert not catalog.namespace_exists(bad)
    assert catalog.list_namespaces() == [("db",)]


def test_a_name_that_the_catalog_cannot_hold_does_not_exist(catalog: Catalog) -> None:
    for name in (("a.b",), (" db",), ("x" * 3000,), ("db", "a.b")):
        assert not catalog.namespace_exists(name)
        assert not catalog.table_exists((*name, "t"))
        with pytest.raises(NoSuchNamespaceError):
            catalog.load_namespace_properties(name)


def test_numbers_and_booleans_are_text_in_the_properties_of_a_namespace(catalog: Catalog) -> None:
    catalog.create_namespace("sales", {"n": 7, "half": 0.5, "on": True})
    assert catalog.load_namespace_properties("sales") == {"n": "7", "half": "0.5", "on": "true"}
    catalog.update_namespace_properties("sales", removals={"half"}, updates={"n": 8, "off": False})
    assert catalog.load_namespace_properties("sales") == {"n": "8", "on": "true", "off": "false"}


NOT_TEXT: list[tuple[dict[Any, Any], str]] = [
    ({"k": None}, "'k': the value is of type NoneType"),
    ({"k": ["a"]}, "'k': the value is of type list"),
    ({"k": b"a"}, "'k': the value is of type bytes"),
    ({7: "v"}, "7: the key is of type int"),
    ({None: "v"}, "None: the key is of type NoneType"),
    ({"k": "\ud800"}, "'k': key or value is not valid Unicode"),
]


def test_properties_of_a_namespace_that_are_not_text_are_rejected_before_anything_is_written(catalog: Catalog) -> None:
    for bad, said in NOT_TEXT:
        with pytest.raises(ValueError, match=said):
            catalog.create_namespace("sales", {"a": "1", **bad})
        assert not catalog.namespace_exists("sales")
        with pytest.raises(ValueError, match=said):
            catalog.update_namespace_properties("db", updates={"a": "1", **bad})
        assert catalog.load_namespace_properties("db") == {}
