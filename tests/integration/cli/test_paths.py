"""Folders by any name that the file system takes: for declarations, state, warehouse and report."""

import os
from pathlib import Path

import pytest

from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_here

NAMES = ["a b@c", "a#b", "a?b", "a%20b", "a:b;[c]", "a\nb"]
WORST = "it's 100% @home: a#b?c%20d"


def declared_in(folder: Path, yaml: str = TABLES) -> Path:
    folder.mkdir()
    (folder / "events.yaml").write_text(yaml)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_folder_of_any_name_is_planned_applied_and_inspected(tmp_path: Path, name: str) -> None:
    folder = declared_in(tmp_path / name)
    assert "create table" in run_here("plan", "-f", folder).out
    assert run_here("apply", "-f", folder).code == 0
    assert "as declared" in run_here("plan", "-f", folder).out
    embedded_catalog(folder).load_table(("sales", "events")).append(rows(0, 10))
    inspected = run_here("inspect", "events", "-f", folder)
    assert "rows:        10\n" in inspected.out, inspected.err
    assert run_here("report", "-f", folder, "-o", folder / "report.html").code == 0
    assert (folder / "report.html").is_file()
    assert (folder / ".tablewright" / "warehouse" / "sales.db" / "events" / "data").is_dir()
    assert list(tmp_path.iterdir()) == [folder], "something was made in a folder of another name"


def test_table_in_folder_with_special_characters_is_maintained(tmp_path: Path) -> None:
    folder = declared_in(tmp_path / WORST)
    apply_here(folder)
    table = embedded_catalog(folder).load_table(("sales", "events"))
    for first in (0, 10, 20):
        table.append(rows(first, 10))
    compacted = run_here("run", "compact", "events", "-f", folder, "--min-input-files", "2")
    assert compacted.code == 0, compacted.err
    expired = run_here("run", "expire-snapshots", "events", "-f", folder, "--max-age", "0s", "--min-count", "1")
    assert expired.code == 0, expired.err
    table.refresh()
    assert [len(list(table.scan().plan_files())), table.scan().count()] == [1, 30]
    data = folder / ".tablewright" / "warehouse" / "sales.db" / "events" / "data"
    assert len(list(data.glob("*.parquet"))) == 1, "the files of expired snapshots are still there"


def test_state_has_a_folder_of_any_name(tmp_path: Path) -> None:
    folder, state = declared_in(tmp_path / "plain"), tmp_path / WORST
    assert run_here("apply", "-f", folder, "--state", state).code == 0
    inspected = run_here("inspect", "events", "-f", folder, "--state", state)
    assert (inspected.code, (state / "warehouse").is_dir()) == (0, True), inspected.err


def test_database_in_folder_with_special_characters_is_addressed_by_its_url(tmp_path: Path) -> None:
    folder = declared_in(tmp_path / "a b#c")
    apply_here(folder)
    uri = f"sqlite:///{tmp_path}/a b%23c/.tablewright/catalog.db"
    inspected = run_here("inspect", "sales.events", "--catalog-uri", uri)
    assert inspected.code == 0, inspected.err


@pytest.mark.parametrize("warehouse", ["file://{}/my lake", "{}/a#b"])
def test_declared_warehouse_has_a_folder_of_any_name(tmp_path: Path, warehouse: str) -> None:
    catalog = f"""\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {{name: lake, namespace: sales}}
spec:
  sql: {{uri: "sqlite:///{tmp_path}/my%20catalog.db"}}
  warehouse: "{warehouse.format(tmp_path)}"
---
"""
    folder = declared_in(tmp_path / "plain", catalog + TABLES)
    applied = run_here("apply", "-f", folder)
    assert applied.code == 0, applied.err
    made = tmp_path / warehouse.rpartition("/")[2] / "sales.db" / "events" / "metadata"
    assert (made.is_dir(), (tmp_path / "my catalog.db").is_file()) == (True, True)


def test_problems_in_folder_with_colons_are_all_named(tmp_path: Path) -> None:
    folder = declared_in(tmp_path / "a:b", TABLES.replace("spec:", "spec:\n  nothing: 1"))
    (folder / "second.yaml").write_text("a: [")
    found = run_here("validate", "-f", folder)
    assert (found.code, found.err.count("error: ")) == (2, 2)


def test_command_that_is_offered_can_be_pasted(tmp_path: Path) -> None:
    folder = declared_in(tmp_path / "a b")
    assert f"tablewright apply -f '{folder}'" in run_here("inspect", "events", "-f", folder).err


def test_folder_that_is_not_utf8_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = declared_in(tmp_path / os.fsdecode(b"\xff"))
    planned = run_here("plan", "-f", folder)
    assert planned.code == 2
    assert "--state" in planned.err
