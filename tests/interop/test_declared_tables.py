"""An engine that has nothing to do with us or with Iceberg's own code reads what a dozen evolutions left."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import SqlConfig, open_catalog
from tests.integration.declaration.declaring import apply, column, create, declare
from tests.integration.declaration.history import live
from tests.interop.duckdb_reader import as_json, read_with_duckdb


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    )
    yield opened
    opened.close()


def test_duckdb_reads_every_row_after_every_evolution(catalog: Catalog) -> None:
    table, rows = live(catalog)
    metadata_location = catalog.load_table(table.name()).metadata_location
    assert read_with_duckdb(metadata_location) == as_json(rows)


def test_duckdb_reads_the_default_of_a_column_that_older_files_lack(catalog: Catalog) -> None:
    table = create(catalog, declare(column("id", "long"), column("a")))
    table.append(pa.table({"id": [1], "a": ["x"]}))
    wanted = declare(
        column("id", "long"), column("n", "int", required=True, initial_default=5), column("a"), format_version=3
    )
    assert apply(catalog, wanted, table).in_sync
    metadata_location = catalog.load_table(table.name()).metadata_location
    assert read_with_duckdb(metadata_location) == [{"id": 1, "n": 5, "a": "x"}]
