"""The embedded path: a folder of YAML, SQLite, a local warehouse, and the same Spark job in local mode."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tableformat.catalogs import SqlConfig, open_catalog
from tablewright.api.run import Cause, Operation, Phase
from tablewright.api.table import HoldState
from tablewright.embedded.apply import RunEnded, TableDone, apply_folder
from tablewright.embedded.folder import read_folder
from tablewright.embedded.state import EmbeddedState
from tests.reading import rows_in_files
from tests.servers import toolchain
from tests.servers.spark import LocalSpark

pytestmark = pytest.mark.xdist_group("spark")

TABLE = """
apiVersion: tablewright.dev/v1alpha1
kind: ManagedTable
metadata: {name: events, namespace: sales}
spec:
  catalogRef: {name: lake}
  schema:
    columns:
      - {name: id, type: long, required: true}
      - {name: name, type: string}
      - {name: tags, type: "list<struct<key: string, weight: double>>"}
  layout: {targetFileSize: 16Mi}
  compaction: {triggers: {smallFiles: 20}}
"""
ASKED = "{name: events, namespace: sales, annotations: {tablewright.dev/run: Inspect}}"


def apply(folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "JAVA_HOME": str(Path(toolchain.java()).resolve().parent.parent)}
    command = [sys.executable, "-m", "tablewright", "apply", "-f", str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


def rows(first: int, count: int) -> pa.Table:
    tags = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("weight", pa.float64())])))
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("tags", tags)]
    )
    numbers = range(first, first + count)
    values = {
        "id": list(numbers),
        "name": [None if n % 4 == 0 else f"n{n}" for n in numbers],
        "tags": [[] if n % 3 == 0 else [{"key": "k", "weight": n / 7}, None] for n in numbers],
    }
    return pa.Table.from_pydict(values, schema=schema)


def test_a_folder_of_declarations_becomes_healthy_tables_that_java_engines_read(
    tmp_path: Path, spark: LocalSpark
) -> None:
    (tmp_path / "events.yaml").write_text(TABLE)
    created = apply(tmp_path)
    assert created.returncode == 0, created.stderr
    assert "sales" in created.stdout

    state = tmp_path / ".tablewright"
    catalog = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{state}/catalog.db", warehouse=f"file://{state}/warehouse")
    )
    table = catalog.load_table(("sales", "events"))
    for first in range(0, 250, 10):
        table.append(rows(first, 10))
    before = rows_in_files(table)
    assert len(table.inspect.data_files()) == 25

    compacted = apply(tmp_path)
    assert compacted.returncode == 0, compacted.stderr
    assert "rewrote 25 files into 1" in compacted.stderr
    table.refresh()
    assert len(table.inspect.data_files()) == 1
    after = rows_in_files(table)
    assert after.sort_by("id").to_pylist() == before.sort_by("id").to_pylist() == rows(0, 250).to_pylist()

    before_it = table.metadata_location, (state / "objects.json").read_text()
    quiet = apply(tmp_path)
    assert quiet.returncode == 0
    assert quiet.stderr == "", "a quiet table is left alone"
    assert quiet.stdout == compacted.stdout
    assert (table.refresh().metadata_location, (state / "objects.json").read_text()) == before_it

    spark.use_sqlite_catalog("lake", state / "catalog.db", state / "warehouse")
    read = spark.session.sql("SELECT id, name, tags FROM lake.sales.events ORDER BY id").collect()
    expected = rows(0, 250).to_pylist()
    assert [row.asDict(recursive=True) for row in read] == expected


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "broken.yaml:1:5: "),
        (TABLE.replace("smallFiles", "smallfiles"), 'unknown field "smallfiles"; did you mean "smallFiles"?'),
        (
            TABLE.replace("ManagedTable", "MangedTable"),
            'kind: unknown kind "MangedTable"; did you mean "ManagedTable"?',
        ),
        (TABLE + "---" + TABLE, "ManagedTable sales/events is declared twice"),
    ],
    ids=["broken YAML", "misspelt field", "unknown kind", "declared twice"],
)
def test_bad_declarations_are_named_and_nothing_is_changed(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "good.yaml").write_text(TABLE.replace("name: events", "name: good"))
    (tmp_path / "broken.yaml").write_text(content)
    result = apply(tmp_path)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert not (tmp_path / ".tablewright").exists()


def test_a_bad_type_is_named_and_the_other_tables_are_served(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(TABLE)
    (tmp_path / "bad.yaml").write_text(
        TABLE.replace("name: events", "name: bad").replace("type: string}", "type: strng}")
    )
    result = apply(tmp_path)
    assert result.returncode == 1
    assert "sales/bad: not InSync (InvalidDeclaration): schema.columns[name].type" in result.stderr
    catalog = open_catalog(
        SqlConfig(
            name="lake",
            uri=f"sqlite:///{tmp_path}/.tablewright/catalog.db",
            warehouse=f"file://{tmp_path}/.tablewright/warehouse",
        )
    )
    assert catalog.list_tables("sales") == [("sales", "events")]


def test_snapshots_expire_on_schedule_and_their_files_go(tmp_path: Path) -> None:
    retention = (
        "  retention: {snapshots: {schedule: '* * * * *', maxAge: 1s}}\n  orphanFiles: {schedule: '* * * * *'}\n"
    )
    (tmp_path / "events.yaml").write_text(TABLE + retention)
    declarations, state = read_folder(tmp_path), EmbeddedState(tmp_path / ".tablewright")
    list(apply_folder(declarations, state))
    catalog = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{state.folder}/catalog.db", warehouse=f"file://{state.folder}/warehouse")
    )
    table = catalog.load_table(("sales", "events"))
    for first in range(0, 30, 10):
        table.append(rows(first, 10))
    table.overwrite(rows(100, 10))
    files = list((state.folder / "warehouse").rglob("*.parquet"))
    assert len(files) == 4
    time.sleep(1.1)

    a_minute_later = datetime.now(UTC) + timedelta(minutes=1)
    events = list(apply_folder(declarations, state, clock=lambda: a_minute_later))

    ended = [event.run for event in events if isinstance(event, RunEnded)]
    assert [(run.spec.operation, run.status.phase) for run in ended] == [
        (Operation.EXPIRE_SNAPSHOTS, Phase.SUCCEEDED),
        (Operation.REMOVE_ORPHAN_FILES, Phase.SUCCEEDED),
    ]
    assert ended[0].status.result is not None
    assert ended[0].status.result.deleted_files >= 3
    assert len(list((state.folder / "warehouse").rglob("*.parquet"))) == 1
    table.refresh()
    assert len(table.snapshots()) == 1
    assert rows_in_files(table).to_pylist() == rows(100, 10).to_pylist()


def test_a_folder_has_the_same_operations_holds_and_requests_as_a_cluster(tmp_path: Path) -> None:
    file, state = tmp_path / "events.yaml", EmbeddedState(tmp_path / ".tablewright")
    file.write_text(TABLE)
    list(apply_folder(read_folder(tmp_path), state))
    catalog = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{state.folder}/catalog.db", warehouse=f"file://{state.folder}/warehouse")
    )
    table = catalog.load_table(("sales", "events"))
    for first in range(0, 30, 10):
        table.append(rows(first, 10))
    first_snapshot = table.metadata.snapshots[0]
    moment = datetime.fromtimestamp(first_snapshot.timestamp_ms / 1000 + 0.001, UTC).isoformat()
    hold = f'{{name: audit, asOf: "{moment}", until: "2199-01-01T00:00:00Z"}}'
    asked = TABLE.replace("{name: events, namespace: sales}", ASKED) + f"  retention: {{holds: [{hold}]}}\n"
    file.write_text(asked + "  manifests: {schedule: '* * * * *'}\n  runHistory: {succeeded: 0}\n")

    a_minute_later = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
    events = list(apply_folder(read_folder(tmp_path), state, clock=lambda: a_minute_later))
    ended = [event.run for event in events if isinstance(event, RunEnded)]
    assert [(run.spec.operation, run.status.cause, run.status.phase) for run in ended] == [
        (Operation.INSPECT, Cause.ANNOTATION, Phase.SUCCEEDED)
    ], "a schedule that is new begins now"
    assert table.refresh().metadata.refs["tablewright-hold-audit"].snapshot_id == first_snapshot.snapshot_id

    an_hour_later = a_minute_later + timedelta(hours=1)
    events = list(apply_folder(read_folder(tmp_path), state, clock=lambda: an_hour_later))
    ended = [event.run for event in events if isinstance(event, RunEnded)]
    assert [(run.spec.operation, run.status.cause, run.status.phase) for run in ended] == [
        (Operation.REWRITE_MANIFESTS, Cause.SCHEDULE, Phase.SUCCEEDED)
    ], "the annotation, which is still there, was acted on"
    assert ended[0].status.result is not None
    assert ended[0].status.result.rewritten_manifests == 3
    assert ended[0].status.after is not None
    assert ended[0].status.after.manifests == 1
    assert state.runs() == [], "by the history's limit"
    [done] = [event.table for event in events if isinstance(event, TableDone)]
    assert {each.operation: each.consecutive_failures for each in done.status.operations if each.last_success} == {
        Operation.INSPECT: 0,
        Operation.REWRITE_MANIFESTS: 0,
    }
    assert [(hold.name, hold.state) for hold in done.status.holds] == [("audit", HoldState.HELD)]
