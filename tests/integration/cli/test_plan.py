"""`plan`: what would change and what is due, as text, JSON and Markdown; and it changes nothing."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tablewright.api.run import Cause, Operation, Phase
from tablewright.decide.state import StartRun
from tablewright.embedded.apply import RunStarted, apply_folder
from tablewright.embedded.folder import read_folder
from tablewright.embedded.plan import plan_folder
from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_cli, run_here

GOLDEN_TEXT = """\
sales/events
  catalog: lake (embedded, file://{folder}/.tablewright/warehouse)
  + create table sales.events (format version 2): id required long, name string
  1 change, in one commit.
"""
GOLDEN_MARKDOWN = """\
## Tablewright plan

1 to change, 0 refused, 0 as declared.

### 🆕 `sales/events`

```diff
catalog: lake (embedded, file://{folder}/.tablewright/warehouse)
+ create table sales.events (format version 2): id required long, name string
1 change, in one commit.
```

"""


def test_a_plan_says_what_would_be_created_and_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    shown = run_cli("plan", "-f", tmp_path)
    assert (shown.code, shown.out, shown.err) == (0, GOLDEN_TEXT.format(folder=tmp_path), "")
    due = run_cli("plan", "-f", tmp_path, "--exit-code", "-o", "markdown")
    assert (due.code, due.out) == (3, GOLDEN_MARKDOWN.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["events.yaml"]


def test_a_plan_names_changes_refusals_and_due_maintenance(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    idle = run_cli("plan", "-f", tmp_path, "--exit-code")
    assert (idle.code, idle.out) == (0, "sales/events\n  The table is as declared.\n")
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    for first in range(0, 60, 10):
        table.append(rows(first, 10))
    before = table.refresh().metadata_location, (tmp_path / ".tablewright" / "objects.json").read_text()

    changed = TABLES.replace("type: string}", "type: string}\n      - {name: city, type: string}")
    (tmp_path / "events.yaml").write_text(changed + "  compaction: {triggers: {smallFiles: 5}}\n")
    [planned] = json.loads(run_cli("plan", "-f", tmp_path, "-o", "json").out)["tables"]
    assert [change["change"] for change in planned["changes"]] == ["AddColumn"]
    assert [due["operation"] for due in planned["maintenanceDue"]] == ["Compact"]
    assert "6 small files of 6" in planned["maintenanceDue"][0]["reason"]

    (tmp_path / "events.yaml").write_text(TABLES.replace("id, type: long", "id, type: int"))
    refused = run_cli("plan", "-f", tmp_path)
    assert refused.code == 1
    assert "! schema.columns[id].type: " in refused.out
    after = table.refresh().metadata_location, (tmp_path / ".tablewright" / "objects.json").read_text()
    assert after == before


EVERYTHING = (
    TABLES
    + """\
  compaction: {triggers: {smallFiles: 5}}
  retention: {snapshots: {schedule: "* * * * *", maxAge: 1s, minCount: 1}}
  orphanFiles: {schedule: "* * * * *"}
"""
)


def test_a_plan_lists_all_that_is_due_in_the_order_in_which_it_would_run(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(EVERYTHING)
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    for first in range(0, 60, 10):
        table.append(rows(first, 10))
    later = datetime.now(UTC) + timedelta(minutes=2)
    [planned] = plan_folder(read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), later)
    assert [(run.operation.value, run.reason) for run in planned.due] == [
        ("Compact", "6 small files of 6; the policy tolerates fewer than 5"),
        ("ExpireSnapshots", "its scheduled time has come"),
        ("RemoveOrphanFiles", "its scheduled time has come"),
    ]
    asked = EVERYTHING.replace("sales}", "sales, annotations: {tablewright.dev/run: Inspect}}")
    (tmp_path / "events.yaml").write_text(asked)
    [planned] = plan_folder(read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), later)
    assert [run.operation.value for run in planned.due][:2] == ["Inspect", "Compact"], "a person goes first"


def test_a_plan_names_a_run_that_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    state, now = EmbeddedState(tmp_path / ".tablewright"), datetime.now(UTC)
    [declared] = read_folder(tmp_path).tables
    with state.locked():
        start = StartRun("events-expiry-1", Operation.EXPIRE_SNAPSHOTS, Cause.SCHEDULE)
        run = state.create_run(state.remembered(declared), start, now)
        state.save_run(run, run.status.model_copy(update={"phase": Phase.RUNNING}))
    planned = run_here("plan", "-f", tmp_path)
    assert "  * ExpireSnapshots is due: run events-expiry-1 was interrupted\n" in planned.out


def test_a_plan_names_a_table_that_another_object_has(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    other = TABLES.replace("name: events,", "name: second,") + "  identifier: {namespace: sales, name: events}\n"
    (tmp_path / "second.yaml").write_text(other)
    planned = run_here("plan", "-f", tmp_path)
    assert planned.code == 1
    assert "sales/second\n  ! ClaimedByAnother: the table is declared by the older ManagedTable events" in planned.out
    assert planned.out.count("+ create table") == 1


def test_a_plan_names_a_table_that_is_awaited_and_not_there(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES + "  managementPolicy: MaintainOnly\n")
    planned = run_here("plan", "-f", tmp_path)
    assert planned.code == 1 == run_here("apply", "-f", tmp_path).code
    assert "  ! TableAwaited: there is no such table, and managementPolicy MaintainOnly creates none" in planned.out
    assert "create table" not in planned.out


def test_a_plan_says_which_holds_would_be_placed(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    embedded_catalog(tmp_path).load_table(("sales", "events")).append(rows(0, 10))
    until, as_of = datetime.now(UTC) + timedelta(days=1), datetime.now(UTC)
    holds = f"[{{name: audit, asOf: {as_of:%Y-%m-%dT%H:%M:%S.%fZ}, until: {until:%Y-%m-%dT%H:%M:%SZ}}}]"
    (tmp_path / "events.yaml").write_text(TABLES + f"  retention: {{holds: {holds}}}\n")
    [planned] = plan_folder(read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), as_of + timedelta(hours=1))
    assert planned.has_work
    [sentence] = planned.holds
    assert sentence.startswith("place hold audit on snapshot ")


def test_looking_makes_neither_a_database_nor_its_tables(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "events.yaml").write_text(TABLES)
    catalog = (
        "apiVersion: tablewright.dev/v1alpha1\nkind: TableCatalog\nmetadata: {{name: lake, namespace: sales}}\n"
        'spec: {{sql: {{uri: "sqlite:///{file}"}}, warehouse: "file:///nowhere"}}\n'
    )
    (folder / "lake.yaml").write_text(catalog.format(file=tmp_path / "lake.db"))
    assert "+ create table sales.events" in run_here("plan", "-f", folder).out
    shown = run_here("inspect", "events", "-f", folder)
    assert (shown.code, "not there yet" in shown.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]

    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (a)")
    other.close()
    before = (tmp_path / "other.db").read_bytes()
    (folder / "lake.yaml").write_text(catalog.format(file=tmp_path / "other.db"))
    assert "+ create table sales.events" in run_here("plan", "-f", folder).out
    run_here("history", "events", "-f", folder)
    assert (tmp_path / "other.db").read_bytes() == before


def test_what_failed_is_tried_again_when_somebody_applies(tmp_path: Path) -> None:
    """Whoever installs Java after JavaMissing does not wait for the back-off."""
    (tmp_path / "events.yaml").write_text(TABLES + "  compaction: {triggers: {smallFiles: 5}}\n")
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    for first in range(0, 60, 10):
        table.append(rows(first, 10))
    nowhere = {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    failed = run_cli("apply", "-f", tmp_path, **nowhere)
    assert failed.code == 1
    assert "Compact failed" in failed.err
    assert "* Compact is due" in run_here("plan", "-f", tmp_path).out
    state = EmbeddedState(tmp_path / ".tablewright")
    by_itself = list(apply_folder(read_folder(tmp_path), state, by_itself=True))
    assert not [event for event in by_itself if isinstance(event, RunStarted)], "nobody asked: it waits"
    again = run_cli("apply", "-f", tmp_path)
    assert again.code == 0
    assert "rewrote 6 files" in again.err
