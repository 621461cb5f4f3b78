"""Commands that change a table: run, hold, rollback, apply; interrupted, at once, and without Java."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import TimestamptzType

from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import (
    TABLES,
    apply_here,
    embedded_catalog,
    environment,
    rows,
    run_cli,
    run_here,
    run_in_terminal,
)
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("spark")

TRIGGERED = TABLES + "  compaction: {triggers: {smallFiles: 10}}\n"


def table_of(folder: Path) -> Table:
    return embedded_catalog(folder).load_table(("sales", "events"))


def with_files(folder: Path, text: str, count: int) -> Table:
    (folder / "events.yaml").write_text(text)
    apply_here(folder)
    table = table_of(folder)
    for first in range(0, count * 10, 10):
        table.append(rows(first, 10))
    return table


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def test_a_file_where_somebody_stands_is_not_taken_for_a_module_of_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_files(tmp_path, TABLES, 3)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "queue.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(elsewhere)
    done = run_here("run", "ExpireSnapshots", "events", "-f", tmp_path, "--max-age", "30d", "--min-count", "1")
    assert done.code == 0, done.err


def test_one_table_through_its_operations(tmp_path: Path) -> None:
    table = with_files(tmp_path, TABLES, 6)
    uri = ("--catalog-uri", f"sqlite:///{tmp_path}/.tablewright/catalog.db")
    before = table.metadata_location

    planned = run_cli("run", "Compact", "sales.events", "--dry-run", "-o", "json", *uri)
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["plan"]["files"] == 6
    assert table.refresh().metadata_location == before, "a dry run changes nothing"

    held = run_cli("hold", "place", "sales.events", "audit", "--until", "2099-01-01T00:00:00Z", *uri)
    assert held.code == 0, held.err
    order = ("--strategy", "sort", "--by", "id desc nulls last")
    done = run_in_terminal("run", "compact", "sales.events", "--verify", *order, *uri)
    assert done.code == 0, done.out
    assert "rewrote 6 files into 1" in done.out
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == list(range(59, -1, -1)), "in the order that was typed"
    assert len(table.inspect.data_files()) == 1

    small = run_cli("run", "expire-snapshots", "events", "--max-age", "1s", "--min-count", "1", "-f", tmp_path)
    assert small.code == 0, small.err
    [kept] = json.loads(run_cli("hold", "list", "sales.events", "-o", "json", *uri).out)
    assert kept["name"] == "audit"
    assert table.refresh().scan(snapshot_id=int(kept["snapshotId"])).count() == 60, "what is held outlives expiry"

    table.delete("id < 30")
    refused = run_cli("rollback", "sales.events", "--to-snapshot", str(kept["snapshotId"]), *uri)
    assert refused.code == 1
    assert "RollbackRefused" in refused.err
    assert "or pass --allow-losing-commits" in refused.err
    planned = run_cli("rollback", "sales.events", "--to-snapshot", str(kept["snapshotId"]), "--dry-run", *uri)
    assert planned.code == 1, "a dry run of what would be refused"
    assert "The run would be refused" in planned.err
    assert "lost: " in planned.out
    back = run_cli("rollback", "events", "--to-tag", "tablewright-hold-audit", "--allow-losing-commits", "-f", tmp_path)
    assert back.code == 0, back.err
    assert ids(table) == list(range(60))
    assert run_cli("hold", "release", "sales.events", "audit", *uri).code == 0
    assert "tablewright-hold-audit" not in table.refresh().metadata.refs


def test_a_staged_snapshot_is_published_as_planned(tmp_path: Path) -> None:
    table = with_files(tmp_path, TABLES, 1)
    before = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    table.append(rows(50, 3), branch=None)
    staged = next(s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in before)

    planned = run_cli("cherry-pick", "events", str(staged), "--dry-run", "-f", tmp_path)
    assert (planned.code, "main moves to it; 1 file with 3 rows" in planned.out) == (0, True), planned
    assert len(ids(table)) == 10
    done = run_cli("cherry-pick", "events", str(staged), "-f", tmp_path)
    assert (done.code, f"snapshot {staged} is on main" in done.out) == (0, True), done
    assert len(ids(table)) == 13
    refused = run_cli("cherry-pick", "events", "4711", "-f", tmp_path)
    assert (refused.code, "the table has no snapshot '4711'" in refused.err) == (2, True), refused


def test_the_operations_that_need_no_spark(tmp_path: Path) -> None:
    table = with_files(tmp_path, TABLES, 4)
    uri = ("--catalog-uri", f"sqlite:///{tmp_path}/.tablewright/catalog.db")
    merged = run_cli("run", "rewrite-manifests", "sales.events", "-o", "json", *uri)
    assert merged.code == 0, merged.err
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) == 1

    junk = Path(table.location().removeprefix("file://")) / "data" / "left.parquet"
    junk.write_bytes(b"nobody refers to it")
    os.utime(junk, (0, 0))
    removed = run_cli("run", "remove-orphan-files", "sales.events", "--action", "delete", *uri)
    assert removed.code == 0, removed.err
    assert "deleted 1 of 1 orphan file (0 marked)" in removed.out
    assert not junk.exists()

    with table.update_schema() as change:
        change.add_column("ts", TimestamptzType())
    old = rows(100, 5).append_column("ts", pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * 5, pa.timestamp("us", "UTC")))
    table.append(old)
    expired = run_cli(
        *["run", "delete-expired-rows", "sales.events", "--column", "ts", "--max-age", "30d", "-o", "json"], *uri
    )
    assert expired.code == 0, expired.err
    assert ids(table) == list(range(40))
    run = json.loads(expired.out)["run"]
    back = run_cli("rollback", "sales.events", "--before-run", run, "--allow-losing-commits", *uri)
    assert back.code == 0, back.err
    assert ids(table) == [*range(40), *range(100, 105)]


def test_a_hold_is_placed_and_released_without_a_touch_to_others(tmp_path: Path) -> None:
    table = with_files(tmp_path, TABLES, 2)
    uri = ("--catalog-uri", f"sqlite:///{tmp_path}/.tablewright/catalog.db")
    end = ("--until", "2099-01-01T00:00:00Z")
    tag_of_another = table.manage_snapshots().create_tag(
        table.metadata.snapshots[0].snapshot_id, "tablewright-hold-old"
    )
    tag_of_another.commit()

    assert run_cli("hold", "place", "sales.events", "audit", *end, *uri).code == 0
    table.refresh().append(rows(90, 1))
    again = run_cli("hold", "place", "sales.events", "audit", *end, *uri)
    assert (again.code, "never moves" in again.err) == (2, True), again.err
    to_come = run_cli("hold", "place", "sales.events", "x", *end, "--as-of", "2098-01-01T00:00:00Z", *uri)
    assert (to_come.code, "--as-of is still to come" in to_come.err) == (2, True), to_come.err

    assert run_cli("hold", "release", "sales.events", "audit", *uri).code == 0
    assert set(table.refresh().metadata.refs) == {"main", "tablewright-hold-old"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["run", "compact", "events", "--target-file-size", "64 MB"],
            '--target-file-size: "64 MB" is not a size; use 64Mi',
        ),
        (["run", "compact", "events", "--strategy", "zorder"], "strategy zorder needs two to eight columns"),
        (["run", "expire-snapshots", "events", "--max-age", "7"], '--max-age: "7" is not a duration'),
        (["run", "delete-expired-rows", "events"], "retention.rows: no level gives both column and maxAge"),
        (["rollback", "events"], "say where to, once: --to-snapshot, --as-of, --to-tag, --before-run or --undo"),
        (["rollback", "events", "--as-of", "yesterday"], "--as-of: 'yesterday' is not a time"),
        (["rollback", "events", "--as-of", "2026-01-01T00:00:00"], "has no time zone"),
    ],
)
def test_options_that_cannot_be_used_are_named(folder: Path, arguments: list[str], complaint: str) -> None:
    ended = run_cli(*arguments, "-f", folder)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert "Traceback" not in ended.err


def test_applying_twice_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    first = run_cli("apply", "-f", tmp_path)
    assert (first.code, first.err.count("created table sales.events"), first.err.count("\n")) == (0, 1, 1)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.suffix == ".json" for path in files), "it was created"
    second = run_cli("apply", "-f", tmp_path)
    assert (second.code, second.out, second.err) == (0, first.out, "")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_a_watched_folder_is_applied_again_when_a_file_changes_until_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "events.yaml"
    file.write_text(TABLES)
    said = tmp_path / "said.txt"
    command = [sys.executable, "-m", "tablewright", "apply", "-f", str(tmp_path), "--watch", "--interval", "3600"]
    with said.open("w") as stream:
        watcher = subprocess.Popen(command, env=environment(), stdout=stream, stderr=stream, start_new_session=True)
    try:
        _until(lambda: "events" in said.read_text(), watcher)
        file.write_text("a: [")
        waiting = "nothing was changed; waiting for the files to be corrected\n"
        _until(lambda: waiting in said.read_text(), watcher)
        assert f"error: {file}:1:5: " in said.read_text()
        file.write_text(TABLES.replace("type: string}", "type: string}\n      - {name: city, type: string}"))
        _until(lambda: "city" in table_of(tmp_path).schema().column_names, watcher)
        with EmbeddedState(tmp_path / ".tablewright").locked():
            pass  # the watcher's pass has come to its end
        os.killpg(watcher.pid, signal.SIGINT)
        assert watcher.wait(60) == 0, "that is how people end it"
    finally:
        if watcher.poll() is None:
            watcher.kill()
            watcher.wait()
    assert "Traceback" not in said.read_text()


def _until(holds: Callable[[], bool], watcher: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        if holds():
            return
        assert watcher.poll() is None, "the watcher ended"
        time.sleep(0.2)
    raise AssertionError("two minutes were not enough")


def test_without_java_one_message_says_what_to_install_and_nothing_is_changed(tmp_path: Path) -> None:
    table = with_files(tmp_path, TABLES, 6)
    without = {"JAVA_HOME": "", "PATH": str(Path(sys.executable).parent)}
    ended = run_cli("run", "compact", "events", "-f", tmp_path, **without)
    assert ended.code == 1
    assert "Spark needs Java 17 or later, and there is none on the path: install it" in ended.err
    assert sum(line.startswith("error:") for line in ended.err.splitlines()) == 1
    assert len(table.refresh().inspect.data_files()) == 6


OLD_JAVA = """\
#!/bin/sh
echo "$@" >> "$0.calls"
if [ "$2" = -version ]; then echo 'openjdk version "11.0.21" 2023-10-17' >&2; exit 0; fi
echo 'java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main' >&2
exit 1
"""


def test_with_a_java_that_is_too_old_the_message_says_so(tmp_path: Path) -> None:
    table = with_files(tmp_path, TABLES, 6)
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(OLD_JAVA)
    java.chmod(0o755)
    ended = run_cli("run", "compact", "events", "-f", tmp_path, JAVA_HOME=str(tmp_path / "jdk"))
    assert ended.code == 1
    assert f"(JavaMissing): Spark needs Java 17 or later, and {java} is version 11: install it" in ended.err
    calls = Path(f"{java}.calls").read_text().splitlines()
    assert all("-XX:-UsePerfData" in call for call in calls), "or Java leaves a folder in the one for temporary files"
    assert len(table.refresh().inspect.data_files()) == 6


def test_applying_without_java_leaves_the_table_as_it_was_and_says_so(tmp_path: Path) -> None:
    table = with_files(tmp_path, TRIGGERED, 12)
    before = table.refresh().metadata_location
    ended = run_cli("apply", "-f", tmp_path, JAVA_HOME="", PATH=str(Path(sys.executable).parent))
    assert ended.code == 1
    assert "Spark needs Java 17 or later, and there is none on the path: install it" in ended.err
    assert "sales/events: not Maintained" in ended.err
    assert "Traceback" not in ended.err
    assert table.refresh().metadata_location == before


def start_apply(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tablewright", "apply", "-f", str(folder)]
    return subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def test_interrupted_at_random_points_it_recovers(tmp_path: Path) -> None:
    table = with_files(tmp_path, TRIGGERED, 12)
    source = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID", "0"))
    for blow in (signal.SIGINT, signal.SIGKILL):
        process = start_apply(tmp_path)
        time.sleep(source.uniform(2, 12))
        if blow is signal.SIGINT:
            os.killpg(process.pid, blow)  # as a terminal does: everybody in the foreground
        else:
            process.kill()
        process.communicate(timeout=200)
        assert ids(table) == list(range(120))
    last = run_cli("apply", "-f", tmp_path)
    assert last.code == 0, last.err
    assert ids(table) == list(range(120))
    assert len(table.inspect.data_files()) < 10
    replaced = [s for s in table.snapshots() if s.summary and s.summary.operation.value == "replace"]
    assert len(replaced) == 1, "taken up again, not done again"


def test_interrupted_while_java_starts_it_ends_and_leaves_no_java_behind(tmp_path: Path) -> None:
    table = with_files(tmp_path, TRIGGERED, 12)
    process = start_apply(tmp_path)
    eventually(lambda: _javas_of(process.pid), bool, seconds=60)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=200)  # Java has its standard output: this waits for both
    assert process.returncode == 130
    eventually(lambda: _javas_of(process.pid), lambda left: not left, seconds=10)  # it closes its files, then it ends
    assert ids(table) == list(range(120))


def _javas_of(session: int) -> list[int]:
    """The processes of a session that run Spark's part in Java, or are about to."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session and b"pyspark-shell" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def test_a_second_apply_says_whom_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    state = EmbeddedState(tmp_path / ".tablewright")
    with state.locked():
        second = start_apply(tmp_path)
        assert second.stderr is not None
        said = second.stderr.readline()
        expected = (
            rf"waiting for process {os.getpid()}, which has worked on this folder since 20\d\d-\d\d-\d\dT[\d:]+Z\n"
        )
        assert re.fullmatch(expected, said), said
        assert second.poll() is None
    out, err = second.communicate(timeout=100)
    assert (second.returncode, "created table sales.events" in err, "True" in out) == (0, True, True)
    assert "waiting" not in run_here("apply", "-f", tmp_path).err


def test_apply_says_in_a_line_what_it_did_to_each_table(tmp_path: Path) -> None:
    until = "2199-01-01T00:00:00Z"
    (tmp_path / "events.yaml").write_text(TABLES)
    (tmp_path / "other.yaml").write_text(TABLES.replace("name: events", "name: other"))
    created = run_here("apply", "-f", tmp_path).err.splitlines()
    columns = "(format version 2): id required long, name string"
    assert created == [f"sales/{name}: created table sales.{name} {columns}" for name in ("events", "other")]
    assert run_here("apply", "-f", tmp_path).err == "", "nothing was done"

    table_of(tmp_path).append(rows(0, 1))
    changed = TABLES.replace("name: name, type: string}", "name: title, type: string, previousNames: [name]}")
    more = "      - {name: city, type: string}\n  partitioning: [{column: city, transform: identity}]\n"
    as_of = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    hold = f"  retention: {{holds: [{{name: audit, asOf: '{as_of}', until: '{until}'}}]}}\n"
    time.sleep(1.1)
    (tmp_path / "events.yaml").write_text(changed.replace("  layout:", f"{more}  layout:") + hold)
    assert run_here("apply", "-f", tmp_path).err.splitlines() == [
        "sales/events: renamed column name to title; added column city: string; changed the partitioning of new files "
        "from none to city; placed hold audit"
    ]


def test_a_table_that_waits_for_its_window_is_no_failure(tmp_path: Path) -> None:
    opens = (datetime.now(UTC) + timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
    window = f'  windows: [{{days: [{opens:%a}], start: "{opens:%H:%M}", duration: 1h}}]\n'
    with_files(tmp_path, TABLES, 12)
    (tmp_path / "events.yaml").write_text(TRIGGERED + window)
    waits = run_here("apply", "-f", tmp_path)
    assert waits.code == 0, waits.err
    assert waits.err == (
        "sales/events: waits for a window: 12 small files of 12; the policy tolerates fewer than 10; the next run may "
        f"start at {opens:%Y-%m-%dT%H:%M:%SZ}\n"
    )
    (tmp_path / "events.yaml").write_text(TRIGGERED + "  suspend: true\n")
    suspended = run_here("apply", "-f", tmp_path)
    assert (suspended.code, "not Healthy" in suspended.err) == (1, True), "nothing is going to happen to it"


def test_apply_shows_every_condition_that_its_exit_code_depends_on(tmp_path: Path) -> None:
    with_files(tmp_path, TRIGGERED, 12)
    nowhere = {"JAVA_HOME": "", "PATH": str(Path(sys.executable).parent)}
    failed = run_cli("apply", "-f", tmp_path, **nowhere)
    header, row = failed.out.splitlines()
    shown = dict(zip(re.split(r"\s{2,}", header), row.split(), strict=False))
    assert {name: shown[name] for name in ("READY", "IN SYNC", "HEALTHY", "MAINTAINED")} == {
        "READY": "True",
        "IN SYNC": "True",
        "HEALTHY": "False",
        "MAINTAINED": "False",
    }
    assert failed.code == 1
    assert {"sales/events: not Healthy", "sales/events: not Maintained"} == {
        line.partition(" (")[0] for line in failed.err.splitlines() if ": not " in line
    }


def test_two_at_once_on_one_folder_do_not_hurt_each_other(tmp_path: Path) -> None:
    table = with_files(tmp_path, TRIGGERED, 12)
    both = [start_apply(tmp_path), start_apply(tmp_path)]
    outcomes = [process.communicate(timeout=200) for process in both]
    assert [process.returncode for process in both] == [0, 0], outcomes
    assert ids(table) == list(range(120))
    assert sum(err.count("Compact started") for _, err in outcomes) == 1
    assert outcomes[0][0] == outcomes[1][0], "both end with the same status"
