"""A folder of several tables: one driver and one Spark for all of their runs, and what becomes of the others when one
table, the driver or Spark fails.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tablewright.api.run import MaintenanceRun, Phase
from tablewright.embedded import apply as embedded_apply
from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, environment, rows, run_cli
from tests.reading import rows_in_files
from tests.servers import toolchain
from tests.waiting import eventually

NAMES = ("a", "b", "c", "d")
FILES = 10
TRIGGERED = TABLES + "  compaction: {triggers: {smallFiles: 10}}\n"
LAYOUTS = {"c": "  layout: {targetFileSize: 16Mi, order: {strategy: Sort, columns: [name]}}\n"}
COUNTED_JAVA = """\
#!/bin/sh
echo "$@" >> {calls}
exec {java} "$@"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    folder.mkdir()
    fill(folder)
    return folder


def fill(folder: Path) -> None:
    """Tables that all want a compaction."""
    for name in NAMES:
        text = TRIGGERED.replace("name: events", f"name: {name}")
        text = text.replace(
            "  layout: {targetFileSize: 16Mi}\n", LAYOUTS.get(name, "  layout: {targetFileSize: 16Mi}\n")
        )
        (folder / f"{name}.yaml").write_text(text)
    apply_here(folder)
    for name in NAMES:
        for first in range(0, FILES * 10, 10):
            table_of(folder, name).append(rows(first, 10))


def table_of(folder: Path, name: str) -> Table:
    catalog: Catalog = embedded_catalog(folder)
    return catalog.load_table(("sales", name))


def runs_of(folder: Path) -> dict[str, MaintenanceRun]:
    state = EmbeddedState(folder / ".tablewright")
    state.look()
    return {run.spec.table_ref.name: run for run in state.runs()}


def contents(table: Table) -> list[object]:
    found: list[object] = rows_in_files(table).sort_by("id").to_pylist()
    return found


def replacements(table: Table) -> int:
    summaries = [snapshot.summary for snapshot in table.refresh().snapshots()]
    return sum(summary is not None and summary.operation.value == "replace" for summary in summaries)


def assert_compacted_once(folder: Path, *names: str) -> None:
    for name in names or NAMES:
        table = table_of(folder, name)
        assert contents(table) == rows(0, FILES * 10).to_pylist()
        assert (len(table.inspect.data_files()), replacements(table)) == (1, 1), name


@pytest.fixture
def counted_java(tmp_path: Path) -> Callable[[], int]:
    """How often Spark was started with the Java of `java_home`."""
    java, calls = tmp_path / "jdk" / "bin" / "java", tmp_path / "calls"
    java.parent.mkdir(parents=True)
    java.write_text(COUNTED_JAVA.format(calls=calls, java=Path(toolchain.java()).resolve()))
    java.chmod(0o755)
    return lambda: calls.read_text().count("org.apache.spark.deploy.SparkSubmit") if calls.exists() else 0


def test_a_fleet_has_one_spark_and_comes_to_what_its_tables_would_one_by_one(
    fleet: Path, tmp_path: Path, counted_java: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one = tmp_path / "one-by-one"
    one_by_one.mkdir()
    fill(one_by_one)
    done = run_cli("apply", "-f", fleet, JAVA_HOME=str(tmp_path / "jdk"))
    assert done.code == 0, done.err
    assert counted_java() <= 2, "the launcher's own Java counts once more"
    lines = [line.partition(" (run")[0] for line in done.err.splitlines() if "Compact s" in line]
    if (os.cpu_count() or 1) > 1:
        assert lines[:2] == ["sales/a: Compact started", "sales/b: Compact started"], "side by side"
    assert_compacted_once(fleet)

    monkeypatch.setattr(embedded_apply, "RUNS_AT_ONCE", 1)
    monkeypatch.setenv("JAVA_HOME", str(Path(toolchain.java()).resolve().parent.parent))
    apply_here(one_by_one)
    for name in NAMES:
        ours, theirs = table_of(fleet, name), table_of(one_by_one, name)
        assert rows_in_files(ours).to_pylist() == rows_in_files(theirs).to_pylist(), "in the same order"
        sizes = [table.inspect.data_files()["file_size_in_bytes"].to_pylist() for table in (ours, theirs)]
        assert sizes[0] == sizes[1]
    results = [
        {name: (run.status.phase, run.status.message, run.status.result.records if run.status.result else None)
         for name, run in runs_of(folder).items()}
        for folder in (fleet, one_by_one)
    ]  # fmt: skip
    assert results[0] == results[1]


def test_one_bad_table_fails_alone(fleet: Path) -> None:
    [broken, *_] = table_of(fleet, "b").inspect.data_files()["file_path"].to_pylist()
    Path(broken.removeprefix("file://")).write_bytes(b"no Parquet any more")
    done = run_cli("apply", "-f", fleet)
    assert done.code == 1
    assert_compacted_once(fleet, "a", "c", "d")
    assert "sales/b: Compact failed: " in done.err
    assert {name: run.status.phase for name, run in runs_of(fleet).items()} == {
        "a": Phase.SUCCEEDED,
        "b": Phase.FAILED,
        "c": Phase.SUCCEEDED,
        "d": Phase.SUCCEEDED,
    }
    troubles = {line.partition(": not")[0] for line in done.err.splitlines() if ": not " in line}
    assert troubles == {"sales/b"}
    assert replacements(table_of(fleet, "b")) == 0


def start_apply(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tablewright", "apply", "-f", str(folder)]
    scratch = folder.parent / f"{folder.name}-scratch"  # a driver that is killed leaves Spark's files there
    scratch.mkdir(exist_ok=True)
    return subprocess.Popen(
        command,
        env=environment(TMPDIR=str(scratch)),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def processes(session: int, word: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session and word in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def until_one_is_done(process: "subprocess.Popen[str]") -> str:
    """With others of the fleet under way, or still to come."""
    assert process.stderr is not None
    said = ""
    while "Compact succeeded" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


@pytest.mark.parametrize("victim", [b"--fleet", b"SparkSubmit"], ids=["driver", "Spark"])
def test_when_a_driver_or_its_spark_is_killed_the_others_are_carried_out_all_the_same(
    fleet: Path, victim: bytes
) -> None:
    process = start_apply(fleet)
    said = until_one_is_done(process)
    before = {name: run.metadata.uid for name, run in runs_of(fleet).items()}
    for pid in processes(process.pid, victim):
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    after = runs_of(fleet)
    assert {name: after[name].metadata.uid for name in before} == before
    assert process.returncode == 0, said + err
    assert {name: run.status.phase for name, run in after.items()} == dict.fromkeys(NAMES, Phase.SUCCEEDED)
    assert_compacted_once(fleet)


def test_a_fleet_that_is_killed_as_a_whole_is_taken_up_again_under_its_old_ids(fleet: Path) -> None:
    process = start_apply(fleet)
    until_one_is_done(process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = runs_of(fleet)
    interrupted = [name for name, run in before.items() if not run.status.is_finished]
    last = run_cli("apply", "-f", fleet)
    assert last.code == 0, last.err
    assert_compacted_once(fleet)
    after = runs_of(fleet)
    assert {name: after[name].metadata.uid for name in before} == {
        name: run.metadata.uid for name, run in before.items()
    }
    for name in interrupted:
        assert f"sales/{name}: Compact started (run {before[name].metadata.name})" in last.err
    assert not list((fleet / ".tablewright").glob("tablewright-run-*"))


def test_a_fleet_that_is_interrupted_ends_and_leaves_no_process_behind(fleet: Path) -> None:
    process = start_apply(fleet)
    until_one_is_done(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "Traceback" not in err
    eventually(lambda: processes(process.pid, b""), lambda left: not left, seconds=10)
    for name in NAMES:
        assert contents(table_of(fleet, name)) == rows(0, FILES * 10).to_pylist()
    assert run_cli("apply", "-f", fleet).code == 0
    assert_compacted_once(fleet)


def test_runs_that_need_no_spark_start_none(tmp_path: Path, counted_java: Callable[[], int]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in NAMES:
        text = TABLES.replace("{name: events, namespace: sales}", f"{{name: {name}, namespace: sales}}")
        (folder / f"{name}.yaml").write_text(text)
    apply_here(folder)
    for name in NAMES:
        for first in range(3):
            table_of(folder, name).append(rows(first, 1))
        asked = f"{{name: {name}, namespace: sales, annotations: {{tablewright.dev/run: RewriteManifests}}}}"
        (folder / f"{name}.yaml").write_text(TABLES.replace("{name: events, namespace: sales}", asked))
    done = run_cli("apply", "-f", folder, JAVA_HOME=str(tmp_path / "jdk"))
    assert done.code == 0, done.err
    assert done.err.count("RewriteManifests succeeded: rewrote 3 manifests into 1") == len(NAMES)
    assert counted_java() == 0
