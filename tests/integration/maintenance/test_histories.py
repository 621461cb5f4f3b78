"""Random histories: whatever was done to a table, what stays reads as it did, and storage holds nothing else.

What is to stay is said by the plain model of retention, and by what was there before each step: not by what is left.
"""

import tempfile
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.holds import Hold, apply_holds, release_hold
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.maintenance.rollback import (
    CherryPickRefused,
    RollbackOptions,
    RollbackRefused,
    cherry_pick,
    roll_back,
)
from tests.integration.compaction.deletes import delete_positions
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
from tests.unit.maintenance.histories import model

STEP = st.tuples(
    st.sampled_from(
        ["append", "append", "merge", "delete", "mark", "overwrite", "branch", "tag", "untag", "stage", "pick"]
        + ["rollback", "expire", "expire", "orphans", "compact", "manifests", "hold", "release"]
    ),
    st.integers(0, 30),
)
STEPS = st.lists(STEP, min_size=4, max_size=12)


class History:
    def __init__(self, catalog: LocalCatalog) -> None:
        self.table: Table = create(catalog, {"commit.manifest.min-count-to-merge": "2"})
        self.rows: dict[int, list[int]] = {}

    def snapshot(self, number: int) -> int | None:
        snapshots = self.table.metadata.snapshots
        return snapshots[number % len(snapshots)].snapshot_id if snapshots else None

    def step(self, what: str, number: int) -> None:
        before = self.table.metadata
        touched = self.do(what, number)
        self.check()
        after = self.table.metadata
        if what != "expire":  # which has its own say
            assert ids(before) <= ids(after)
            untouched = before.refs.keys() - touched
            assert {name: after.refs.get(name) for name in untouched} == {name: before.refs[name] for name in untouched}

    def do(self, what: str, number: int) -> set[str]:  # noqa: C901  # one branch a kind of step
        """The refs that the step may move or remove."""
        table, chosen = self.table, self.snapshot(number)
        if what == "append" or chosen is None:
            self.append()
        elif what == "merge":
            with table.transaction() as transaction:
                transaction.set_properties({"commit.manifest-merge.enabled": str(number % 2 == 0).lower()})
        elif what == "delete":
            self.delete(number)
        elif what == "overwrite":
            self.overwrite()
        elif what == "branch":
            set_ref(table, f"branch-{number % 3}", chosen)
            self.append(f"branch-{number % 3}")
            return {f"branch-{number % 3}"}
        elif what == "tag" and f"tag-{number}" not in table.metadata.refs:
            tag(table, f"tag-{number}", chosen)
        elif what == "untag" and (tags := [name for name in table.metadata.refs if name.startswith("tag")]):
            table.manage_snapshots().remove_tag(tags[number % len(tags)]).commit()
            return {tags[number % len(tags)]}
        elif what == "stage":
            self.stage()
        elif what == "pick":
            self.pick(chosen)
        elif what == "rollback":
            self.roll_back(chosen)
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
            return {f"tablewright-hold-{chosen}"}  # whose end may move
        elif what == "release":
            release_hold(table.catalog, IDENTIFIER, str(chosen), now=later(table))
            return {f"tablewright-hold-{chosen}"}
        elif what == "mark":
            self.mark(number)
        return {"main"}

    def append(self, branch: str = "main") -> None:
        append(self.table, branch=branch)

    def stage(self) -> None:
        stage(self.table)

    def overwrite(self) -> None:
        self.table.overwrite(rows())

    def delete(self, number: int) -> None:
        """Some of the rows that main has: whole files at times, parts of files at others."""
        head = self.table.current_snapshot()
        ids = read(self.table, head.snapshot_id) if head is not None else []
        if ids:
            self.table.delete(f"id <= {ids[number % len(ids)]}")

    def mark(self, number: int) -> None:
        """A row of main as deleted, where it is."""
        files = [task.file.file_path for task in self.table.scan().plan_files()]
        if files:
            delete_positions(self.table, {files[number % len(files)]: [0]})

    def roll_back(self, chosen: int) -> None:
        target = RollbackOptions(snapshot_id=chosen, allow_losing_commits=True)
        with suppress(RollbackRefused):  # what main never was
            roll_back(self.table.catalog, IDENTIFIER, target, run_id=uuid.uuid4().hex, now=later(self.table))

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
        stays, refs = model(table.metadata, options, int(now.timestamp() * 1000))
        expire_snapshots(table.catalog, IDENTIFIER, options, now=now)
        table.refresh()
        assert (ids(table.metadata), set(table.metadata.refs)) == (stays, refs)

    def remove_orphans(self) -> None:
        table = self.table
        options = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=0, allow_short_min_age=True)
        remove_orphans(table.catalog, IDENTIFIER, options, now=later(table) + timedelta(seconds=5))

    def check(self) -> None:
        self.table.refresh()
        now = read_all(self.table)
        assert now.keys() == ids(self.table.metadata)
        for snapshot_id, data in now.items():
            assert self.rows.setdefault(snapshot_id, data) == data
        assert reachable(self.table) <= on_disk(self.table)
        refs = {ref.snapshot_id for ref in self.table.metadata.refs.values()}
        assert refs <= now.keys()

    def end(self) -> None:
        """Files of dropped metadata versions and of staged writes apart, expiry alone leaves nothing unreachable."""
        if self.table.metadata.snapshots:
            self.expire(0)
        self.check()
        files = {path for path in on_disk(self.table) if path.endswith((".parquet", ".puffin"))}
        assert files <= reachable(self.table)
        self.remove_orphans()
        self.check()
        left = on_disk(self.table, records=True) - reachable(self.table)
        assert all("/_tablewright/rollback/" in path for path in left)  # of runs that may be started again


def ids(metadata: TableMetadata) -> set[int]:
    return {snapshot.snapshot_id for snapshot in metadata.snapshots}


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")  # an emptied table, overwritten
@example([("append", 0), ("append", 0), ("tag", 0), ("hold", 1), ("append", 0), ("append", 0), ("expire", 3)])
@given(STEPS)
# No shrinking: an example takes a second, and a history of twelve steps can be read as it is.
@settings(max_examples=12, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_every_snapshot_that_stays_reads_as_before_and_nothing_else_is_left(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = LocalCatalog(Path(folder))
        history = History(catalog)
        for what, number in steps:
            history.step(what, number)
        history.end()
        catalog.close()
