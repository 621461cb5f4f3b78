"""Many processes that commit to one table, and what must be true of the table afterwards."""

import multiprocessing
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tableformat.catalogs import CatalogConfig, CatalogUnavailableError, open_catalog

IDENTIFIER = ("db", "crowd")
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
PROPERTIES = {
    "commit.retry.num-retries": "30",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "1000",
    "commit.status-check.min-wait-ms": "10",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}


@dataclass(frozen=True)
class Report:
    """What one process was told about its commits; each commit adds one row, whose id is its own."""

    applied: tuple[int, ...]
    failed: tuple[int, ...]
    unknown: tuple[int, ...]


def commit_in_a_crowd(config: CatalogConfig, *, processes: int, commits: int) -> list[Report]:
    """Creates the table and lets each process commit until so many were reported as applied."""
    with open_catalog(config) as catalog:
        catalog.create_namespace("db")
        catalog.create_table(
            IDENTIFIER, Schema(NestedField(1, "id", LongType(), required=False)), properties=PROPERTIES
        )
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return pool.starmap(_commit, [(config, number, commits) for number in range(processes)], chunksize=1)


def _commit(config: CatalogConfig, process: int, commits: int) -> Report:
    applied: list[int] = []
    failed: list[int] = []
    unknown: list[int] = []
    number = process * 1_000_000
    with open_catalog(config) as catalog:
        while len(applied) < commits:
            number += 1
            try:
                catalog.load_table(IDENTIFIER).append(pa.table({"id": pa.array([number], pa.int64())}))
                applied.append(number)
            except CommitFailedException:
                failed.append(number)
            except CommitStateUnknownException:
                unknown.append(number)
            except CatalogUnavailableError:
                failed.append(number)  # before the commit was sent: that state is never called unavailable
    return Report(tuple(applied), tuple(failed), tuple(unknown))


def check(config: CatalogConfig, reports: list[Report]) -> None:
    """Every commit that was reported as applied is there exactly once, and no commit that was reported as failed."""
    applied = {number for report in reports for number in report.applied}
    unknown = {number for report in reports for number in report.unknown}
    failed = {number for report in reports for number in report.failed}
    with open_catalog(config) as catalog:
        table = catalog.load_table(IDENTIFIER)
        found = Counter(table.scan().to_arrow()["id"].to_pylist())
        chain, snapshot = [], table.current_snapshot()
        while snapshot is not None:
            chain.append(snapshot.snapshot_id)
            snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    assert set(found.values()) <= {1}, "a commit was applied twice"
    assert applied <= set(found), "a commit that was reported as applied is lost"
    assert set(found) <= applied | unknown, "a commit that was reported as failed is there"
    assert not failed & set(found)
    assert sorted(chain) == sorted(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    assert len(chain) == len(found)
