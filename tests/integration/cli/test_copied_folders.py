"""A folder's tables name their files by absolute paths, so a copy of the folder must not be worked through."""

import shutil
from pathlib import Path

import pytest

from tableformat.catalogs import SqlConfig, open_catalog
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_here


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "original"
    path.mkdir()
    (path / "events.yaml").write_text(TABLES)
    apply_here(path)
    table = embedded_catalog(path).load_table(("sales", "events"))
    table.append(rows(0, 10))
    table.overwrite(rows(10, 10))
    return path


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "catalog.db-" not in path.name}


@pytest.mark.parametrize(
    "command",
    [
        "apply -f {copy}",
        "plan -f {copy}",
        "get tables -f {copy}",
        "report -f {copy} -o {copy}/report.html",
        "inspect events -f {copy}",
        "run expire-snapshots events -f {copy} --max-age 1s --min-count 1",
        "run expire-snapshots sales.events --catalog-uri sqlite:///{copy}/.tablewright/catalog.db --max-age 1s",
    ],
)
def test_nothing_is_done_through_a_copy_to_the_files_of_the_original(original: Path, command: str) -> None:
    copy = original.parent / "copy"
    shutil.copytree(original, copy)
    before = files(original)
    ended = run_here(*command.format(copy=copy).split())
    assert (ended.code, ended.out) == (2, "")
    [line] = ended.err.splitlines()
    assert line.startswith(f"error: {copy}/.tablewright was copied or moved from {original}/.tablewright: ")
    assert "or start anew with another --state" in line
    assert files(original) == before
    assert embedded_catalog(original).load_table(("sales", "events")).scan().to_arrow().num_rows == 10


def test_a_folder_that_was_moved_works_again_where_its_old_place_leads_to_it(original: Path) -> None:
    moved = original.parent / "moved"
    original.rename(moved)
    refused = run_here("history", "events", "-f", moved)
    assert (refused.code, refused.out) == (2, "")
    assert "was copied or moved from" in refused.err
    original.symlink_to(moved)
    assert run_here("history", "events", "-f", moved).code == 0
    assert run_here("apply", "-f", original).code == 0


def test_a_folder_whose_tables_are_in_a_declared_catalog_may_be_copied(tmp_path: Path) -> None:
    """Its state holds nothing but what was seen and done."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    uri, warehouse = f"sqlite:///{tmp_path}/lake.db", f"file://{tmp_path}/warehouse"
    (one / "lake.yaml").write_text(
        "apiVersion: tablewright.dev/v1alpha1\nkind: TableCatalog\nmetadata: {name: lake, namespace: sales}\n"
        f'spec: {{sql: {{uri: "{uri}"}}, warehouse: "{warehouse}"}}\n'
    )
    (one / "events.yaml").write_text(TABLES)
    apply_here(one)
    shutil.copytree(one, other)
    assert run_here("apply", "-f", other).code == 0
    with open_catalog(SqlConfig(name="lake", uri=uri, warehouse=warehouse)) as catalog:
        assert catalog.table_exists(("sales", "events"))


def test_a_table_whose_file_is_gone_is_no_storage_that_did_not_answer(original: Path) -> None:
    """Trying again later would not help: 2, not 4."""
    catalog = embedded_catalog(original)
    snapshot = catalog.load_table(("sales", "events")).current_snapshot()
    assert snapshot is not None
    gone = Path(snapshot.manifest_list.removeprefix("file://"))
    gone.rename(gone.with_suffix(".away"))
    ended = run_here("inspect", "events", "-f", original)
    assert (ended.code, ended.out) == (2, "")
    [line] = ended.err.splitlines()
    assert line.startswith("error: a file that the table needs is not there: ")
    assert gone.name in line
    planned = run_here("plan", "-f", original)
    assert planned.code == 1
    assert gone.name in planned.out
    applied = run_here("apply", "-f", original)
    assert applied.code == 1
    assert "sales/events: not Ready (Unreadable): " in applied.err
