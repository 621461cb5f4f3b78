"""Every operation as a job: what the driver reports of it, and that a dry run changes nothing."""

import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.catalogs import SqlConfig
from tableformat.inspection import UnreadableManifest
from tableformat.inspection.avro_columns import parse_avro
from tableformat.locations import Place
from tableformat.maintenance.compaction import CompactionOptions
from tableformat.maintenance.errors import UnreadableMetadata
from tableformat.maintenance.expiry import ExpiryOptions
from tableformat.maintenance.job import (
    CherryPickWork,
    CompactWork,
    ExpireWork,
    InspectWork,
    JobReport,
    MaintenanceJob,
    ManifestWork,
    OrphanWork,
    RollbackWork,
    RowRetentionWork,
    Work,
)
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.reachability import FileKind, TableFile
from tableformat.maintenance.retention import RowRetentionOptions
from tableformat.maintenance.rollback import RollbackOptions
from tablejobs.attempt import Attempt
from tablejobs.failures import classify
from tablejobs.live_paths import SparkLivePaths
from tablejobs.operations import carry_out
from tablejobs.reporting import Reporter
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, head, later, on_disk
from tests.servers.spark import LocalSpark

DAY_MS = 24 * 3600 * 1000
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "at", TimestamptzType(), required=False)
)
TIMES_OLD = [400, 300, 2, 1]
"""How many days old the rows of each append are."""


@pytest.fixture
def table(catalog: LocalCatalog) -> Table:
    catalog.create_namespace("db")
    table = catalog.create_table(IDENTIFIER, SCHEMA, properties={"write.target-file-size-bytes": "1048576"})
    now = later(table)
    for number, days in enumerate(TIMES_OLD):
        at = pa.array([now - timedelta(days=days)] * 3, pa.timestamp("us", "UTC"))
        table.append(pa.table({"id": pa.array(range(number * 3, number * 3 + 3), pa.int64()), "at": at}))
    orphan = Path(Place.of(table.location()).path) / "data" / "lost.parquet"
    orphan.write_bytes(b"x" * 7)
    os.utime(orphan, ((now - timedelta(days=9)).timestamp(),) * 2)
    return table


def job(tmp_path: Path, work: Work, *, dry_run: bool = False, run_id: str = "run") -> MaintenanceJob:
    config = SqlConfig(
        name="lake", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path / 'warehouse'}"
    )
    return MaintenanceJob(run_id=run_id, catalog=config, identifier=IDENTIFIER, work=work, dry_run=dry_run)


def works(table: Table) -> dict[str, Work]:
    first = table.metadata.snapshots[0].snapshot_id
    return {
        "Compact": CompactWork(options=CompactionOptions(min_input_files=2)),
        "ExpireSnapshots": ExpireWork(options=ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=1)),
        "RemoveOrphanFiles": OrphanWork(options=OrphanOptions(action=OrphanAction.DELETE, min_age_ms=5 * DAY_MS)),
        "RewriteManifests": ManifestWork(),
        "DeleteExpiredRows": RowRetentionWork(options=RowRetentionOptions(column="at", max_age_ms=30 * DAY_MS)),
        "Rollback": RollbackWork(options=RollbackOptions(snapshot_id=first, allow_losing_commits=True)),
        "Inspect": InspectWork(small_file_bytes=1000),
    }


OPERATIONS = [
    *["Compact", "ExpireSnapshots", "RemoveOrphanFiles", "RewriteManifests"],
    *["DeleteExpiredRows", "Rollback", "Inspect"],
]


def run(job: MaintenanceJob, catalog: LocalCatalog, now: datetime) -> JobReport:
    """As the driver has it, on the way of JSON there and back."""
    sent = MaintenanceJob.model_validate_json(job.model_dump_json())
    report = carry_out(sent, catalog, Reporter(sent), Attempt.of(sent, cores=1), now=now)
    assert len(report.to_termination_message().encode()) <= 4096
    assert JobReport.model_validate_json(report.to_termination_message()) == report
    return report


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_dry_run_says_what_would_go_and_changes_nothing(
    catalog: LocalCatalog, table: Table, tmp_path: Path, operation: str
) -> None:
    files, location = on_disk(table, records=True), table.metadata_location

    report = run(job(tmp_path, works(table)[operation], dry_run=True), catalog, later(table))

    assert (on_disk(table, records=True), table.refresh().metadata_location) == (files, location)
    assert report.before is not None
    assert (report.before.data_files, report.before.records, report.before.snapshots) == (4, 12, 4)
    assert report.before.small_files == (0 if operation == "Inspect" else 4)
    assert report.after is None
    if operation == "Inspect":
        assert report.plan is None
        assert report.inspection is not None
        assert report.inspection.small_files == 0
        return
    assert report.plan is not None
    assert report.message.startswith("dry run: ")
    assert report.plan.lines
    expected = {
        "Compact": (4, 12, 0),
        "ExpireSnapshots": (3, 0, 3),
        "RemoveOrphanFiles": (1, 0, 0),
        "RewriteManifests": (4, 0, 0),
        "DeleteExpiredRows": (2, 6, 0),
        "Rollback": (0, 0, 3),
    }
    assert (report.plan.files, report.plan.rows, report.plan.snapshots) == expected[operation]
    assert (report.plan.bytes > 0) == (operation != "Rollback")


def test_each_operation_reports_what_it_did_and_the_figures_around_it(
    catalog: LocalCatalog, table: Table, tmp_path: Path
) -> None:
    planned = works(table)
    reports = {}
    for operation in ("Inspect", "RemoveOrphanFiles", "RewriteManifests", "DeleteExpiredRows", "ExpireSnapshots"):
        work = job(tmp_path, planned[operation], run_id=operation)
        reports[operation] = run(work, catalog, later(table.refresh()))

    inspected, removed = reports["Inspect"].inspection, reports["RemoveOrphanFiles"].orphans
    assert inspected is not None
    assert (inspected.data_files, inspected.records) == (4, 12)
    assert removed is not None
    assert (removed.files_deleted, removed.bytes_deleted) == (1, 7)
    manifests = reports["RewriteManifests"]
    assert manifests.manifests is not None
    assert manifests.before is not None
    assert manifests.after is not None
    assert (manifests.before.manifests, manifests.after.manifests) == (4, 1)
    assert (manifests.manifests.manifests_replaced, manifests.manifests.manifests_written) == (4, 1)
    rows = reports["DeleteExpiredRows"]
    assert rows.rows is not None
    assert rows.plan is not None
    assert rows.after is not None
    assert (rows.rows.rows_removed, rows.plan.rows, rows.after.records) == (6, 6, 6)
    expired = reports["ExpireSnapshots"]
    assert expired.expiry is not None
    assert expired.plan is not None
    assert expired.after is not None
    assert (expired.expiry.snapshots_expired, expired.plan.snapshots, expired.after.snapshots) == (5, 5, 1)
    assert expired.expiry.files_deleted == expired.plan.files


def test_a_rollback_that_would_be_refused_says_so_in_its_dry_run(
    catalog: LocalCatalog, table: Table, tmp_path: Path
) -> None:
    work = RollbackWork(options=RollbackOptions(snapshot_id=table.metadata.snapshots[0].snapshot_id))

    report = run(job(tmp_path, work, dry_run=True), catalog, later(table))

    assert (report.succeeded, report.reason) == (False, "RollbackRefused")
    assert "The run would be refused. Tag what is to be kept, or pass --allow-losing-commits" in report.message
    assert report.plan is not None
    assert len([line for line in report.plan.lines if line.startswith("lost: append")]) == 3


def test_a_driver_publishes_a_staged_snapshot_as_its_dry_run_says(
    catalog: LocalCatalog, table: Table, tmp_path: Path
) -> None:
    before, some = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}, table.scan(limit=3).to_arrow()
    table.append(some, branch=None)
    [staged] = {snapshot.snapshot_id for snapshot in table.metadata.snapshots} - before
    table.append(some)
    work, location = CherryPickWork(snapshot_id=staged), table.metadata_location

    planned = run(job(tmp_path, work, dry_run=True), catalog, later(table))
    assert "its files are appended once more" in planned.message
    assert table.refresh().metadata_location == location
    assert planned.plan is not None
    assert (planned.plan.files, planned.plan.rows) == (1, 3)

    done = run(job(tmp_path, work), catalog, later(table))
    assert done.plan == planned.plan
    assert done.cherry_pick is not None
    assert done.cherry_pick.snapshot_id == table.refresh().metadata.current_snapshot_id
    again = run(job(tmp_path, work), catalog, later(table))
    assert again.cherry_pick == done.cherry_pick

    unknown = CherryPickWork(snapshot_id=4711)
    assert (
        "refused: table db.events has no snapshot 4711"
        in run(job(tmp_path, unknown, dry_run=True), catalog, later(table)).message
    )
    code, report = drive(tmp_path, job(tmp_path, unknown))
    assert (code, report.succeeded, report.reason) == (2, False, "CherryPickRefused")


def test_a_driver_rolls_back_and_gives_up_on_what_is_refused(table: Table, tmp_path: Path) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    refused = RollbackWork(options=RollbackOptions(snapshot_id=first))
    allowed = RollbackWork(options=RollbackOptions(snapshot_id=first, allow_losing_commits=True))

    code, report = drive(tmp_path, job(tmp_path, refused))
    assert (code, report.succeeded, report.reason) == (2, False, "RollbackRefused")
    code, report = drive(tmp_path, job(tmp_path, allowed))
    assert (code, report.succeeded) == (0, True)
    assert report.rollback is not None
    assert (report.rollback.to_snapshot_id, report.rollback.commits_undone) == (first, 3)
    assert table.refresh().metadata.current_snapshot_id == first


def test_a_table_whose_manifests_are_lost_can_still_be_rolled_back(
    catalog: LocalCatalog, table: Table, tmp_path: Path
) -> None:
    head = table.metadata.current_snapshot()
    assert head is not None
    Path(Place.of(head.manifest_list).path).unlink()

    report = run(job(tmp_path, works(table)["Rollback"]), catalog, later(table))

    assert report.before is None
    assert report.after is not None
    assert (report.after.data_files, report.after.records) == (1, 3)


@pytest.mark.parametrize("damage", ["missing", "cut off", "cut off between blocks", "no manifest"])
@pytest.mark.parametrize("operation", ["Compact", "RewriteManifests", "DeleteExpiredRows", "RemoveOrphanFiles"])
def test_a_broken_manifest_stops_every_operation_that_would_read_it(
    catalog: LocalCatalog, table: Table, tmp_path: Path, operation: str, damage: str
) -> None:
    head = table.metadata.current_snapshot()
    assert head is not None
    broken = Path(Place.of(head.manifests(table.io)[1].manifest_path).path)
    content = broken.read_bytes()
    if damage == "missing":
        broken.unlink()
    else:
        cuts = {"cut off": len(content) - 20, "cut off between blocks": parse_avro(content).blocks_at}
        broken.write_bytes(content[: cuts[damage]] if damage in cuts else b"junk")
    files, location = on_disk(table), table.metadata_location

    with pytest.raises(UnreadableManifest if operation == "Compact" else UnreadableMetadata):
        run(job(tmp_path, works(table)[operation]), catalog, later(table))

    assert (on_disk(table), table.refresh().metadata_location) == (files, location)


def drive(tmp_path: Path, job: MaintenanceJob) -> tuple[int, JobReport]:
    """`python -m tablejobs`, as in a pod."""
    log = tmp_path / "termination-log"
    environment = {
        **os.environ,
        "TABLEWRIGHT_JOB": job.model_dump_json(),
        "TABLEWRIGHT_TERMINATION_LOG": str(log),
    }
    ended = subprocess.run([sys.executable, "-m", "tablejobs"], env=environment, check=False, capture_output=True)
    assert log.exists(), ended.stderr.decode()
    return ended.returncode, JobReport.model_validate_json(log.read_text())


@pytest.mark.xdist_group("spark")
def test_the_manifests_of_a_large_table_are_read_on_spark(
    catalog: LocalCatalog, table: Table, spark: LocalSpark
) -> None:
    options = OrphanOptions(action=OrphanAction.REPORT, min_age_ms=5 * DAY_MS)
    here = remove_orphans(catalog, IDENTIFIER, options, now=later(table))

    read = SparkLivePaths(table, lambda _: spark.session.sparkContext, large_bytes=0)
    there = remove_orphans(catalog, IDENTIFIER, options, now=later(table), read=read)

    assert there == here
    assert (here.orphans, here.files_listed > 10) == (1, True)


@pytest.mark.xdist_group("spark")
def test_manifests_that_are_read_on_spark_are_read_side_by_side(table: Table, spark: LocalSpark) -> None:
    context, manifests = spark.session.sparkContext, head(table).manifests(table.io)
    files = [TableFile(each.manifest_path, FileKind.MANIFEST, each.manifest_length) for each in manifests]
    context.setJobGroup("side-by-side", "")

    found = list(SparkLivePaths(table, lambda _: context, large_bytes=0, task_bytes=1)(files))

    assert len(found) == len(manifests) == len(TIMES_OLD)  # in portions of their own,
    assert len(context.statusTracker().getJobIdsForGroup("side-by-side")) == 1  # none of which waits for another


@pytest.mark.xdist_group("spark")
def test_a_manifest_that_spark_cannot_read_is_named_as_one_that_is_read_here(
    catalog: LocalCatalog, table: Table, spark: LocalSpark
) -> None:
    head = table.metadata.current_snapshot()
    assert head is not None
    Path(Place.of(head.manifests(table.io)[0].manifest_path).path).unlink()
    read = SparkLivePaths(table, lambda _: spark.session.sparkContext, large_bytes=0)

    with pytest.raises(UnreadableMetadata, match="does not exist") as caught:
        remove_orphans(catalog, IDENTIFIER, OrphanOptions(action=OrphanAction.REPORT), now=later(table), read=read)

    assert classify(caught.value).reason == "UnreadableMetadata"
