"""What is particular to pointers in SQLite: one file, many processes."""

import multiprocessing
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError

from tableformat.catalogs import (
    CatalogConfig,
    CatalogUnavailableError,
    CorruptCatalogEntryError,
    PyIcebergConfig,
    SqlConfig,
    open_catalog,
    sql,
)
from tests.integration.catalogs.test_tables import SCHEMA, ids, rows


@pytest.fixture
def config(tmp_path: Path) -> SqlConfig:
    return SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")


@pytest.fixture
def catalog(config: SqlConfig) -> Iterator[Catalog]:
    with open_catalog(config) as opened:
        opened.create_namespace("db")
        yield opened


def open_and_create(config: CatalogConfig, number: int) -> bool:
    with open_catalog(config) as catalog:
        try:
            catalog.create_namespace("sales", {f"owner{number}": "x"})
        except NamespaceAlreadyExistsError:
            return False
        return True


def test_processes_that_open_a_new_database_at_once_agree_on_it(tmp_path: Path) -> None:
    # Both of the catalog's tables must be raced for, so one database is not enough to see it.
    configs = [
        SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/{number}.db", warehouse=f"file://{tmp_path}/warehouse")
        for number in range(15)
    ]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for config in configs:
            created = pool.starmap(open_and_create, [(config, number) for number in range(4)], chunksize=1)
            assert created.count(True) == 1
    with open_catalog(configs[0]) as catalog:
        assert catalog.list_namespaces() == [("sales",)]
        assert len(catalog.load_namespace_properties("sales")) == 1


def test_a_database_that_stays_locked_is_called_unavailable(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: SqlConfig
) -> None:
    monkeypatch.setattr(sql, "_LOCK_WAIT_SECONDS", 0.1)
    holder = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    try:
        with open_catalog(config) as waiting:
            holder.execute("BEGIN IMMEDIATE")
            assert waiting.list_namespaces() == [("db",)]  # readers do not wait
            with pytest.raises(CatalogUnavailableError, match="locked"):
                waiting.create_namespace("other")
            holder.execute("COMMIT")
            waiting.create_namespace("other")
    finally:
        holder.close()


def test_a_commit_waits_for_a_lock_that_is_given_back(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: SqlConfig
) -> None:
    properties = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "50"}
    table = catalog.create_table("db.t", SCHEMA, properties=properties)
    monkeypatch.setattr(sql, "_LOCK_WAIT_SECONDS", 0.05)
    holder = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, check_same_thread=False)
    try:
        with open_catalog(config) as waiting:
            late = waiting.load_table("db.t")
            holder.execute("BEGIN IMMEDIATE")
            giving_back = Timer(0.5, holder.execute, ["COMMIT"])
            giving_back.start()
            late.append(rows(1))
            giving_back.join()
    finally:
        holder.close()
    assert ids(table.refresh()) == [1]


def test_a_row_without_a_pointer_is_named_and_left_as_it_is(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    editor = sqlite3.connect(tmp_path / "catalog.db")
    editor.execute("UPDATE iceberg_tables SET metadata_location = NULL")
    editor.commit()
    for attempt in (lambda: catalog.load_table("db.t"), lambda: table.append(rows(1))):
        with pytest.raises(CorruptCatalogEntryError, match=r"the row of db\.t in iceberg_tables has no metadata_loc"):
            attempt()
    assert editor.execute("SELECT metadata_location FROM iceberg_tables").fetchall() == [(None,)]
    editor.close()


def test_a_row_that_was_edited_to_lead_to_another_table_is_named_and_left_as_it_is(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, other = catalog.create_table("db.t", SCHEMA), catalog.create_table("db.other", SCHEMA)
    table.append(rows(1))
    other.append(rows(2))
    editor = sqlite3.connect(tmp_path / "catalog.db")
    edit = "UPDATE iceberg_tables SET {} WHERE table_name = 't'"
    editor.execute(edit.format("metadata_location = ?"), [other.metadata_location])
    editor.commit()
    for attempt in (lambda: catalog.load_table("db.t"), lambda: table.append(rows(3))):
        with pytest.raises(
            CorruptCatalogEntryError, match=r"the row of db\.t .* led to .* before, but .* is metadata of"
        ):
            attempt()
    found = editor.execute("SELECT metadata_location FROM iceberg_tables WHERE table_name = 't'").fetchall()
    assert found == [(other.metadata_location,)]
    editor.execute(edit.format("metadata_location = ?"), [table.metadata_location])
    editor.commit()
    editor.close()
    assert ids(catalog.load_table("db.t")) == [1]
    assert ids(catalog.load_table("db.other")) == [2]


def test_another_table_may_be_registered_over_one_on_purpose(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    other = catalog.create_table("db.other", SCHEMA)
    other.append(rows(2))
    registered = catalog.register_table("db.t", other.metadata_location, overwrite=True)
    registered.append(rows(3))
    assert ids(catalog.load_table("db.t")) == [2, 3]


def test_a_namespace_part_with_a_dot_is_refused(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="has a dot"):
        catalog.create_namespace(("a.b",))


def test_pyicebergs_own_sql_properties_open_the_same_catalog(catalog: Catalog, config: SqlConfig) -> None:
    catalog.create_table("db.t", SCHEMA)
    properties = {"type": "sql", "uri": config.uri, "warehouse": config.warehouse}
    with open_catalog(PyIcebergConfig(name="lake", properties=properties)) as other:
        assert other.list_tables("db") == [("db", "t")]
