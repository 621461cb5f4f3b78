"""A table whose last writer's clock was ahead: no commit of ours dates its history back, which Java refuses to load."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest
from pyiceberg.table import Table

from tableformat.commits.change import swap
from tableformat.commits.delta import Delta, snapshot_with_delta
from tableformat.commits.head import on_main
from tableformat.commits.memory import CommitMemory
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tests.integration.maintenance.tables import IDENTIFIER, append, head, later, set_ref

AHEAD_MS = int(timedelta(minutes=5) / timedelta(milliseconds=1))


def written_by_a_clock_ahead(table: Table) -> None:
    snapshot = snapshot_with_delta(table, head(table), Delta(), CommitMemory(table.metadata.new_snapshot_id()))
    ahead = snapshot.model_copy(update={"timestamp_ms": snapshot.timestamp_ms + AHEAD_MS})
    swap(table, on_main(table, ahead))


def rewrite(table: Table) -> None:
    rewrite_manifests(table.catalog, IDENTIFIER, ManifestOptions(), run_id="run", sleep=lambda _: None)


def compacted(table: Table) -> None:
    now = later(table, minutes=1)
    compact(table.catalog, IDENTIFIER, CompactionOptions(), executor=InProcessExecutor(), run_id="run", now=now)


def rolled_back(table: Table) -> None:
    set_ref(table, "main", table.metadata.snapshots[0].snapshot_id)


def changed(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(owner="somebody")


@pytest.mark.parametrize("commit", [rewrite, compacted, rolled_back, changed, append])
def test_no_commit_dates_the_history_back(table: Table, commit: Callable[[Table], object]) -> None:
    append(table, 5)
    written_by_a_clock_ahead(table)
    location = table.metadata_location

    commit(table)

    metadata = table.refresh().metadata
    assert table.metadata_location != location
    for log in (metadata.snapshot_log, metadata.metadata_log):
        times = [*(entry.timestamp_ms for entry in log), metadata.last_updated_ms]
        assert all(earlier <= later for earlier, later in pairwise(times))
