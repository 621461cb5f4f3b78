"""Runs that somebody types: they have names, `get runs` lists them, and rollbacks go to before them and back again."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, environment, rows, run_cli, run_here
from tests.waiting import eventually

ASKED = TABLES.replace("namespace: sales}", "namespace: sales, annotations: {tablewright.dev/run: RewriteManifests}}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    for first in (0, 10, 20):
        table_of(tmp_path).append(rows(first, 10))
    return tmp_path


def table_of(folder: Path) -> Table:
    return embedded_catalog(folder).load_table(("sales", "events"))


def current(folder: Path) -> int:
    found = table_of(folder).current_snapshot()
    assert found is not None
    return found.snapshot_id


def runs_of(folder: Path) -> list[dict[str, Any]]:
    shown = run_here("get", "runs", "-f", folder, "-o", "json")
    assert shown.code == 0, shown.err
    return list(json.loads(shown.out)["items"])


def by_hand(folder: Path, *words: str) -> dict[str, Any]:
    done = run_here(*words, "-f", folder, "-o", "json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_a_run_by_hand_is_listed_and_stays_when_the_folder_is_applied(folder: Path) -> None:
    done = by_hand(folder, "run", "rewrite-manifests", "events")
    for _ in range(2):
        [run] = runs_of(folder)
        assert (run["metadata"]["name"], run["metadata"]["uid"]) == (done["run"], done["runId"])
        assert run["spec"] == {"tableRef": {"name": "events"}, "operation": "RewriteManifests", "dryRun": False}
        assert run["status"]["phase"] == "Succeeded"
        assert run["status"]["result"]["rewrittenManifests"] == 3
        apply_here(folder)
    described = run_here("describe", "run", done["run"], "-f", folder)
    assert "tablewright.dev/cause=Manual" in described.out
    (folder / "events.yaml").write_text(TABLES.replace("name: events", "name: others"))
    apply_here(folder)
    assert runs_of(folder) == [], "forgotten with the object of its table"


def test_a_run_by_hand_is_recorded_while_an_apply_has_the_folder(folder: Path) -> None:
    with EmbeddedState(folder / ".tablewright").locked():
        by_hand(folder, "run", "rewrite-manifests", "events")
        assert len(runs_of(folder)) == 1


def test_a_run_by_hand_that_fails_is_listed_with_the_reason(folder: Path) -> None:
    refused = run_here("rollback", "events", "--undo", "-f", folder)
    assert (refused.code, "there is no rollback to undo" in refused.err) == (1, True), refused
    [run] = runs_of(folder)
    assert (run["status"]["phase"], run["status"]["reason"]) == ("Failed", "RollbackRefused")
    assert run["spec"]["rollback"]["undo"] is True


def test_a_dry_run_by_hand_leaves_no_run(folder: Path) -> None:
    by_hand(folder, "run", "rewrite-manifests", "events", "--dry-run")
    assert runs_of(folder) == []


def test_a_state_that_cannot_be_written_does_not_fail_the_run(folder: Path) -> None:
    (folder / ".tablewright" / "ended-runs").write_text("a file where a folder should be")
    done = run_here("run", "rewrite-manifests", "events", "-f", folder)
    assert (done.code, "warning: the run is not recorded" in done.err) == (0, True), done


@pytest.mark.parametrize("by", ["-f", "--catalog-uri"])
def test_a_rollback_goes_to_before_a_run_by_the_name_that_was_printed_and_back(folder: Path, by: str) -> None:
    address = (
        ("events", "-f", folder) if by == "-f" else ("sales.events", by, f"sqlite:///{folder}/.tablewright/catalog.db")
    )
    before = current(folder)
    shown = run_here("run", "rewrite-manifests", *address)
    after, name = current(folder), shown.out.splitlines()[-1].removeprefix("run ")
    assert name.startswith("events-rewritemanifests-"), shown

    back = run_here("rollback", *address, "--before-run", name)
    assert back.code == 0, back.err
    assert "rolled back 1 commit: main moved" in back.out
    assert current(folder) == before
    command = back.out.splitlines()[-1].removeprefix("to undo: ")
    assert command == shlex.join(["tablewright", "rollback", *map(str, address), "--undo"])

    past = run_here("history", *address)
    assert f"from snapshot {after} to {before}" in past.out
    [row] = [line for line in past.out.splitlines() if line.startswith(str(after))]
    assert "rolled back" in row
    document = json.loads(run_here("history", *address, "-o", "json").out)
    [move] = document["rollbacks"]
    assert (move["fromSnapshotId"], move["toSnapshotId"]) == (str(after), str(before))
    assert [len(entry["current"]) for entry in document["snapshots"]] == [1, 2, 1, 1]

    undone = run_cli(*shlex.split(command)[1:])
    assert undone.code == 0, undone.err
    assert current(folder) == after


def test_a_rollback_goes_to_before_a_run_of_apply_by_its_name(folder: Path) -> None:
    before = current(folder)
    (folder / "events.yaml").write_text(ASKED)
    apply_here(folder)
    [run] = runs_of(folder)
    assert current(folder) != before
    back = run_here("rollback", "events", "--before-run", run["metadata"]["name"], "-f", folder)
    assert back.code == 0, back.err
    assert current(folder) == before


def test_undoing_a_rollback_does_not_lose_commits_unasked(folder: Path) -> None:
    first = table_of(folder).metadata.snapshots[0].snapshot_id
    lost = by_hand(folder, "rollback", "events", "--to-snapshot", str(first), "--allow-losing-commits")
    table_of(folder).append(rows(90, 1))
    there = current(folder)
    refused = run_here("rollback", "events", "--undo", "-f", folder)
    assert (refused.code, "pass --allow-losing-commits" in refused.err) == (1, True), refused
    assert current(folder) == there
    by_hand(folder, "rollback", "events", "--undo", "--allow-losing-commits")
    assert current(folder) == int(lost["rollback"]["fromSnapshotId"])


def test_a_run_by_hand_that_is_interrupted_is_listed_as_such(folder: Path) -> None:
    before = current(folder)
    command = [sys.executable, "-m", "tablewright", "run", "rewrite-manifests", "events", "-f", str(folder)]
    process = subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    eventually(lambda: _has_driver(process.pid), bool, seconds=120)  # which takes seconds to begin
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=200)
    assert process.returncode == 130
    [run] = runs_of(folder)
    assert (run["status"]["phase"], run["status"]["reason"]) == ("Failed", "Interrupted")
    assert current(folder) == before


def _has_driver(session: int) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session and b"tablejobs" in (folder / "cmdline").read_bytes():
                return True
    return False
