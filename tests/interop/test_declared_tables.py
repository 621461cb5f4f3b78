"""An engine that has nothing to do with us or with Iceberg's own code reads what a dozen evolutions left."""

from pathlib import Path

from tableformat.catalogs import SqlConfig, open_catalog
from tests.integration.declaration.history import live
from tests.interop.duckdb_reader import as_json, read_with_duckdb


def test_duckdb_reads_every_row_after_every_evolution(tmp_path: Path) -> None:
    catalog = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    )
    table, rows = live(catalog)
    metadata_location = catalog.load_table(table.name()).metadata_location
    assert read_with_duckdb(metadata_location) == as_json(rows)
    catalog.close()
