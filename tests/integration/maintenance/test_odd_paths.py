"""Tables whose paths have `#`, `?`, `%`, blanks and other scripts, through every operation, on files and on S3.

No table of ours gets `#` or `?` into its location, so the first metadata file is put there as another engine would.
"""

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetStatisticsUpdate
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.inspection import snapshot_files
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, place_hold
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.retention import RowRetentionOptions, remove_old_rows
from tableformat.maintenance.rollback import RollbackOptions, roll_back
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.maintenance.tables import IDENTIFIER, head, later, reachable, read
from tests.servers.s3 import S3Access

NOW = datetime.now(UTC) + timedelta(hours=2)
DAY_MS = 24 * 3600 * 1000
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "at", TimestamptzType(), required=False)
)
ODD = "t #1?a=b&c=%23%2F+ñ日本/x y"
"""A folder in a folder, both with names that a URL would be cut at, or read differently."""

Storage = tuple[Catalog, str, Callable[[], set[str]], Callable[[str, bytes], None]]


@pytest.fixture(params=["files", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """A catalog, a root, and a look at and a write to what is below that by the storage's own means."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    if request.param == "files":
        folder = tmp_path / "warehouse"
        catalog = open_catalog(SqlConfig(name="lake", uri=uri, warehouse=f"file://{folder}"))

        def write(name: str, content: bytes) -> None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        yield catalog, f"file://{folder}", lambda: {str(p) for p in folder.rglob("*") if p.is_file()}, write
    else:
        s3: S3Access = request.getfixturevalue("s3")
        bucket: str = request.getfixturevalue("s3_bucket")
        client = s3.client()
        properties = s3.file_io_properties()
        catalog = open_catalog(SqlConfig(name="lake", uri=uri, warehouse=f"s3://{bucket}", properties=properties))

        def stored() -> set[str]:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            return {f"/{item['Key']}" for page in pages for item in page.get("Contents", ())}

        yield (
            catalog,
            f"s3://{bucket}",
            stored,
            lambda name, content: client.put_object(Bucket=bucket, Key=name, Body=content) and None,
        )
    catalog.close()


def rows(start: int, days: list[float]) -> pa.Table:
    at = pa.array([NOW - timedelta(days=age) for age in days], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(range(start, start + len(days)), pa.int64()), "at": at})


def registered(storage: Storage) -> Table:
    catalog, root, _, write = storage
    location = f"{root}/{ODD}"
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    metadata = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location, properties)
    name = f"{ODD}/metadata/00000-{metadata.table_uuid}.metadata.json"
    write(name, metadata.model_dump_json().encode())
    catalog.create_namespace("db")
    return catalog.register_table(IDENTIFIER, f"{root}/{name}")


def set_statistics(table: Table, write: Callable[[str, bytes], None]) -> None:
    write(f"{ODD}/metadata/stats?#1.puffin", b"statistics")
    update = SetStatisticsUpdate(
        statistics=StatisticsFile(
            snapshot_id=head(table).snapshot_id,
            statistics_path=f"{table.location()}/metadata/stats?#1.puffin",
            file_size_in_bytes=10,
            file_footer_size_in_bytes=1,
            blob_metadata=[],
        )
    )
    table.catalog.commit_table(table, (), (update,))


def test_table_with_odd_paths_reads_the_same_after_every_operation_and_nothing_is_left(storage: Storage) -> None:
    catalog, _, stored, write = storage
    write("t ", b"of somebody else, and what a cut location would lead to")
    table = registered(storage)
    for number, days in enumerate(([90, 80], [60, 1], [2, 3])):
        table.append(rows(number * 10, list(days)))
    last = snapshot_files(table.io, head(table)).data["path"].to_pylist()[0]
    delete_positions(table, {last: [0]})
    delete_equal(table, ["id"], [{"id": 10}])
    first, good = table.refresh().metadata.snapshots[0], head(table).snapshot_id
    hold = Hold(
        name="audit", as_of=datetime.fromtimestamp(first.timestamp_ms / 1000, UTC), until=NOW + timedelta(days=365)
    )
    place_hold(catalog, IDENTIFIER, hold, now=later(table))
    table.refresh().append(rows(60, [5]))
    roll_back(
        catalog,
        IDENTIFIER,
        RollbackOptions(snapshot_id=good, allow_losing_commits=True),
        run_id="back",
        now=later(table),
    )
    table.refresh()
    set_statistics(table, write)

    options = CompactionOptions(min_input_files=2)
    result = compact(
        catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="compaction", now=later(table.refresh())
    )
    assert result.files_rewritten >= 3
    assert read(table.refresh(), head(table).snapshot_id) == [0, 1, 11, 21]
    retention = RowRetentionOptions(column="at", max_age_ms=30 * DAY_MS)
    remove_old_rows(catalog, IDENTIFIER, retention, run_id="rows", now=NOW)
    table.refresh().append(rows(30, [4]))
    rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="manifests")
    write(f"{ODD}/data/lost#1.parquet", b"x")
    now = later(table.refresh(), days=20)
    expired = expire_snapshots(
        catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=1), now=now
    )
    orphans = OrphanOptions(action=OrphanAction.DELETE)
    removed = remove_orphans(catalog, IDENTIFIER, orphans, now=now)

    table = catalog.load_table(IDENTIFIER)
    assert read(table, head(table).snapshot_id) == [11, 21, 30]
    assert read(table, first.snapshot_id) == [0, 1]
    assert expired.snapshots_expired > 0
    assert removed.files_deleted == 1
    prefix = next(iter(stored())).split("/t ")[0]
    assert {path for path in stored() if "_tablewright" not in path} == reachable(table) | {f"{prefix}/t "}
    assert all(f"/{ODD}/" in path for path in reachable(table))

    catalog.purge_table(IDENTIFIER)
    assert {path for path in stored() if "_tablewright" not in path} == {f"{prefix}/t "}


def test_file_that_s3_file_io_would_read_under_a_cut_key_is_no_orphan(
    s3: S3Access, s3_bucket: str, tmp_path: Path
) -> None:
    """Iceberg's S3FileIO takes `x.parquet#1` for the key `x.parquet`; which one a table needs, nobody can tell."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    config = SqlConfig(name="lake", uri=uri, warehouse=f"s3://{s3_bucket}", properties=s3.file_io_properties())
    catalog = open_catalog(config)
    catalog.create_namespace("db")
    table = catalog.create_table(IDENTIFIER, SCHEMA)
    content = io.BytesIO()
    pq.write_table(rows(0, [1]).cast(SCHEMA.as_arrow()), content)
    key = table.location().removeprefix(f"s3://{s3_bucket}/") + "/data/x.parquet"
    for name in (f"{key}#1", key, f"{key}2"):
        s3.client().put_object(Bucket=s3_bucket, Key=name, Body=content.getvalue())
    table.add_files([f"s3://{s3_bucket}/{key}#1"])

    removed = remove_orphans(catalog, IDENTIFIER, OrphanOptions(action=OrphanAction.DELETE), now=later(table, days=20))

    assert removed.files_deleted == 1
    names = {item["Key"] for item in s3.client().list_objects_v2(Bucket=s3_bucket, Prefix=key)["Contents"]}
    assert names == {f"{key}#1", key}
    assert snapshot_files(table.io, head(table)).data["path"].to_pylist() == [f"s3://{s3_bucket}/{key}#1"]
    catalog.close()
