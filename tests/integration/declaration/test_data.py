"""Rows written before, between and after a dozen evolutions are read as declared."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.declaration import SortColumn, TableDeclaration
from tests.conftest import unique
from tests.integration.declaration.declaring import apply, column, create, partition
from tests.integration.declaration.history import IDENTIFIER, Row, live, seen_by_pyiceberg, steps
from tests.servers.spark import LocalSpark


def test_pyiceberg_reads_every_row_after_every_evolution(catalog: Catalog) -> None:
    table, rows = live(catalog)
    assert len(rows) == len(list(steps())) == 13
    assert seen_by_pyiceberg(table) == rows


def test_older_snapshots_read_as_they_did(catalog: Catalog) -> None:
    table = create(catalog, TableDeclaration(IDENTIFIER, (column("id", "int"), column("a"))))
    table.append(pa.table({"id": pa.array([1], pa.int32()), "a": ["x"]}))
    before = catalog.load_table(IDENTIFIER)
    snapshot = before.current_snapshot()
    assert snapshot is not None
    declared = TableDeclaration(IDENTIFIER, (column("b", previous_names=("a",)), column("id", "long")))
    assert apply(catalog, declared, table).in_sync
    after = catalog.load_table(IDENTIFIER)
    assert after.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist() == [{"id": 1, "a": "x"}]
    assert after.scan().to_arrow().to_pylist() == [{"b": "x", "id": 1}]


@pytest.mark.xdist_group("spark")
def test_spark_reads_and_writes_every_row_after_every_evolution(spark: LocalSpark, tmp_path: Path) -> None:
    name = unique("lake").replace("-", "_")
    catalog = open_catalog(
        SqlConfig(name=name, uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    )
    spark.use_sqlite_catalog(name, tmp_path / "catalog.db", tmp_path / "warehouse")
    session = spark.session

    def seen_by_spark() -> list[Row]:
        session.catalog.refreshTable(f"{name}.db.history")
        found = session.table(f"{name}.db.history").orderBy("id").collect()
        return [row.asDict(recursive=True) for row in found]

    table, rows = live(catalog)
    assert seen_by_spark() == rows

    # Format version 3, a required column with a default for the rows that are there, and Spark as the writer.
    *_, last = steps()
    grown = TableDeclaration(
        IDENTIFIER,
        (*last.declaration.columns, column("stock", "int", required=True, initial_default=5, write_default=6)),
        format_version=3,
        partitioning=(partition("town"), partition("id", "bucket[4]")),
        sort_order=(SortColumn("town"), SortColumn("id")),
    )
    assert apply(catalog, grown, table).in_sync
    for row in rows:
        row["stock"] = 5
    assert seen_by_spark() == rows
    assert seen_by_pyiceberg(catalog.load_table(IDENTIFIER)) == rows

    insert = "INSERT INTO {table} (id, town, title) VALUES (100, 'Goa', 'by Spark')"
    session.sql(insert.format(table=f"{name}.db.history"))
    written = dict.fromkeys(rows[0]) | {"id": 100, "town": "Goa", "title": "by Spark", "stock": 6}
    assert seen_by_spark() == [*rows, written]
    snapshot = catalog.load_table(IDENTIFIER).current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == catalog.load_table(IDENTIFIER).metadata.current_schema_id

    # What Spark altered is adopted by the next declaration, and what it wrote survives the next evolution.
    session.sql(f"ALTER TABLE {name}.db.history ADD COLUMN theirs struct<p: int>")
    wider = TableDeclaration(IDENTIFIER, (*grown.columns, column("theirs", "struct<p: long>")))
    assert [change.sentence for change in apply(catalog, wider, table).changes] == [
        "widen column theirs.p from int to long"
    ]
    assert seen_by_spark() == [row | {"theirs": None} for row in (*rows, written)]
    catalog.close()
