"""What every catalog promises about tables, whatever holds the pointer."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([str(i) for i in ids], pa.string())})


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def metadata_files(table: Table) -> set[str]:
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"
    return {f"file://{path}" for path in folder.glob("*.metadata.json")}


def test_a_created_table_is_loaded_with_its_schema_location_and_uuid(catalog: Catalog) -> None:
    created = catalog.create_table("db.t", SCHEMA, properties={"owner": "sales"})
    loaded = catalog.load_table("db.t")
    assert loaded.name() == ("db", "t")
    assert loaded.metadata == created.metadata
    assert loaded.metadata_location == created.metadata_location
    assert loaded.properties == {"owner": "sales"}
    assert loaded.location().endswith("/warehouse/db.db/t")


def test_a_second_catalog_sees_a_commit_at_once(catalog: Catalog, open_one: Callable[[], Catalog], kind: str) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    reader = catalog if kind == "in-memory" else open_one()
    table.append(rows(1, 2))
    table.append(rows(3))
    assert ids(reader.load_table("db.t")) == [1, 2, 3]
    assert reader.load_table("db.t").metadata_location == table.metadata_location


def test_creating_a_table_that_exists_is_refused_and_leaves_no_file(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", SCHEMA)
    assert metadata_files(table) == {table.metadata_location}


def test_a_table_needs_a_namespace_that_exists(catalog: Catalog) -> None:
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", SCHEMA)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table_transaction("nowhere.t", SCHEMA)


def test_a_table_that_is_not_there_says_so(catalog: Catalog) -> None:
    assert not catalog.table_exists("db.t")
    for action in (catalog.load_table, catalog.drop_table, catalog.purge_table):
        with pytest.raises(NoSuchTableError):
            action("db.t")


def test_tables_are_listed_by_their_namespace(catalog: Catalog) -> None:
    catalog.create_namespace("other")
    for name in ("db.b", "db.a", "other.c"):
        catalog.create_table(name, SCHEMA)
    assert sorted(catalog.list_tables("db")) == [("db", "a"), ("db", "b")]
    assert catalog.list_tables("other") == [("other", "c")]
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("nowhere")


def test_a_dropped_table_is_gone_and_its_files_are_not(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")
    assert catalog.list_tables("db") == []
    assert table.metadata_location in metadata_files(table)
    again = catalog.register_table("db.t", table.metadata_location)
    assert ids(again) == [1]


def test_a_commit_on_stale_metadata_is_refused_when_its_requirement_no_longer_holds(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    first, second = catalog.load_table("db.t"), catalog.load_table("db.t")
    with first.update_schema() as change:
        change.add_column("a", StringType())
    before = metadata_files(first)
    with pytest.raises(CommitFailedException), second.update_schema() as change:
        change.add_column("b", StringType())
    assert catalog.load_table("db.t").metadata_location == first.metadata_location
    assert metadata_files(first) == before


def test_a_commit_on_stale_metadata_is_applied_when_its_requirements_still_hold(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    first, second = catalog.load_table("db.t"), catalog.load_table("db.t")
    first.append(rows(1))
    second.transaction().set_properties(owner="sales").commit_transaction()
    now = catalog.load_table("db.t")
    assert ids(now) == [1]
    assert now.properties["owner"] == "sales"
