"""Commands that only read: history, diff, export, get, describe; by folder, by address and by PyIceberg's own file."""

import json
import re
from pathlib import Path

import pytest
import yaml
from pyiceberg.types import StringType

from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_cli, run_in_terminal


def uri(folder: Path) -> str:
    return f"sqlite:///{folder}/.tablewright/catalog.db"


def masked(text: str) -> str:
    """Ids and times differ from run to run; their places in the table do not."""
    text = re.sub(r"\b\d{16,19}\b", lambda match: "I" * len(match[0]), text)
    text = re.sub(r"I{16,19} *", "ID   ", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)


GOLDEN_HISTORY = """\
SNAPSHOT TIME OPERATION FILES + FILES - ROWS + ROWS - FILES ROWS STATE REFS
ID TIME append 1 - 10 - 3 30 current main
ID TIME append 1 - 10 - 2 20 past -
ID TIME append 1 - 10 - 1 10 past -
"""


def test_history_lists_snapshots_the_newest_first(folder: Path) -> None:
    shown = run_cli("history", "events", "-f", folder)
    assert shown.code == 0, shown.err
    assert re.sub(r" +", " ", masked(shown.out)) == GOLDEN_HISTORY
    assert run_cli("history", "sales.events", "--catalog-uri", uri(folder)).out == shown.out
    newest = run_cli("history", "sales/events", "-f", folder, "-o", "json", "--limit", "2")
    assert newest.err == "note: the newest 2 of 3 snapshots; --limit 3 shows all of them\n"
    entries = json.loads(newest.out)["snapshots"]
    assert [entry["totalRecords"] for entry in entries] == [30, 20]
    assert entries[0]["parentId"] == entries[1]["snapshotId"]


def test_diff_counts_files_rows_and_bytes_and_names_schema_changes(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    table.append(rows(0, 10))
    table.append(rows(10, 5))
    first = table.snapshots()[0].snapshot_id
    table.overwrite(rows(100, 3))
    with table.update_schema() as update:
        update.rename_column("name", "label")
        update.add_column("city", StringType())
    table.append(rows(200, 1).rename_columns(["id", "label"]))
    shown = run_cli("diff", "events", str(first), "current", "-f", tmp_path)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[1].split()[:6] == ["data", "files", "2", "1", "4", "10"]
    assert lines[-1] == "schema: renamed name to label; added city (string)"
    found = json.loads(run_cli("diff", "events", str(first), "-f", tmp_path, "-o", "json").out)
    assert (found["added"]["files"], found["removed"]["records"]) == (2, 10)
    sizes = table.inspect.all_data_files()
    assert found["added"]["bytes"] < sum(sizes["file_size_in_bytes"].to_pylist())


GOLDEN_INSPECTION = """\
table:       sales.events
location:    file://FOLDER/.tablewright/warehouse/sales.db/events
format:      Iceberg v2
rows:        30
data files:  3 of SIZE, median SIZE
small files: 3 (100 %); the target is SIZE
deletes:     0 files (0 position, 0 equality, 0 vectors) on 0 data files
full scan:   opens 3.0 times as many files as it had to; compaction would save it 2 requests
partitions:  1
manifests:   3 of SIZE
snapshots:   3

file sizes
  < SIZE  ################################  3

REF    KIND     SNAPSHOT
main   branch   ID

what each operation would do
OPERATION          FILES SIZE   SNAPSHOTS   NOTE
Compact                0 SIZE           0   nothing to do
ExpireSnapshots        0 SIZE           0   nothing to do
RewriteManifests       3 SIZE           0   -
"""


def test_inspect_shows_health_sizes_refs_and_savings_alike_in_a_pipe_and_in_a_terminal(folder: Path) -> None:
    shown = run_cli("inspect", "events", "-f", folder)
    assert (shown.code, shown.err) == (0, "")
    text = re.sub(r"\b\d{15,19}\b", "ID", shown.out.replace(str(folder), "FOLDER"))
    text = re.sub(r" +SIZE   SNAPSHOTS", " SIZE   SNAPSHOTS", re.sub(r" +[\d.]+ (B|KiB|MiB)\b", " SIZE", text))
    assert text == GOLDEN_INSPECTION
    assert run_in_terminal("inspect", "events", "-f", folder).out == shown.out


GOLDEN_EXPORT = """\
apiVersion: tablewright.dev/v1alpha1
kind: ManagedTable
metadata:
  name: events
  namespace: sales
spec:
  catalogRef:
    name: lake
  identifier:
    namespace: sales
    name: events
  formatVersion: 2
  schema:
    columns:
    - name: id
      type: long
      required: true
    - name: name
      type: string
  layout:
    targetFileSize: 16Mi
"""


GOLDEN_CATALOG = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata:
  name: lake
  namespace: sales
spec:
  sql:
    uri: sqlite:///{folder}/.tablewright/catalog.db
  warehouse: file://{folder}/.tablewright/warehouse
---
"""


def test_an_exported_table_is_adopted_without_a_change(folder: Path, tmp_path: Path) -> None:
    exported = run_cli("export", "sales.events", "--catalog-uri", uri(folder))
    assert exported.code == 0, exported.err
    assert exported.out == GOLDEN_CATALOG.format(folder=folder) + GOLDEN_EXPORT
    (tmp_path / "adopted.yaml").write_text(exported.out)
    before = embedded_catalog(folder).load_table(("sales", "events")).metadata_location
    adopted = run_cli("apply", "-f", tmp_path)
    assert (adopted.code, adopted.err) == (0, "")
    assert embedded_catalog(folder).load_table(("sales", "events")).metadata_location == before
    assert "30" in run_cli("inspect", "events", "-f", tmp_path).out
    named = run_cli("export", "sales.events", "--catalog-uri", uri(folder), "--catalog-ref", "pond")
    assert named.out == GOLDEN_EXPORT.replace("name: lake", "name: pond"), "that one is declared already"


def test_a_catalog_is_found_by_pyicebergs_own_configuration(folder: Path, tmp_path: Path) -> None:
    content = {"catalog": {"lake": {"uri": uri(folder), "warehouse": f"file://{folder}/w"}}}
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump(content))
    named = run_cli("history", "sales.events", "--catalog", "lake", PYICEBERG_HOME=str(tmp_path))
    assert named.code == 0, named.err
    assert len(named.out.splitlines()) == 4
    wrong = run_cli("history", "sales.events", "--catalog", "laek", PYICEBERG_HOME=str(tmp_path))
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "error: --catalog: PyIceberg's configuration has no catalog 'laek': did you mean \"lake\"?\n"


def test_a_catalog_of_pyicebergs_configuration_needs_no_warehouse(folder: Path) -> None:
    """It is where new tables go: whoever only reads and writes the ones that are there names none."""
    named = run_cli("history", "sales.events", "--catalog", "lake", PYICEBERG_CATALOG__LAKE__URI=uri(folder))
    assert (named.code, named.err) == (0, "")
    assert len(named.out.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["history", "sales.event"], 'there is no table sales.event: did you mean "events"?'),
        (["history", "slaes.events"], "there is no table slaes.events: there is no namespace 'slaes'; did you mean"),
        (["history", "events"], "'events' is no table's name: write namespace.table"),
        (["diff", "sales.events", "17"], "the table has no snapshot '17': give an id that `history` shows"),
        (["history", "sales.events", "--property", "x"], "--property: write key=value"),
        (["history", "sales.events", "-f", "."], "give a folder with -f, or a catalog with --catalog or --catalog-uri"),
    ],
    ids=["no such table", "no such namespace", "half a name", "no such snapshot", "bad property", "two addresses"],
)
def test_what_cannot_be_found_is_named_with_what_can(folder: Path, arguments: list[str], complaint: str) -> None:
    ended = run_cli(*arguments, "--catalog-uri", uri(folder))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {complaint}")
    assert len(ended.err.splitlines()) == 1


def test_a_mistyped_database_is_not_created(tmp_path: Path) -> None:
    ended = run_cli("history", "sales.events", "--catalog-uri", f"sqlite:///{tmp_path}/typo.db")
    assert ended.code == 2
    assert f"there is no file {tmp_path}/typo.db" in ended.err
    assert list(tmp_path.iterdir()) == []
    assert "give --property type=" in run_cli("history", "a.b", "--catalog-uri", "warehouse").err
    asked = run_cli("history", "a.b", PYICEBERG_HOME=str(tmp_path), HOME=str(tmp_path))
    assert asked.code == 2
    assert "which catalog? Give --catalog NAME" in asked.err


def test_a_catalog_that_does_not_answer_has_an_exit_code_of_its_own() -> None:
    ended = run_cli("history", "sales.events", "--catalog-uri", "http://127.0.0.1:9")
    assert ended.code == 4, ended.err
    assert "Traceback" not in ended.err


def test_get_shows_a_folders_tables_in_kubectls_columns(folder: Path) -> None:
    shown = run_cli("get", "tables", "-f", folder)
    title, row = shown.out.splitlines()
    assert title.split()[:3] == ["NAMESPACE", "NAME", "READY"]
    assert row.split()[:3] == ["sales", "events", "True"]
    assert run_cli("get", "mtbl", "-f", folder, "-n", "sales").out.startswith("NAME ")
    wide = run_cli("get", "tables", "-f", folder, "-o", "wide").out.splitlines()[0]
    assert re.split(r" {2,}", wide) == [
        *("NAMESPACE", "NAME", "READY", "IN SYNC", "FILES", "SMALL", "SIZE", "HEALTHY", "MAINTAINED", "LAST", "NEXT"),
        "AGE",
    ]
    whole = yaml.safe_load(run_cli("get", "table", "events", "-f", folder, "-o", "yaml").out)
    assert whole["status"]["health"]["dataFiles"] == 3
    described = run_cli("describe", "table", "events", "-f", folder)
    assert described.out.startswith("Name:       events\nNamespace:  sales\n")
    assert "Ready" in described.out


def test_get_names_what_it_does_not_know(folder: Path) -> None:
    assert "there is no kind 'tabel': did you mean \"table\"?" in run_cli("get", "tabel", "-f", folder).err
    missing = run_cli("describe", "table", "event", "-f", folder)
    assert (missing.code, missing.err) == (2, "error: there is no ManagedTable 'event': did you mean \"events\"?\n")
    nothing = run_cli("get", "runs", "-f", folder)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no runs found\n")


def test_colours_are_for_terminals_and_not_for_those_who_want_none(folder: Path) -> None:
    assert "\x1b[32mTrue" in run_in_terminal("get", "tables", "-f", folder).out
    assert "\x1b" not in run_in_terminal("get", "tables", "-f", folder, NO_COLOR="1").out
    assert "\x1b" not in run_cli("get", "tables", "-f", folder).out


def test_help_has_an_example_for_every_command() -> None:
    from tablewright.cli.commands import hold, run
    from tablewright.cli.main import app

    commands = [command.callback for each in (app, run.app, hold.app) for command in each.registered_commands]
    assert len(commands) >= 20
    for command in commands:
        assert command is not None
        if command.__name__ != "operator":
            assert "Example" in (command.__doc__ or ""), command.__name__
    shown = run_cli("--help")
    assert shown.code == 0
    assert "Exit codes: 0 fine" in shown.out
