"""`make demo`, with fewer files, in a folder that looks like a clone: what it shows, what it leaves, what docs say."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.cli.conftest import embedded_catalog, environment, run_cli

ROOT = Path(__file__).parents[2]
# Ten commands, three of which start Spark, and a wait for the next minute.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clone")
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "demo"):
            (path / entry.name).symlink_to(entry)
    return path


@pytest.fixture(scope="module")
def shown(clone: Path) -> str:
    command = [".venv/bin/python", "examples/demo.py", "--bursts", "2"]
    done = subprocess.run(command, cwd=clone, env=environment(), capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def compared(shown: str) -> dict[str, tuple[str, str]]:
    lines = re.findall(r"^   (\S.*?) {2,}(\S.*?) -> +(\S.*)$", shown, re.MULTILINE)
    return {name: (before, after) for name, before, after in lines}


def number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))


def test_the_tables_get_better_and_their_rows_stay(shown: str) -> None:
    figures = compared(shown)
    for name in ("data files", "live bytes", "files on disk", "requests for one merchant's sum"):
        before, after = map(number, figures[name])
        assert after < before / 4, name
    assert number(figures["median file"][1]) > number(figures["median file"][0])  # by little: most days have few files
    assert figures["rows"][0] == figures["rows"][1]
    assert figures["checksum of the rows"][0] == figures["checksum of the rows"][1]
    assert "time for it" in figures
    for operation in ("Compact", "ExpireSnapshots", "RemoveOrphanFiles"):
        assert f"sales/payments: {operation} succeeded" in shown
    assert "deleted 5 of 5 orphan files" in shown
    assert "! schema.columns[txn_id].type: long cannot become int" in shown
    assert re.search(r"payments are gone by mistake; the snapshot before still has all [\d,]+", shown)


def test_the_folder_is_left_to_play_with_and_the_next_commands_work(clone: Path, shown: str) -> None:
    demo = clone / "demo"
    table = embedded_catalog(demo).load_table(("sales", "payments"))
    assert {"shop_id", "channel"} <= set(table.schema().column_names)
    assert f"{table.scan().count():,}" == compared(shown)["rows"][1]
    next_ones = shown.split("three next commands:\n")[1].splitlines()[:3]
    assert all(command.startswith("   ") for command in next_ones)
    script = "\n".join(next_ones)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=clone, env=environment(EDITOR="true"), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "SNAPSHOT" in done.stdout
    assert "sales/payments" in done.stdout


def test_the_reports_before_and_after_are_the_runs_own(clone: Path, shown: str) -> None:
    page = (clone / "demo" / "report.html").read_text()
    told = {key: int(value) for key, value in re.findall(r'data-figure="([^"]*)" value="(\d+)"', page)}
    listed = run_cli("get", "runs", "-f", clone / "demo", "-o", "json")
    runs = [run for run in json.loads(listed.out)["items"] if run["spec"]["tableRef"]["name"] == "payments"]
    assert "Rollback" in [run["spec"]["operation"] for run in runs], "a run by hand is listed, too"
    runs = [run for run in runs if run["spec"]["operation"] != "Rollback"]
    runs.sort(key=lambda run: (run["status"]["startTime"], run["status"]["completionTime"]))
    assert told["sales/payments:before:data_files"] == runs[0]["status"]["before"]["dataFiles"]
    assert told["sales/payments:after:data_files"] == runs[-1]["status"]["after"]["dataFiles"]
    assert told["sales/payments:before:data_files"] == number(compared(shown)["data files"][0])
    assert told["sales/payments:deleted_files"] == sum(run["status"]["result"].get("deletedFiles", 0) for run in runs)


def test_the_documentation_shows_what_the_demo_shows(shown: str) -> None:
    """Not the figures, which differ from run to run, but every step, command and edit, in order."""
    [block] = re.findall(
        r"^```text\n(1\. .*?)^```", (ROOT / "docs" / "quickstart.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert outline(block) == outline(shown.split("three next commands")[0])
    [excerpt] = re.findall(r"^```text\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert compared(excerpt).keys() == compared(shown).keys()


def outline(text: str) -> list[str]:
    lines = re.findall(r"^(?:\d\. |   \$ |   demo/|   \S.* -> ).*$", text, re.MULTILINE)
    return [re.sub(r" +", " ", re.sub(r"[\d,.]+", "N", line.split(" -> ")[0])) for line in lines]


def test_a_folder_that_is_there_already_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.yaml").write_text("mine")
    command = [".venv/bin/python", "examples/demo.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "error: demo/ is there already, and may be yours: rm -r demo, then again\n"
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine.yaml"]
