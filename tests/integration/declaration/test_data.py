"""Rows written before, between and after a dozen evolutions are read as declared."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.declaration import SortColumn, TableDeclaration
from tests.conftest import unique
from tests.every_column import EVERY_COLUMN
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


def test_files_partitioned_by_a_column_are_read_after_it_was_widened(catalog: Catalog) -> None:
    narrow, wide = pa.int32(), pa.int64()
    table = create(catalog, TableDeclaration(IDENTIFIER, (column("id", "int"),), partitioning=(partition("id"),)))
    table.append(pa.table({"id": pa.array([1, 2], narrow)}))
    declared = TableDeclaration(IDENTIFIER, (column("id", "long"),), partitioning=(partition("id"),))
    assert [change.sentence for change in apply(catalog, declared, table).changes] == [
        "widen column id from int to long"
    ]
    widened = catalog.load_table(IDENTIFIER)
    widened.append(pa.table({"id": pa.array([2, 2**40], wide)}))
    assert sorted(widened.scan().to_arrow()["id"].to_pylist()) == [1, 2, 2, 2**40]
    assert widened.scan("id = 2").to_arrow()["id"].to_pylist() == [2, 2]


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
        sort_order=(SortColumn("title"), SortColumn("id")),
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

    # What Spark altered is taken over, what it wrote survives, and a column that files were sorted by can go.
    session.sql(f"ALTER TABLE {name}.db.history ADD COLUMN theirs struct<p: int>")
    slim = TableDeclaration(
        IDENTIFIER,
        (*(each for each in grown.columns if each.name != "title"), column("theirs", "struct<p: long>")),
        removed_columns=EVERY_COLUMN,
        sort_order=(),
    )
    assert [change.sentence for change in apply(catalog, slim, table).changes] == [
        "widen column theirs.p from int to long",
        "drop column title: string",
        "sort new files no more",
    ]
    expected = [row | {"theirs": None} for row in (*rows, written)]
    for row in expected:
        del row["title"]
    assert seen_by_spark() == expected
    catalog.close()
