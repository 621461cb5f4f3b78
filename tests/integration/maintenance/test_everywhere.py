"""Every operation on every catalog of ours, on local files and on the S3 server: the same rows, nothing left over."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig, SqlConfig, open_catalog
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.locations import Place
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, apply_holds
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.retention import RowRetentionOptions, remove_old_rows
from tableformat.maintenance.rollback import RollbackOptions, cherry_pick, roll_back
from tableformat.storage import FileStore, open_store
from tests.conftest import unique
from tests.integration.maintenance.faults import Killed, MortalStore, mortal
from tests.integration.maintenance.tables import IDENTIFIER, head, later, reachable, read, read_all
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess
from tests.servers.s3 import S3Access

NOW = datetime.now(UTC) + timedelta(hours=2)  # ahead of what is committed, however long the suite has been running
DAY_MS = 24 * 3600 * 1000
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "at", TimestamptzType(), required=False)
)
ROWS = RowRetentionOptions(column="at", max_age_ms=30 * DAY_MS)
ORPHANS = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=0, allow_short_min_age=True)
Open = Callable[[], Catalog]


@pytest.fixture(params=["files", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """Where tables lie, and how that is reached."""
    if request.param == "files":
        return f"file://{tmp_path}/warehouse", {}
    s3: S3Access = request.getfixturevalue("s3")
    return f"s3://{request.getfixturevalue('s3_bucket')}/warehouse", s3.file_io_properties()


@pytest.fixture(params=["sql", "configMap", "dynamoDB"])
def config(request: pytest.FixtureRequest, storage: tuple[str, dict[str, str]], tmp_path: Path) -> CatalogConfig:
    warehouse, properties = storage
    if request.param == "sql":
        uri = f"sqlite:///{tmp_path}/catalog.db"
        return SqlConfig(name="lake", uri=uri, warehouse=warehouse, properties=properties)
    if request.param == "configMap":
        kubernetes: KubernetesAccess = request.getfixturevalue("kubernetes")
        return ConfigMapConfig(
            name="lake",
            warehouse=warehouse,
            namespace=request.getfixturevalue("kube_namespace"),
            kubeconfig=str(kubernetes.kubeconfig),
            properties=properties,
        )
    dynamodb: DynamoDbAccess = request.getfixturevalue("dynamodb")
    keys = {"dynamodb.access-key-id": dynamodb.access_key, "dynamodb.secret-access-key": dynamodb.secret_key}
    return DynamoDbConfig(
        name="lake",
        warehouse=warehouse,
        table_name=unique("catalog"),
        region=dynamodb.region,
        endpoint=dynamodb.endpoint,
        create_table=True,
        properties={**keys, **properties},
    )


@pytest.fixture
def open_one(config: CatalogConfig) -> Iterator[Open]:
    opened: list[Catalog] = []

    def open_it() -> Catalog:
        opened.append(open_catalog(config))
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


def rows(start: int, days: list[float]) -> pa.Table:
    """Each row has an age in days."""
    at = pa.array([NOW - timedelta(days=age) for age in days], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(range(start, start + len(days)), pa.int64()), "at": at})


@pytest.fixture
def table(open_one: Open) -> Table:
    catalog = open_one()
    catalog.create_namespace("db")
    table = catalog.create_table(IDENTIFIER, SCHEMA, properties={"write.delete.mode": "merge-on-read"})
    for number, days in enumerate(([90, 80], [60, 1], [2, 3])):
        table.append(rows(number * 10, list(days)))
    return table


def stored(table: Table) -> set[str]:
    return {Place.of(file.location).path for file in open_store(table.io).files(table.location())}


def put_orphan(table: Table) -> None:
    with table.io.new_output(f"{table.location()}/data/lost.parquet").create() as stream:
        stream.write(b"x")


def everything(
    catalog: Catalog, table: Table, store: FileStore, *, held: int, good: int, staged: int
) -> list[Callable[[], object]]:
    """The operations, each with the run id or the target by which it recognises its own work."""
    hold = Hold(
        name="audit",
        as_of=datetime.fromtimestamp(table.metadata.snapshots[held].timestamp_ms / 1000, UTC),
        until=NOW + timedelta(days=365),
    )
    now = later(table, minutes=1)
    target = RollbackOptions(snapshot_id=good, allow_losing_commits=True)
    expiry = ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=1)
    return [
        lambda: apply_holds(catalog, IDENTIFIER, [hold], now=now),
        lambda: roll_back(catalog, IDENTIFIER, target, run_id="back", now=now, store=store),
        lambda: cherry_pick(catalog, IDENTIFIER, staged),
        lambda: remove_old_rows(catalog, IDENTIFIER, ROWS, run_id="rows", now=now),
        lambda: rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="manifests"),
        lambda: expire_snapshots(catalog, IDENTIFIER, expiry, now=now + timedelta(minutes=1), store=store),
        lambda: remove_orphans(catalog, IDENTIFIER, ORPHANS, now=now + timedelta(minutes=1), store=store),
    ]


def test_after_all_operations_what_stays_reads_as_before_and_nothing_else_is_left(table: Table, open_one: Open) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    staged = stage_rows(table)
    table.append(rows(50, [4]))
    good = head(table).snapshot_id
    table.append(rows(60, [5]))  # to be undone
    compact(
        table.catalog,
        IDENTIFIER,
        CompactionOptions(min_input_files=2),
        executor=InProcessExecutor(),
        run_id="compaction",
        now=later(table),
    )
    put_orphan(table)
    held_rows = read(table, first)

    for operation in everything(table.catalog, table, open_store(table.io), held=0, good=good, staged=staged):
        operation()

    fresh = open_one().load_table(IDENTIFIER)
    assert read(fresh, head(fresh).snapshot_id) == [11, 20, 21, 40, 50]
    assert read(fresh, fresh.metadata.refs["tablewright-hold-audit"].snapshot_id) == held_rows == [0, 1]
    assert len(read_all(fresh)) == 2
    assert {path for path in stored(fresh) if "_tablewright" not in path} == reachable(fresh)


def stage_rows(table: Table) -> int:
    before = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    table.append(rows(40, [1]), branch=None)
    return next(s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in before)


def test_killed_again_and_again_a_call_later_each_time_every_operation_comes_to_its_end(
    table: Table, open_one: Open
) -> None:
    """Each life lasts one call longer than the one before, and goes on from what that one left."""
    good, staged = head(table).snapshot_id, stage_rows(table)
    table.append(rows(60, [5]))
    put_orphan(table)
    held_rows = read(table, table.metadata.snapshots[0].snapshot_id)

    catalog = table.catalog
    assert isinstance(catalog, PointerCatalog)
    for number in range(7):
        for calls in range(1, 500):
            try:
                with mortal(catalog, calls) as life:
                    store = MortalStore(open_store(table.io), life)
                    everything(catalog, table, store, held=0, good=good, staged=staged)[number]()
                    break
            except Killed:
                continue
        else:
            raise AssertionError("it never came to its end")

    fresh = open_one().load_table(IDENTIFIER)
    assert read(fresh, head(fresh).snapshot_id) == [11, 20, 21, 40]
    assert read(fresh, fresh.metadata.refs["tablewright-hold-audit"].snapshot_id) == held_rows == [0, 1]
    assert len(read_all(fresh)) == 2
    assert {path for path in stored(fresh) if "_tablewright" not in path} == reachable(fresh)
