"""Tables made by Iceberg's Java runtime, expired and cleaned by us, and read by it afterwards at every snapshot."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.commits import entries as carrying
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.retention import RowRetentionOptions, remove_old_rows
from tests.integration.maintenance.tables import later
from tests.servers.spark import LocalSpark

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


class Lake:
    def __init__(self, spark: LocalSpark, folder: Path) -> None:
        self.name = f"lake_{folder.name.replace('-', '_')}"
        config = SqlConfig(name=self.name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
        self.catalog: Catalog = open_catalog(config)
        self.catalog.create_namespace("db")
        spark.use_sqlite_catalog(self.name, folder / "catalog.db", folder / "warehouse")
        self._session = spark.session
        self.table = f"{self.name}.db.t"

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self._session.sql(statement).collect()]

    def refresh(self) -> None:
        self.sql(f"REFRESH TABLE {self.table}")

    def snapshots(self) -> list[int]:
        return [int(str(row[0])) for row in self.sql(f"SELECT snapshot_id FROM {self.table}.snapshots")]

    def row_ids(self) -> dict[object, object]:
        return {row[0]: row[1] for row in self.sql(f"SELECT id, _row_id FROM {self.table}")}

    def rows(self, version: object) -> list[tuple[object, ...]]:
        version = f"'{version}'" if isinstance(version, str) else version
        return sorted(self.sql(f"SELECT id, v FROM {self.table} VERSION AS OF {version}"), key=str)


@pytest.fixture
def lake(spark: LocalSpark, tmp_path: Path) -> Iterator[Lake]:
    opened = Lake(spark, tmp_path)
    yield opened
    opened.catalog.close()


@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_every_retained_snapshot_and_finds_nothing_left_to_clean(
    lake: Lake, version: int, tmp_path: Path
) -> None:
    """Merge-on-read deletes throughout: in version 3 those are deletion vectors, several in one file."""
    table, folder = lake.table, tmp_path / "warehouse"
    lake.sql(
        f"CREATE TABLE {table} (id bigint, v string) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES "
        f"('format-version'='{version}', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
    )
    for start in range(0, 40, 10):
        values = ", ".join(f"({number}, 'v{number}')" for number in range(start, start + 10))
        lake.sql(f"INSERT INTO {table} VALUES {values}")
    lake.sql(f"ALTER TABLE {table} CREATE TAG audit")
    lake.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    lake.sql(f"ALTER TABLE {table} CREATE BRANCH side")
    lake.sql(f"INSERT INTO {table}.branch_side VALUES (100, 'side')")
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 21)")
    lake.sql(f"CALL {lake.name}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    lake.sql(f"DELETE FROM {table} WHERE id = 2")
    lake.sql(f"DELETE FROM {table} WHERE id = 33")
    before = {snapshot: lake.rows(snapshot) for snapshot in lake.snapshots()}
    refs = {ref: lake.rows(ref) for ref in ("audit", "side")}
    now = later(lake.catalog.load_table(("db", "t")), hours=1)

    result = expire_snapshots(lake.catalog, ("db", "t"), ExpiryOptions(max_snapshot_age_ms=0), now=now)
    cleaned = remove_orphans(
        lake.catalog,
        ("db", "t"),
        OrphanOptions(action=OrphanAction.DELETE, min_age_ms=0, allow_short_min_age=True),
        now=now,
    )

    lake.refresh()
    remaining = lake.snapshots()
    assert result.snapshots_expired == len(before) - 3
    assert result.files_deleted > 0
    assert cleaned.orphans == 0
    assert {snapshot: lake.rows(snapshot) for snapshot in remaining} == {each: before[each] for each in remaining}
    assert {ref: lake.rows(ref) for ref in refs} == refs
    ten_days_ago = now.timestamp() - 10 * 24 * 3600
    for path in folder.rglob("*"):
        os.utime(path, (ten_days_ago, ten_days_ago))
    files = {path for path in folder.rglob("*") if path.is_file()}
    find_orphans = f"CALL {lake.name}.system.remove_orphan_files(table => 'db.t', dry_run => true)"
    assert lake.sql(find_orphans) == []
    (folder / "db" / "t" / "data" / "lost.parquet").write_bytes(b"x")
    os.utime(folder / "db" / "t" / "data" / "lost.parquet", (ten_days_ago, ten_days_ago))
    assert len(lake.sql(find_orphans)) == 1  # so it would have found one
    (folder / "db" / "t" / "data" / "lost.parquet").unlink()
    expire = "expire_snapshots(table => 'db.t', older_than => TIMESTAMP '{}', retain_last => 1)"
    (deleted,) = lake.sql(f"CALL {lake.name}.system.{expire.format(f'{now:%Y-%m-%d %H:%M:%S}')}")
    assert set(deleted) == {0}
    assert lake.snapshots() == remaining
    assert all(path.exists() for path in files)
    assert {snapshot: lake.rows(snapshot) for snapshot in remaining} == {each: before[each] for each in remaining}
    lake.sql(f"INSERT INTO {table} VALUES (500, 'after')")
    assert (500, "after") in lake.sql(f"SELECT id, v FROM {table}")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_finds_its_entries_unchanged_in_manifests_that_we_rewrote(
    lake: Lake, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of them is decoded: what Java wrote is copied as it is."""

    def refuse(*_: object) -> None:
        raise AssertionError("an entry was decoded")

    monkeypatch.setattr(carrying, "read_entries", refuse)
    table = lake.table
    mode = "copy-on-write" if version == 1 else "merge-on-read"
    lake.sql(
        f"CREATE TABLE {table} (id bigint, v string, d double) USING iceberg PARTITIONED BY (v, truncate(1000, id)) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}', "
        "'commit.manifest-merge.enabled'='false')"
    )
    for start in range(0, 40, 10):
        values = ", ".join(f"({number}, 'v{number % 3}', {number} / 7)" for number in range(start, start + 10))
        lake.sql(f"INSERT INTO {table} VALUES {values}, ({start + 100}, NULL, double('NaN'))")
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 21)")
    lake.sql(f"DELETE FROM {table} WHERE id = 2")

    def entries() -> list[str]:
        columns = "snapshot_id, sequence_number, file_sequence_number, data_file"
        return sorted(map(str, lake.sql(f"SELECT {columns} FROM {table}.entries WHERE status < 2")))

    def manifests() -> int:
        return len(lake.sql(f"SELECT path FROM {table}.manifests"))

    def contents() -> list[str]:
        columns = "*, _row_id, _last_updated_sequence_number" if version == 3 else "*"
        return sorted(map(str, lake.sql(f"SELECT {columns} FROM {table}")))

    before, rows, many = entries(), contents(), manifests()

    result = rewrite_manifests(lake.catalog, ("db", "t"), ManifestOptions(), run_id="run")

    lake.refresh()
    assert (result.manifests_replaced, result.entries) == (many, len(before))
    assert manifests() == (1 if version == 1 else 2) < many
    assert contents() == rows
    assert [_without_row_id(entry) for entry in entries()] == [_without_row_id(entry) for entry in before]
    assert len(lake.sql(f"SELECT id FROM {table} WHERE v = 'v1' AND id = 4")) == 1  # by the list's partition bounds
    assert len(lake.sql(f"SELECT id FROM {table} WHERE v IS NULL")) == 4
    lake.sql(f"DELETE FROM {table} WHERE id = 7")
    lake.sql(f"CALL {lake.name}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    lake.sql(f"CALL {lake.name}.system.rewrite_manifests(table => 'db.t')")
    assert len(contents()) == len(rows) - 1


def _without_row_id(entry: str) -> str:
    """Java shows the first row id of an entry as it was written, and not what it inherits."""
    return re.sub(r"first_row_id=\w+", "first_row_id", entry)


@pytest.mark.parametrize(("version", "mode"), [(2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")])
def test_java_reads_and_goes_on_with_what_row_retention_left(lake: Lake, version: int, mode: str) -> None:
    """Position deletes, deletion vectors and rewritten files of ours, on top of Java's own deletes."""
    table = lake.table
    lake.sql(
        f"CREATE TABLE {table} (id bigint, v string, at timestamp) USING iceberg PARTITIONED BY (bucket(2, id)) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}')"
    )
    lake.sql(
        f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, concat('v', id), "
        "current_timestamp() - make_dt_interval(cast(id as int)) FROM range(60)"
    )
    lake.sql(f"DELETE FROM {table} WHERE id IN (3, 40)")
    row_ids = lake.row_ids() if version == 3 else {}
    loaded = lake.catalog.load_table(("db", "t"))
    options = RowRetentionOptions(column="at", max_age_ms=30 * 24 * 3600 * 1000)

    result = remove_old_rows(lake.catalog, ("db", "t"), options, run_id="run", now=later(loaded, minutes=1))

    lake.refresh()
    young = [number for number in range(30) if number != 3]
    assert result.rows_removed == 29
    assert [row[0] for row in lake.sql(f"SELECT id FROM {table} ORDER BY id")] == young
    if version == 3:
        assert lake.row_ids() == {number: row_ids[number] for number in young}
    lake.sql(f"DELETE FROM {table} WHERE id = 7")
    assert [row[0] for row in lake.sql(f"SELECT id FROM {table} ORDER BY id")] == [n for n in young if n != 7]
    lake.sql(f"CALL {lake.name}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    assert [row[0] for row in lake.sql(f"SELECT id FROM {table} ORDER BY id")] == [n for n in young if n != 7]
