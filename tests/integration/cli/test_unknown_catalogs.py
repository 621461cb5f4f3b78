"""A catalog that is not declared never becomes a new, empty one."""

import json
from pathlib import Path

import pytest

from tableformat.catalogs import SqlConfig, open_catalog
from tests.integration.cli.conftest import TABLES, apply_here, rows, run_here

CATALOG = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {name: prod, namespace: sales}
spec:
  sql: {uri: "sqlite:////nowhere/catalog.db"}
  warehouse: file:///nowhere
"""


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_mistyped_catalog_is_refused_where_none_is_declared(tmp_path: Path, command: str) -> None:
    (tmp_path / "events.yaml").write_text(TABLES.replace("name: lake", "name: lak"))
    ended = run_here(command, "-f", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "events.yaml:5:22: spec.catalogRef.name: there is no TableCatalog sales/lak in the folder" in ended.err
    assert '"lake" for the embedded catalog' in ended.err
    assert not (tmp_path / ".tablewright").exists()


def test_catalog_of_another_folder_of_the_cluster_is_valid_and_noted(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES.replace("name: lake", "name: lak"))
    checked = run_here("validate", "-f", tmp_path)
    assert (checked.code, checked.out) == (0, "1 object: no problems\n")
    assert "note: " in checked.err
    assert "there is no TableCatalog sales/lak in the folder" in checked.err
    [note] = json.loads(run_here("validate", "-f", tmp_path, "-o", "json").out)["notes"]
    assert "sales/lak" in note


def test_plan_names_the_catalog_that_a_table_goes_to(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    embedded = f"catalog: lake (embedded, file://{tmp_path}/.tablewright/warehouse)"
    assert embedded in run_here("plan", "-f", tmp_path).out
    (tmp_path / "events.yaml").write_text(f"{CATALOG}---\n{TABLES.replace('name: lake', 'name: prod')}")
    planned = json.loads(run_here("plan", "-f", tmp_path, "-o", "json").out)["tables"][0]
    assert planned["catalog"] == "prod (sql, file:///nowhere)"


def test_export_without_a_working_catalog_fails_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    uri = f"sqlite:///{tmp_path}/.tablewright/catalog.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "in-memory")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/.tablewright/warehouse")
    failed = run_here("export", "sales.events", "--catalog", "lake")
    assert (failed.code, failed.out) == (2, "")
    assert "--catalog-ref" in failed.err
    named = run_here("export", "sales.events", "--catalog", "lake", "--catalog-ref", "prod")
    assert (named.code, named.out.count("kind: ")) == (0, 1)


def test_sql_catalog_that_kubernetes_has_no_name_for_is_exported_and_adopted(tmp_path: Path) -> None:
    database, adopted = tmp_path / "my catalogs.db", tmp_path / "adopted"
    warehouse = f"file://{tmp_path}/warehouse"
    catalog = open_catalog(SqlConfig(name="prod_lake", uri=f"sqlite:///{database}", warehouse=warehouse))
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.events", rows(0, 1).schema)
    table.append(rows(0, 10))
    exported = run_here("export", "sales.events", "--catalog-uri", f"sqlite:///{database}")
    assert "catalogName: prod_lake" in exported.out, exported.err
    adopted.mkdir()
    (adopted / "events.yaml").write_text(exported.out)
    planned = run_here("plan", "-f", adopted)
    assert (planned.code, "The table is as declared." in planned.out) == (0, True), planned.out + planned.err
    assert "rows:        10\n" in run_here("inspect", "events", "-f", adopted).out
