"""Writers, compaction, expiry and orphan removal, all at once on one table, with clocks that disagree by minutes."""

import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.errors import TransientError
from tableformat.locations import Place
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, apply_holds
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.retention import RowRetentionOptions, remove_old_rows
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    LocalCatalog,
    append,
    create,
    head,
    later,
    on_disk,
    reachable,
    read,
    read_all,
    rows,
    tag,
)

ROWS = 3 * 15  # three an append; the slower the machine, the longer it takes
MAX_SECONDS = 240
ORPHANS = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=15 * 60 * 1000, allow_short_min_age=True)


class Crowd:
    """Each member does its work again and again, through a catalog of its own, until enough was done."""

    def __init__(self, folder: Path, enough: Callable[[], bool]) -> None:
        self._folder = folder
        self._enough = enough
        self._deadline = time.monotonic() + MAX_SECONDS
        self._threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def add(self, work: Callable[[LocalCatalog], object]) -> None:
        self._threads.append(threading.Thread(target=self._run, args=(work,)))

    def _run(self, work: Callable[[LocalCatalog], object]) -> None:
        catalog = LocalCatalog(self._folder)
        try:
            while not self._enough() and time.monotonic() < self._deadline:
                # Somebody else was first, or, for a writer that lost many races, the snapshot that it began from has
                # expired: nothing was committed, and trying again is the remedy.
                with suppress(CommitFailedException, ValidationException, TransientError):
                    work(catalog)
        except BaseException as error:
            self.failures.append(error)
        finally:
            catalog.close()

    def work(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()


def skewed(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


def run_compaction(catalog: LocalCatalog) -> None:
    options = CompactionOptions(target_file_bytes=1024 * 1024, min_input_files=3)
    compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id=uuid.uuid4().hex, now=skewed(0))


def run_manifest_rewrite(catalog: LocalCatalog) -> None:
    rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(min_manifests=4), run_id=uuid.uuid4().hex)


def test_no_row_is_lost_and_what_is_held_reads_as_before(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog, {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "5"})
    held = append(table, 3)[0]
    tag(table, "audit", held)
    hold = Hold(name="q3", as_of=later(table), until=skewed(60 * 24))
    held_rows, written = read(table, held), list(read(table, head(table).snapshot_id))
    hour_ago = time.time() - 3600
    orphans = [Path(Place.of(table.location()).path) / "data" / f"lost-{number}.parquet" for number in range(3)]
    for orphan in orphans:
        orphan.write_bytes(b"x")
        os.utime(orphan, (hour_ago, hour_ago))

    def write(own: LocalCatalog) -> None:
        data = rows()
        own.load_table(IDENTIFIER).append(data)
        written.extend(data["id"].to_pylist())

    expired: list[int] = []

    def expire(own: LocalCatalog, age_ms: int, now: datetime) -> None:
        # Some stay: a writer of any engine needs the snapshot that it began from.
        options = ExpiryOptions(max_snapshot_age_ms=age_ms, min_snapshots_to_keep=8)
        expired.extend([1] * expire_snapshots(own, IDENTIFIER, options, now=now).snapshots_expired)

    crowd = Crowd(tmp_path, lambda: len(written) >= ROWS and len(expired) >= 2)
    crowd.add(write)
    crowd.add(write)
    crowd.add(run_compaction)
    crowd.add(run_manifest_rewrite)
    crowd.add(lambda own: apply_holds(own, IDENTIFIER, [hold], now=skewed(3)))
    crowd.add(lambda own: expire(own, 500, skewed(-4)))
    crowd.add(lambda own: expire(own, 0, skewed(5)))
    crowd.add(lambda own: remove_orphans(own, IDENTIFIER, ORPHANS, now=skewed(5)))
    crowd.work()

    assert [repr(failure) for failure in crowd.failures] == []
    table.refresh()
    assert read(table, head(table).snapshot_id) == sorted(written)
    assert len(written) >= ROWS
    assert expired
    assert read_all(table)[held] == held_rows
    assert "tablewright-hold-q3" in table.metadata.refs
    assert reachable(table) <= on_disk(table)
    remove_orphans(catalog, IDENTIFIER, ORPHANS, now=skewed(5))  # if the crowd was too fast for the first to end
    assert not any(orphan.exists() for orphan in orphans)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_row_retention_takes_the_old_rows_and_no_others_under_writers_and_compaction(
    catalog: LocalCatalog, tmp_path: Path, mode: str
) -> None:
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
    properties = {"write.delete.mode": mode, "commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "5"}
    table = catalog.create_table(IDENTIFIER, schema, properties=properties)
    written: list[int] = []
    numbers = itertools.count()

    def write(own: LocalCatalog) -> None:
        """A row that is young, and beside it one that is too old."""
        number = next(numbers)
        at = pa.array([skewed(0), skewed(-60 * 24 * 90)], pa.timestamp("us", "UTC"))
        ids = pa.array([number, -number - 1], pa.int64())
        own.load_table(IDENTIFIER).append(pa.table({"id": ids, "at": at}))
        written.append(number)

    def retain(own: LocalCatalog, minutes: float) -> None:
        options = RowRetentionOptions(column="at", max_age_ms=30 * 24 * 3600 * 1000)
        remove_old_rows(own, IDENTIFIER, options, run_id=uuid.uuid4().hex, now=skewed(minutes))

    crowd = Crowd(tmp_path, lambda: len(written) >= 12)
    crowd.add(write)
    crowd.add(write)
    crowd.add(lambda own: retain(own, 3))
    crowd.add(lambda own: retain(own, -3))
    crowd.add(run_compaction)
    crowd.work()
    retain(catalog, 0)

    assert [repr(failure) for failure in crowd.failures] == []
    assert read(table.refresh(), head(table).snapshot_id) == sorted(written)
