"""Random histories: whatever was done to a table, what stays reads as it did, and storage holds nothing else."""

import tempfile
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, apply_holds
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.rollback import CherryPickRefused, cherry_pick
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    LocalCatalog,
    append,
    create,
    later,
    on_disk,
    reachable,
    read,
    read_all,
    rows,
    set_ref,
    stage,
    tag,
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "merge", "delete", "overwrite", "branch", "tag", "untag", "stage", "pick", "rollback"]
            + ["expire", "expire", "orphans", "compact", "manifests", "hold"]
        ),
        st.integers(0, 30),
    ),
    min_size=4,
    max_size=12,
)


class History:
    def __init__(self, catalog: LocalCatalog) -> None:
        self.table: Table = create(catalog, {"commit.manifest.min-count-to-merge": "2"})
        self.rows: dict[int, list[int]] = {}

    def snapshot(self, number: int) -> int | None:
        snapshots = self.table.metadata.snapshots
        return snapshots[number % len(snapshots)].snapshot_id if snapshots else None

    def step(self, what: str, number: int) -> None:  # noqa: C901  # one branch a kind of step
        table, chosen = self.table, self.snapshot(number)
        if what == "append" or chosen is None:
            append(table)
        elif what == "merge":
            with table.transaction() as transaction:
                transaction.set_properties({"commit.manifest-merge.enabled": str(number % 2 == 0).lower()})
        elif what == "delete":
            self.delete(number)
        elif what == "overwrite":
            table.overwrite(rows())
        elif what == "branch":
            set_ref(table, f"branch-{number % 3}", chosen)
            append(table, branch=f"branch-{number % 3}")
        elif what == "tag" and f"tag-{number}" not in table.metadata.refs:
            tag(table, f"tag-{number}", chosen)
        elif what == "untag" and (tags := [name for name in table.metadata.refs if name.startswith("tag")]):
            table.manage_snapshots().remove_tag(tags[number % len(tags)]).commit()
        elif what == "stage":
            stage(table)
        elif what == "pick":
            self.pick(chosen)
        elif what == "rollback":
            set_ref(table, "main", chosen)
        elif what == "expire":
            self.expire(number)
        elif what == "orphans":
            self.remove_orphans()
        elif what == "compact":
            options = CompactionOptions(target_file_bytes=1024 * 1024, min_input_files=2)
            compact(
                table.catalog,
                IDENTIFIER,
                options,
                executor=InProcessExecutor(),
                run_id=uuid.uuid4().hex,
                now=later(table),
            )
        elif what == "manifests":
            rewrite_manifests(table.catalog, IDENTIFIER, ManifestOptions(), run_id=uuid.uuid4().hex)
        elif what == "hold":
            self.hold(chosen)
        self.check()

    def delete(self, number: int) -> None:
        """Some of the rows that main has: whole files at times, parts of files at others."""
        head = self.table.current_snapshot()
        ids = read(self.table, head.snapshot_id) if head is not None else []
        if ids:
            self.table.delete(f"id <= {ids[number % len(ids)]}")

    def hold(self, chosen: int) -> None:
        snapshot = self.table.metadata.snapshot_by_id(chosen)
        assert snapshot is not None
        as_of = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        hold = Hold(name=str(chosen), as_of=as_of, until=later(self.table, days=1))
        apply_holds(self.table.catalog, IDENTIFIER, [hold], now=later(self.table))

    def pick(self, chosen: int) -> None:
        with suppress(CherryPickRefused):
            cherry_pick(self.table.catalog, IDENTIFIER, chosen)

    def expire(self, number: int) -> None:
        """Everything that is older than one of the snapshots, but some."""
        table = self.table
        cut = sorted(snapshot.timestamp_ms for snapshot in table.metadata.snapshots)[
            number % len(table.metadata.snapshots)
        ]
        now = later(table, seconds=1)
        age = int(now.timestamp() * 1000) - cut
        options = ExpiryOptions(max_snapshot_age_ms=age, min_snapshots_to_keep=1 + number % 2)
        expire_snapshots(table.catalog, IDENTIFIER, options, now=now)

    def remove_orphans(self) -> None:
        table = self.table
        options = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=0, allow_short_min_age=True)
        remove_orphans(table.catalog, IDENTIFIER, options, now=later(table) + timedelta(seconds=5))

    def check(self) -> None:
        self.table.refresh()
        now = read_all(self.table)
        for snapshot_id, data in now.items():
            assert self.rows.setdefault(snapshot_id, data) == data
        assert reachable(self.table) <= on_disk(self.table)
        refs = {ref.snapshot_id for ref in self.table.metadata.refs.values()}
        assert refs <= now.keys()


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")  # an emptied table, overwritten
@given(STEPS)
# No shrinking: an example takes a second, and a history of twelve steps can be read as it is.
@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_every_snapshot_that_stays_reads_as_before_and_nothing_else_is_left(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = LocalCatalog(Path(folder))
        history = History(catalog)
        for what, number in steps:
            history.step(what, number)
        if history.table.metadata.snapshots:
            history.expire(0)
        # Files of dropped metadata versions and of staged writes apart, expiry alone leaves nothing unreachable.
        history.check()
        assert {path for path in on_disk(history.table) if path.endswith(".parquet")} <= reachable(history.table)
        history.remove_orphans()
        history.check()
        assert on_disk(history.table, records=True) == reachable(history.table)
        catalog.close()
