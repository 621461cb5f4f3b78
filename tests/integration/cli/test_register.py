"""`tablewright register`: a table whose pointer is lost is back with its rows; what would hurt another is refused."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from tableformat.catalogs import SqlConfig, open_catalog
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_here

NAME = "sales.events"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog(SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/wh"))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    catalog.create_namespace("sales")
    made = catalog.create_table(NAME, Schema(NestedField(1, "id", LongType(), required=False)))
    for number in range(3):
        made.append(pa.table({"id": pa.array([number], pa.int64())}))
    return made


def address(tmp_path: Path) -> tuple[str, ...]:
    return "--catalog-uri", f"sqlite:///{tmp_path}/lake.db", "--catalog", "lake"


def test_a_dropped_table_is_back_with_its_rows(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    catalog.drop_table(NAME)
    catalog.drop_namespace("sales")
    done = run_here("register", NAME, table.metadata_location, *address(tmp_path))
    assert (done.code, done.err) == (0, "")
    assert f"table {table.metadata.table_uuid}, with 3 snapshots" in done.out
    assert sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_a_newer_metadata_file_beside_it_is_named(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    older = table.metadata.metadata_log[-1].metadata_file
    catalog.drop_table(NAME)
    done = run_here("register", NAME, older, *address(tmp_path))
    assert done.code == 0
    newest = table.metadata_location.rpartition("/")[2]
    assert done.err.startswith("note: ")
    assert f"{newest} is newer" in done.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("the table's own", "the catalog has a table sales.events, at "),
        ("nowhere.metadata.json", "nowhere.metadata.json"),
        ("garbage.metadata.json", "is no metadata file of a table"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    given: str, said: str, catalog: Catalog, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "garbage.metadata.json").write_text("{}")
    name, location = (NAME, table.metadata_location) if given == "the table's own" else ("sales.new", tmp_path / given)
    done = run_here("register", name, location, *address(tmp_path))
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert catalog.list_tables("sales") == [("sales", "events")]


def test_a_second_name_of_a_table_is_refused(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    """Each of the two would expire what the other needs."""
    done = run_here("register", "sales.copy", table.metadata_location, *address(tmp_path))
    assert done.code == 2
    assert "the catalog has this table as sales.events" in done.err
    assert catalog.list_tables("sales") == [("sales", "events")]


def test_a_declared_table_that_was_dropped_is_as_declared_again(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(NAME)
    table.append(rows(0, 10))
    embedded_catalog(tmp_path).drop_table(NAME)
    lost = run_here("apply", "-f", tmp_path)
    assert lost.code == 1
    assert "TableMissing" in lost.err + lost.out, "and no empty one was made in its place"

    assert run_here("register", "events", table.metadata_location, "-f", tmp_path).code == 0

    assert run_here("apply", "-f", tmp_path).code == 0
    assert embedded_catalog(tmp_path).load_table(NAME).scan().count() == 10
