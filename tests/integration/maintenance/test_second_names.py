"""One table under two names, and tables beside it that cannot be looked at: expiry takes nothing that another needs."""

import sqlite3
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.catalogs.outcomes import CatalogUnavailableError
from tableformat.locations import Place
from tableformat.maintenance.errors import DeletionIncomplete, SharedLocation
from tableformat.maintenance.expiry import expire_snapshots, plan_expiry
from tableformat.storage import open_store
from tests.integration.compaction.tables import sql_catalog
from tests.integration.maintenance.faults import Stubborn
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    SCHEMA,
    LocalCatalog,
    append,
    create,
    later,
    on_disk,
    read_all,
    rows,
)
from tests.integration.maintenance.test_expiry import LAST_ONE, expire


def test_a_table_that_has_a_second_name_keeps_the_files_of_both(catalog: LocalCatalog, table: Table) -> None:
    append(table, 2)
    copy = catalog.register_table(("db", "copy"), table.metadata_location)
    table.overwrite(rows())
    location, before, of_copy = table.metadata_location, on_disk(table), read_all(copy)

    for name in (IDENTIFIER, ("db", "copy")):
        with pytest.raises(SharedLocation, match="under two names"):
            plan_expiry(catalog.load_table(name), LAST_ONE, now=later(table, hours=1))
        with pytest.raises(SharedLocation, match="under two names"):
            expire_snapshots(catalog, name, LAST_ONE, now=later(table, hours=1))

    assert table.refresh().metadata_location == location
    assert on_disk(table, records=True) == before
    assert read_all(copy.refresh()) == of_copy


def test_what_a_dead_run_left_stays_if_the_table_got_a_second_name_since(catalog: LocalCatalog, table: Table) -> None:
    append(table, 2)
    table.overwrite(rows())
    before = table.metadata_location
    with pytest.raises(DeletionIncomplete):
        expire_snapshots(
            catalog,
            IDENTIFIER,
            LAST_ONE,
            now=later(table, hours=1),
            store=Stubborn(open_store(table.io), ".parquet"),
        )
    copy = catalog.register_table(("db", "copy"), before)
    left = on_disk(table)

    with pytest.raises(SharedLocation):
        expire(table)

    assert on_disk(copy) == left


def test_a_neighbour_that_cannot_be_read_holds_no_expiry_up(catalog: LocalCatalog, table: Table) -> None:
    append(table, 2)
    other = catalog.create_table(("db", "other"), SCHEMA)
    Path(Place.of(other.metadata_location).path).unlink()

    assert expire(table).snapshots_expired == 1


def test_an_entry_of_the_catalog_that_is_damaged_holds_no_expiry_up(
    catalog: LocalCatalog, table: Table, tmp_path: Path
) -> None:
    append(table, 2)
    catalog.create_table(("db", "other"), SCHEMA)
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = NULL WHERE table_name = 'other'")
    database.close()

    assert expire(table).snapshots_expired == 1


def test_a_catalog_that_cannot_tell_of_a_second_name_just_now_loses_nothing_of_it(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)  # PyIceberg's own, whose tables have to be loaded
    table = create(catalog)
    append(table, 2)
    copy = catalog.register_table(("db", "copy"), table.metadata_location)
    table.overwrite(rows())
    before, of_copy = on_disk(table), read_all(copy)

    class Failing(SqlCatalog):
        def load_table(self, identifier: str | Identifier) -> Table:
            if identifier == ("db", "copy"):
                raise ServiceUnavailableError("503")
            return super().load_table(identifier)

    failing = Failing(catalog.name, **catalog.properties)
    with pytest.raises(CatalogUnavailableError, match="Run again"):
        expire_snapshots(failing, IDENTIFIER, LAST_ONE, now=later(table, hours=1))
    failing.close()

    assert on_disk(table, records=True) == before
    assert read_all(copy.refresh()) == of_copy
    catalog.close()
