"""`plan`: what would change and what is due, as text, JSON and Markdown; and it changes nothing."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tablewright.api.run import Cause, Operation, Phase
from tablewright.decide.state import StartRun
from tablewright.embedded.apply import RunEnded, RunStarted, apply_folder
from tablewright.embedded.folder import read_folder
from tablewright.embedded.plan import plan_folder
from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import (
    TABLES,
    apply_here,
    embedded_catalog,
    rows,
    run_cli,
    run_here,
    run_in_terminal,
)

GOLDEN_TEXT = """\
sales/events
  catalog: lake (embedded, file://{folder}/.tablewright/warehouse)
  + create table sales.events (format version 2): id required long, name string
  1 change, in one commit.

1 to create
"""
GOLDEN_MARKDOWN = """\
## Tablewright plan

1 to create

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
    assert (idle.code, idle.out) == (0, "sales/events\n  The table is as declared.\n\nNothing to do.\n")
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
    [planned] = plan_folder(read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), later).tables
    assert [(run.operation.value, run.reason) for run in planned.due] == [
        ("Compact", "6 small files of 6; the policy tolerates fewer than 5"),
        ("ExpireSnapshots", "its scheduled time has come"),
        ("RemoveOrphanFiles", "its scheduled time has come"),
    ]
    asked = EVERYTHING.replace("sales}", "sales, annotations: {tablewright.dev/run: Inspect}}")
    (tmp_path / "events.yaml").write_text(asked)
    [planned] = plan_folder(read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), later).tables
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
    [planned] = plan_folder(
        read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), as_of + timedelta(hours=1)
    ).tables
    assert planned.has_work
    [sentence] = planned.holds
    assert sentence.startswith("place hold audit on snapshot ")


DAILY = (
    TABLES
    + """\
  retention: {snapshots: {schedule: "0 3 * * *", maxAge: 1s, minCount: 1}}
  windows: [{days: [Mon, Tue, Wed, Thu, Fri, Sat, Sun], start: "22:00", duration: 2h}]
"""
)


def test_a_coming_run_is_planned_for_the_time_at_which_its_window_opens(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(DAILY)
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    for first in (0, 10):
        table.append(rows(first, 10))
    noon = (datetime.now(UTC) + timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0)
    ten = noon.replace(hour=22)

    def coming(now: datetime) -> list[tuple[str, datetime, bool]]:
        [planned] = plan_folder(read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright"), now).tables
        assert planned.due == ()
        return [(run.operation.value, run.at, run.when_window_opens) for run in planned.coming]

    assert coming(noon) == [("ExpireSnapshots", ten, True)]
    state = EmbeddedState(tmp_path / ".tablewright")
    events = list(apply_folder(read_folder(tmp_path), state, clock=lambda: ten))
    assert [event.run.status.phase for event in events if isinstance(event, RunEnded)] == [Phase.SUCCEEDED]
    assert coming(ten + timedelta(minutes=5)) == [("ExpireSnapshots", ten + timedelta(days=1), True)], "3:00 is closed"
    (tmp_path / "events.yaml").write_text(DAILY.replace('"22:00"', '"02:30"'))
    assert coming(ten + timedelta(minutes=5)) == [("ExpireSnapshots", ten + timedelta(hours=5), False)], "and now open"


def test_a_plan_names_objects_whose_declaration_is_gone(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    (tmp_path / "other.yaml").write_text(TABLES.replace("name: events", "name: other"))
    apply_here(tmp_path)
    (tmp_path / "other.yaml").unlink()
    planned = run_here("plan", "-f", tmp_path, "--exit-code")
    assert (planned.code, planned.out) == (
        3,
        "sales/events\n  The table is as declared.\n\n"
        "sales/other\n"
        "  - its declaration is gone: apply forgets the object and its runs, and leaves the table as it is\n"
        "\n1 to forget\n",
    )
    assert json.loads(run_here("plan", "-f", tmp_path, "-o", "json").out)["forgotten"] == ["sales/other"]
    assert "### 🗑️ `sales/other`" in run_here("plan", "-f", tmp_path, "-o", "markdown").out
    assert "forgotten" not in run_here("plan", "-f", tmp_path / "events.yaml").out, "it may be declared beside it"
    assert run_here("apply", "-f", tmp_path).code == 0
    assert run_here("plan", "-f", tmp_path, "--exit-code").code == 0


def test_a_refused_change_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    changed = TABLES.replace("id, type: long", "id, type: int").replace(
        "name: name,", "name: title, previousNames: [name],"
    )
    more = "      - {name: city, type: string}\n  partitioning: [{column: city, transform: identity}]\n"
    order = "  layout: {order: {strategy: Sort, columns: [title]}}\n  properties: {a: b}\n"
    (tmp_path / "events.yaml").write_text(changed.replace("  layout: {targetFileSize: 16Mi}\n", more + order))
    [planned] = json.loads(run_here("plan", "-f", tmp_path, "-o", "json").out)["tables"]
    assert [refusal["field"] for refusal in planned["refusals"]] == ["schema.columns[id].type"]
    kinds = ["RenameColumn", "AddColumn", "ChangePartitioning", "ChangeSortOrder", "SetProperty", "UnsetProperty"]
    assert [change["change"] for change in planned["changes"]] == kinds


def test_a_location_that_another_table_has_is_refused_before_it_is_applied(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    taken = embedded_catalog(tmp_path).load_table(("sales", "events")).location()
    (tmp_path / "second.yaml").write_text(
        TABLES.replace("name: events,", "name: second,") + f"  location: {taken}/inner\n"
    )
    planned = run_here("plan", "-f", tmp_path)
    assert planned.code == 1 == run_here("apply", "-f", tmp_path).code
    assert f"! location: {taken}/inner overlaps {taken}, which belongs to the table sales.events\n" in planned.out
    assert planned.out.endswith("\n1 refused\n")


def test_a_plan_says_who_suspends_maintenance(tmp_path: Path) -> None:
    text = TABLES + "  compaction: {triggers: {smallFiles: 5}}\n"
    (tmp_path / "events.yaml").write_text(text)
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    for first in range(0, 60, 10):
        table.append(rows(first, 10))
    (tmp_path / "events.yaml").write_text(text + "  suspend: true\n")
    planned = run_here("plan", "-f", tmp_path)
    assert "\n  maintenance is suspended by spec.suspend of the table\n\nNothing to do.\n" in planned.out
    [document] = json.loads(run_here("plan", "-f", tmp_path, "-o", "json").out)["tables"]
    assert document["suspendedBy"] == "table"
    policy = text.split("metadata:")[0].replace("ManagedTable", "TablePolicy") + (
        "metadata: {name: gold, namespace: sales}\nspec: {selector: {}, suspend: true}\n"
    )
    (tmp_path / "events.yaml").write_text(f"{text}---\n{policy}")
    assert "suspended by spec.suspend of TablePolicy gold\n" in run_here("plan", "-f", tmp_path).out


def test_the_last_line_sums_the_plan_up(tmp_path: Path) -> None:
    text = TABLES + "  compaction: {triggers: {smallFiles: 5}}\n"
    for name in ("events", "changed", "refused"):
        (tmp_path / f"{name}.yaml").write_text(text.replace("name: events", f"name: {name}"))
    apply_here(tmp_path)
    for name in ("events", "refused"):
        table = embedded_catalog(tmp_path).load_table(("sales", name))
        for first in range(0, 60, 10):
            table.append(rows(first, 10))
    changed = text.replace("name: events", "name: changed").replace("name: name", "name: title, previousNames: [name]")
    (tmp_path / "changed.yaml").write_text(changed)
    refused = text.replace("name: events", "name: refused").replace("type: long", "type: int")
    (tmp_path / "refused.yaml").write_text(refused)
    (tmp_path / "new.yaml").write_text(text.replace("name: events", "name: new"))
    planned = run_here("plan", "-f", tmp_path)
    assert planned.out.splitlines()[-1] == "1 to create, 1 to change, 2 runs due, 1 refused"
    document = json.loads(run_here("plan", "-f", tmp_path, "-o", "json").out)
    assert document["summary"] == {
        "create": 1,
        "change": 1,
        "forget": 0,
        "runsDue": 2,
        "refused": 1,
        "unreachable": 0,
    }
    only = run_here("plan", "-f", tmp_path / "events.yaml").out.splitlines()
    assert only[-1] == "1 run due"


def test_a_plan_has_colours_on_a_terminal_unless_somebody_wants_none(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    shown = run_in_terminal("plan", "-f", tmp_path)
    assert "\n\x1b[32m  + create table sales.events" in shown.out
    plain = GOLDEN_TEXT.format(folder=tmp_path)
    assert run_in_terminal("plan", "-f", tmp_path, NO_COLOR="1").out == plain == run_cli("plan", "-f", tmp_path).out


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
