"""Many processes that commit to one table, and what must be true of the table afterwards."""

import itertools
import logging
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.types import LongType, NestedField

from tableformat.catalogs import CatalogConfig, CatalogUnavailableError, open_catalog

IDENTIFIER = ("db", "crowd")
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
PROPERTIES = {
    "commit.retry.num-retries": "30",
    "commit.retry.min-wait-ms": "100",
    "commit.retry.max-wait-ms": "2000",
    "commit.status-check.min-wait-ms": "10",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}
KEPT_SNAPSHOTS = 40


@dataclass(frozen=True)
class Report:
    """What one process was told about its commits; each commit adds one row, whose id is its own."""

    applied: dict[int, int]  # the row's id -> the snapshot's
    failed: tuple[int, ...]
    unknown: tuple[int, ...]


def commit_in_a_crowd(config: CatalogConfig, *, processes: int, commits: int) -> list[Report]:
    """Creates the table and lets each process commit until so many were reported as applied."""
    with open_catalog(config) as catalog:
        catalog.create_namespace("db")
        catalog.create_table(IDENTIFIER, SCHEMA, properties=PROPERTIES)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return pool.starmap(_commit, [(config, number, commits) for number in range(processes)], chunksize=1)


def _commit(config: CatalogConfig, process: int, commits: int) -> Report:
    applied: dict[int, int] = {}
    failed: list[int] = []
    unknown: list[int] = []
    number = process * 1_000_000
    logging.getLogger("pyiceberg.table").setLevel(logging.ERROR)  # a line for each of thousands of retries
    with open_catalog(config) as catalog:
        while len(applied) < commits:
            number += 1
            try:
                table = catalog.load_table(IDENTIFIER)
                table.append(pa.table({"id": pa.array([number], pa.int64())}))
                applied[number] = int(table.metadata.current_snapshot_id or 0)
                if process == 0:
                    _expire(table)
            except (CommitFailedException, ValidationException):
                failed.append(number)  # the latter when the snapshot that an append began with has expired meanwhile
            except CommitStateUnknownException:
                unknown.append(number)
            except CatalogUnavailableError:
                failed.append(number)  # before the commit was sent: that state is never called unavailable
    return Report(applied, tuple(failed), tuple(unknown))


def _expire(table: Table) -> None:
    """PyIceberg copies all snapshots many times a commit; a crowd's table would become too slow to test with."""
    oldest = [entry.snapshot_id for entry in table.metadata.snapshot_log][:-KEPT_SNAPSHOTS]
    present = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    if expired := [snapshot_id for snapshot_id in oldest if snapshot_id in present]:
        try:
            table.maintenance.expire_snapshots().by_ids(expired).commit()
        except (CommitFailedException, CommitStateUnknownException, CatalogUnavailableError):
            return  # the next one will


def check(config: CatalogConfig, reports: list[Report]) -> None:
    """Every commit that was reported as applied is there exactly once, and none that was reported as failed."""
    applied = {number: snapshot for report in reports for number, snapshot in report.applied.items()}
    unknown = {number for report in reports for number in report.unknown}
    with open_catalog(config) as catalog:
        table = catalog.load_table(IDENTIFIER)
        found = Counter(table.scan().to_arrow()["id"].to_pylist())
    assert set(found.values()) <= {1}, "a commit was applied twice"
    assert applied.keys() <= found.keys(), "a commit that was reported as applied is lost"
    assert found.keys() <= applied.keys() | unknown, "a commit that was reported as failed is there"

    history = list(_history(table))
    added = Counter(snapshot for before, after in itertools.pairwise(history) for snapshot in _added(before, after))
    assert set(added.values()) <= {1}
    assert set(applied.values()) <= added.keys()
    assert len(added) == len(found)
    if not unknown:
        written = {path.name for path in _folder(table).glob("*.metadata.json")}
        assert len(written) == len(history), "a commit that failed left its metadata behind"


def _history(table: Table) -> Iterator[TableMetadata]:
    """Every metadata that the pointer has led to, from the first; each file names the one before it."""
    chain = [table.metadata]
    while log := chain[-1].metadata_log:
        path = Path(log[-1].metadata_file.removeprefix("file://"))
        chain.append(TableMetadataUtil.parse_raw(path.read_text()))
    return reversed(chain)


def _added(before: TableMetadata, after: TableMetadata) -> set[int]:
    return {s.snapshot_id for s in after.snapshots} - {s.snapshot_id for s in before.snapshots}


def _folder(table: Table) -> Path:
    return Path(table.location().removeprefix("file://")) / "metadata"
