"""What a snapshot came from, by the parents that the snapshots name."""

import pytest
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.ancestry import ancestry


@pytest.mark.parametrize(
    ("parents", "head", "expected"),
    [
        ({1: None, 2: 1, 3: 2, 9: 1}, 3, [3, 2, 1]),
        ({3: 2}, 3, [3]),  # what came before has expired
        ({1: None}, 7, []),
        ({1: None}, None, []),
        ({1: 3, 2: 1, 3: 2}, 3, [3, 2, 1]),  # by a broken writer: it must not keep maintenance from ending
    ],
)
def test_the_newest_comes_first_as_far_as_the_history_goes(
    parents: dict[int, int | None], head: int | None, expected: list[int]
) -> None:
    by_id = {
        number: Snapshot(snapshot_id=number, parent_snapshot_id=parent, timestamp_ms=0, manifest_list="list.avro")
        for number, parent in parents.items()
    }
    assert [snapshot.snapshot_id for snapshot in ancestry(head, by_id)] == expected
