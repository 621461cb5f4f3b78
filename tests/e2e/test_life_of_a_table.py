"""The whole life of a table on a real node: declared, written to by pods, compacted, expired and cleaned by Spark."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.place import TABLE, Place, table_spec
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.s3 import S3Access, S3Server
from tests.servers.spark import LocalSpark
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(900)
DAY = 86_400


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory, dynamodb: DynamoDbAccess) -> Iterator[LocalSpark]:
    """Spark with Iceberg's own Java runtime."""
    local = LocalSpark.with_aws(tmp_path_factory.mktemp("spark"), dynamodb)
    yield local
    local.stop()


def test_a_declared_table_is_created_written_compacted_expired_and_cleaned(
    place: Place, s3_server: S3Server, request: pytest.FixtureRequest
) -> None:
    place.declare(
        compaction={"triggers": {"smallFiles": 40}},
        retention={"snapshots": {"maxAge": "1s", "minCount": 1, "schedule": "* * * * *"}},
        orphanFiles={"minAge": "1d", "grace": "1s"},
    )
    assert place.conditions()["Ready"] == "True"

    written = place.written_by(place.start_writer(commits=12, rows=40))
    assert len(written) == 480
    compacted = place.done("Compact")[0]
    assert compacted["result"]["rewrittenFiles"] >= 40
    assert compacted["result"]["addedFiles"] <= 4
    assert compacted["progress"]["tasksDone"] == compacted["progress"]["tasks"] > 0
    assert compacted["before"]["dataFiles"] > compacted["after"]["dataFiles"]
    assert {"RunCreated", "RunStarted", "RunSucceeded"} <= place.reasons()

    # An expiry may have come before the compaction, and found manifest lists alone: all of them together count.
    expired = place.done("ExpireSnapshots", having=lambda runs: _sum(runs, "deletedFiles") >= 40)
    assert _sum(expired, "expiredSnapshots") > 0

    stray = _stray_file(place, s3_server)
    marked = place.wait_for_run(place.ask_for("RemoveOrphanFiles"))
    assert (marked["phase"], marked["result"]["markedFiles"]) == ("Succeeded", 1), marked
    assert stray.exists()
    time.sleep(1.5)
    deleted = place.wait_for_run(place.ask_for("RemoveOrphanFiles"))
    assert (deleted["phase"], deleted["result"]["deletedFiles"]) == ("Succeeded", 1), deleted
    assert not stray.exists()

    assert place.ids() == written
    shown = place.kubectl("get", "mtbl").splitlines()
    assert shown[0].split()[:2] == ["NAME", "READY"]
    assert shown[1].split()[:3] == [TABLE, "True", "True"]
    assert place.conditions() == dict.fromkeys(("Ready", "InSync", "Healthy", "Maintained"), "True")
    if place.kind == "dynamoDB":
        session: LocalSpark = request.getfixturevalue("java")
        s3, dynamodb = request.getfixturevalue("s3"), request.getfixturevalue("dynamodb")
        assert _ids_that_java_reads(session, place, s3, dynamodb) == written


def _sum(runs: list[dict[str, Any]], figure: str) -> int:
    return sum(run["result"].get(figure, 0) for run in runs)


def _stray_file(place: Place, server: S3Server) -> Path:
    """What a writer that died two days ago left behind; the server takes an object's time from its file."""
    _, _, key = place.table().location().partition(f"{place.bucket}/")
    path = server.buckets / place.bucket / key / "data" / "city=Pune" / "left-behind.parquet"
    path.write_bytes(b"nobody refers to this")
    two_days_ago = time.time() - 2 * DAY
    os.utime(path, (two_days_ago, two_days_ago))
    return path


def _ids_that_java_reads(java: LocalSpark, place: Place, s3: S3Access, dynamodb: DynamoDbAccess) -> list[int]:
    java.use_dynamodb_catalog("lake", place.name, f"s3://{place.bucket}/warehouse", dynamodb, s3)
    found = java.session.sql("SELECT txn_id FROM lake.sales.payments ORDER BY txn_id").collect()
    return [row[0] for row in found]


@pytest.mark.parametrize("catalog_kind", ["configMap"], indirect=True)
def test_executors_run_at_the_restricted_level_and_go_with_their_driver(place: Place) -> None:
    place.declare()
    written = place.write(commits=6, rows=40)
    run = place.ask_for("Compact")
    executor = place.wait_for_executors()[0]
    driver = place.driver(run)
    assert executor.metadata.owner_references[0].uid == driver.metadata.uid
    assert executor.spec.containers[0].security_context.read_only_root_filesystem
    assert not executor.spec.automount_service_account_token
    status = place.wait_for_run(run)
    assert status["phase"] == "Succeeded", status
    eventually(place.executors, lambda left: not left)
    assert place.ids() == written


def test_a_schema_evolves_while_a_writer_writes(place: Place) -> None:
    place.declare()
    writer = place.start_writer(commits=5, rows=4, pause=0.2, after="note")
    eventually(lambda: place.table().current_snapshot() is not None, bool)
    before = place.table().current_snapshot()
    spec = table_spec()
    txn, city, amount = spec["schema"]["columns"]
    columns = [txn, {**city, "doc": "where"}, {**amount, "type": "long"}, {"name": "note", "type": "string"}]
    place.declare(schema={"columns": columns, "identifierColumns": ["txn_id"]})

    written = place.written_by(writer)
    assert place.ids() == written
    table = place.table()
    assert str(table.schema().find_type("amount")) == "long"
    assert set(place.rows()["note"].to_pylist()) == {None}
    assert before is not None
    assert table.current_snapshot() != before, "the writer went on"
