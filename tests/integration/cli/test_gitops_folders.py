"""Folders as GitOps has them: other kinds beside ours, several folders at once, and what `kustomize build` prints."""

import io
import json
from pathlib import Path

import pytest

from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import TABLES, Ended, run_here

OTHERS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: writer}
spec: {replicas: 1}
---
"""
KUSTOMIZATION = "resources: [events.yaml]\nnamespace: sales\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "gitops"
    path.mkdir()
    (path / "events.yaml").write_text(OTHERS + TABLES)
    (path / "kustomization.yaml").write_text(KUSTOMIZATION)
    return path


def run_with_input(text: str, monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Ended:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return run_here(*arguments)


def test_objects_of_other_kinds_are_skipped_and_counted(folder: Path) -> None:
    note = "note: skipped 4 objects of other kinds: 1 ConfigMap, 1 Deployment, 1 Kustomization, 1 Secret\n"
    checked = run_here("validate", "-f", folder)
    assert checked == Ended(0, "1 object: no problems\n", note)
    planned = run_here("plan", "-f", folder)
    assert (planned.code, planned.err) == (0, note)
    assert "create table sales.events" in planned.out
    document = json.loads(run_here("validate", "-f", folder, "-o", "json").out)
    assert document["skipped"] == {"ConfigMap": 1, "Deployment": 1, "Kustomization": 1, "Secret": 1}


@pytest.mark.parametrize("command", ["validate", "plan", "apply"])
def test_strict_refuses_objects_of_other_kinds_by_their_place(folder: Path, command: str) -> None:
    ended = run_here(command, "-f", folder, "--strict")
    assert (ended.code, ended.err.count("is not a kind of tablewright.dev")) == (2, 4)
    assert f"{folder}/events.yaml:2:7: kind: ConfigMap is not a kind of tablewright.dev" in ended.err


def test_mistyped_group_or_kind_of_ours_is_never_skipped(tmp_path: Path) -> None:
    (tmp_path / "group.yaml").write_text(TABLES.replace("tablewright.dev/", "tablewright.dv/"))
    (tmp_path / "kind.yaml").write_text(TABLES.replace("ManagedTable", "MangedTable"))
    (tmp_path / "plain.yaml").write_text("name: nothing\n")
    checked = run_here("validate", "-f", tmp_path)
    # The plain one has neither a group nor a kind.
    assert (checked.code, checked.err.count("error: ")) == (2, 4), checked.err


def test_several_files_and_folders_are_read_as_one(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(TABLES.replace("name: events", "name: orders"))
    given = ("-f", folder, "-f", other, "-f", folder / "events.yaml")
    assert run_here("validate", *given).out == "2 objects: no problems\n"
    applied = run_here("apply", *given)
    assert (applied.code, "orders" in applied.out, "events" in applied.out) == (0, True, True), applied.err
    assert run_here("inspect", "orders", *given).code == 0
    other.unlink()
    assert "declaration is gone" not in run_here("apply", "-f", folder).err, "the other was not asked about"
    other.write_text(OTHERS)
    assert "sales/orders: its declaration is gone" in run_here("apply", "-f", folder, "-f", other).err


def test_standard_input_is_read_as_a_file(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    built = OTHERS + TABLES
    assert run_with_input(built, monkeypatch, "validate", "-f", "-").out == "1 object: no problems\n"
    applied = run_with_input(built, monkeypatch, "apply", "-f", "-")
    assert (applied.code, (tmp_path / ".tablewright").is_dir()) == (0, True), applied.err
    run_with_input(OTHERS, monkeypatch, "apply", "-f", "-")
    state = EmbeddedState(tmp_path / ".tablewright")
    state.look()
    assert list(state._tables) == ["sales/events"], "another input says nothing about what was in the last one"
    wrong = run_with_input(TABLES.replace("spec:", "spec:\n  nothing: 1"), monkeypatch, "validate", "-f", "-")
    assert "error: -:5:3: spec.nothing: " in wrong.err
    watched = run_with_input(built, monkeypatch, "apply", "-f", "-", "--watch")
    assert (watched.code, "standard input" in watched.err) == (2, True)


def test_list_is_read_as_its_items(tmp_path: Path) -> None:
    indented = TABLES.replace("\n", "\n    ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n  - {indented}\n"
    (tmp_path / "list.yaml").write_text(text)
    assert run_here("validate", "-f", tmp_path).out == "1 object: no problems\n"
    (tmp_path / "list.yaml").write_text(text.replace("type: long", "type: lng"))
    assert "list.yaml:11:30: spec.schema.columns[id].type: " in run_here("validate", "-f", tmp_path).err
