"""What a snapshot came from."""

from collections.abc import Iterator, Mapping

from pyiceberg.table.snapshots import Snapshot


def ancestry(snapshot_id: int | None, by_id: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """The snapshot and what it came from, newest first, as far as the history goes; even one that leads in a circle."""
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in seen and (snapshot := by_id.get(snapshot_id)) is not None:
        yield snapshot
        seen.add(snapshot_id)
        snapshot_id = snapshot.parent_snapshot_id
