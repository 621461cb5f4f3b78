"""What scripts get: exit codes as documented, ids that survive, and no half of what was typed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, environment, rows, run_here

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("rollback events --to-snapshot 1", "the table has no snapshot '1'"),
        ("rollback events --to-tag mian", "--to-tag: the table has no tag or branch 'mian': did you mean \"main\"?"),
        (
            "run compact events --strategy sort --by nmae",
            "--by: the table has no column 'nmae': did you mean \"name\"?",
        ),
        (
            "run delete-expired-rows events --column when --max-age 1d",
            "--column: the table has no column 'when': expected one of id, name",
        ),
        ("run compact events --where id>>1", "--where 'id>>1' is no filter: write one such as \"day >= "),
        ("run compact events --where city='x'", "--where \"city='x'\": Could not find field with name city"),
        ("diff events 1", "the table has no snapshot '1'"),
    ],
)
def test_what_a_table_does_not_have_is_bad_input(folder: Path, command: str, complaint: str) -> None:
    ended = run_here(*command.split(), "-f", folder)
    assert (ended.code, ended.out) == (2, "")
    [line] = ended.err.splitlines()
    assert line.startswith(f"error: {complaint}")
    assert len(line) < 300


def test_an_option_that_is_given_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    for command in (["apply"], ["plan"], ["inspect", "events"], ["run", "compact", "events"]):
        ended = run_here(*command, "-f", folder, "--state", tmp_path, "--state", folder)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("error: --state is given 2 times: give it once (see ")
    twice = run_here("get", "tables", "-f", folder, "-o", "json", "-o", "yaml")
    assert (twice.code, "-o is given 2 times" in twice.err) == (2, True)


def test_ids_are_text_in_what_programs_read(folder: Path) -> None:
    """A number of 19 digits is another one when jq 1.6 has read it."""
    newest, _, oldest = json.loads(run_here("history", "events", "-f", folder, "-o", "json").out)["snapshots"]
    current = embedded_catalog(folder).load_table(("sales", "events")).metadata.current_snapshot_id
    assert (newest["snapshotId"], oldest.get("parentId")) == (str(current), None)
    between = json.loads(run_here("diff", "events", oldest["snapshotId"], "-f", folder, "-o", "json").out)
    assert (between["before"], between["after"]) == (oldest["snapshotId"], str(current))
    seen = json.loads(run_here("inspect", "events", "-f", folder, "-o", "json").out)
    assert seen["refs"]["main"]["snapshotId"] == str(current)


@pytest.mark.parametrize(
    "command",
    [
        ["history", "events"],
        ["diff", "events", "main"],
        ["inspect", "events", "--orphans"],
        ["hold", "list", "events"],
        ["run", "expire-snapshots", "events", "--dry-run"],
        ["plan"],
        ["get", "tables"],
        ["validate"],
        ["list"],
    ],
    ids=lambda command: command[0],
)
def test_fields_are_camel_case_in_every_document(folder: Path, command: list[str]) -> None:
    document = json.loads(run_here(*command, "-f", folder, "-o", "json").out)
    assert [name for name in _names(document) if "_" in name] == []


def _names(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from document
    for inner in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from _names(inner)


def test_history_as_a_document_is_whole_unless_it_is_told_to_be_short(folder: Path) -> None:
    whole = json.loads(run_here("history", "events", "-f", folder, "-o", "json").out)
    assert (len(whole["snapshots"]), whole["total"]) == (3, 3)
    short = json.loads(run_here("history", "events", "-f", folder, "-o", "json", "--limit", "2").out)
    assert (len(short["snapshots"]), short["total"]) == (2, 3)


def test_one_name_in_two_namespaces_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(TABLES)
    (tmp_path / "two.yaml").write_text(TABLES.replace("namespace: sales", "namespace: shop"))
    both = json.loads(run_here("get", "table", "events", "-f", tmp_path, "-o", "json").out)
    assert [obj["metadata"]["namespace"] for obj in both["items"]] == ["sales", "shop"]
    one = json.loads(run_here("get", "table", "events", "-n", "shop", "-f", tmp_path, "-o", "json").out)
    assert one["metadata"]["namespace"] == "shop"


def test_a_report_that_cannot_be_written_is_bad_input(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html.part").mkdir()
    ended = run_here("report", "-f", folder, "-o", tmp_path / "report.html")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {tmp_path}/report.html cannot be written: Is a directory\n"


def test_a_hold_is_placed_on_a_declared_table_and_a_declared_hold_is_left_alone(tmp_path: Path) -> None:
    holds = "[{name: declared, asOf: 2020-01-01T00:00:00Z, until: 2099-01-01T00:00:00Z}]"
    (tmp_path / "events.yaml").write_text(TABLES + f"  retention: {{holds: {holds}}}\n")
    apply_here(tmp_path)
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    table.append(rows(0, 10))
    here = ("-f", tmp_path)
    placed = run_here("hold", "place", "events", "mine", "--until", "2099-01-01T00:00:00Z", *here)
    assert placed.code == 0, placed.err
    apply_here(tmp_path)
    assert "tablewright-hold-mine" in table.refresh().metadata.refs
    refused = run_here("hold", "release", "events", "declared", *here)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: the hold declared is declared: change spec.retention.holds, and apply\n"
    assert run_here("hold", "release", "events", "mine", *here).code == 0


# Ctrl-C comes when the library of this name is looked for. At a moment by the clock it might come before Python
# has begun, or when it ends: Python has words of its own for both.
PRESSED_AT_A_LIBRARY = """
import os, runpy, signal, sys

class Press:
    def find_spec(self, name, *_):
        if name == library:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

library = sys.argv.pop(1)
sys.meta_path.insert(0, Press())
runpy.run_module("tablewright", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("library", ["tablewright.cli", "typer", "pydantic", "pyarrow.lib", "pyiceberg.table"])
def test_an_interrupt_while_libraries_are_loaded_is_one_line(folder: Path, library: str) -> None:
    command = [sys.executable, "-c", PRESSED_AT_A_LIBRARY, library, "inspect", "events", "-f", str(folder)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")
