"""Folders that two tables share: what is no file of one of them may be one of the other's, and stays."""

from pathlib import Path

import pytest
from pyiceberg.exceptions import NoSuchIcebergTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.catalogs.commit import Pointer
from tableformat.locations import Place
from tableformat.maintenance.errors import SharedLocation
from tableformat.maintenance.orphans import remove_orphans
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    SCHEMA,
    LocalCatalog,
    append,
    later,
    on_disk,
    read_all,
)
from tests.integration.maintenance.test_orphans import DELETE, clean, put, written

__all__ = ["written"]


@pytest.mark.parametrize("place", ["", "/data/inner", "/.."])
def test_a_location_shared_with_another_table_is_refused(catalog: LocalCatalog, written: Table, place: str) -> None:
    put(written, "data/lost.parquet")
    location = str(Path(Place.of(written.location()).path + place).resolve())
    catalog.create_table(("db", "other"), SCHEMA, location=f"file:{location}")
    before = on_disk(written)

    with pytest.raises(SharedLocation, match="other"):
        clean(written)
    assert on_disk(written) == before


def test_a_location_shared_through_a_symbolic_link_is_refused(catalog: LocalCatalog, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table(IDENTIFIER, SCHEMA, location=f"file://{tmp_path}/link/t")
    other = catalog.create_table(("db", "other"), SCHEMA, location=f"file://{tmp_path}/real/t/other")
    append(other)
    rows = read_all(other)
    with pytest.raises(SharedLocation, match=r"db\.other"):
        clean(table, now=later(other, days=10))
    assert read_all(catalog.load_table(("db", "other"))) == rows


def test_other_tables_are_looked_at_only_if_there_is_something_to_delete(catalog: LocalCatalog, written: Table) -> None:
    other = catalog.create_table(("db", "other"), SCHEMA)
    Path(Place.of(other.metadata_location).path).write_text("{")

    assert clean(written).orphans == 0
    path = put(written, "data/lost.parquet")
    with pytest.raises(SharedLocation, match=r"db\.other cannot be read"):
        clean(written)
    assert Path(path).exists()


def test_what_is_in_the_catalog_and_no_iceberg_table_is_nobody_s_neighbour(written: Table, tmp_path: Path) -> None:
    orphan = put(written, "data/lost.parquet")

    class Mixed(LocalCatalog):
        def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
            return [*super().list_tables(namespace), ("db", "other")]

        def read_pointer(self, identifier: Identifier) -> Pointer | None:
            if identifier == ("db", "other"):
                raise NoSuchIcebergTableError("its type is 'VIEW'")  # as DynamoDB's has it
            return super().read_pointer(identifier)

    mixed = Mixed(tmp_path)
    result = remove_orphans(mixed, IDENTIFIER, DELETE, now=later(written, days=5))
    mixed.close()

    assert (result.files_deleted, Path(orphan).exists()) == (1, False)
