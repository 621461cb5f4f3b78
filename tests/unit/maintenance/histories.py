"""Metadata of tables with a made-up history: no file behind it exists."""

from datetime import UTC, datetime

from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

NOW_MS = 1_000_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def snapshot(number: int, parent: int | None, timestamp_ms: int) -> Snapshot:
    return Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=number,
        timestamp_ms=timestamp_ms,
        manifest_list=f"s3://b/t/metadata/snap-{number}.avro",
    )


def branch(number: int, *, count: int | None = None, age: int | None = None, ref_age: int | None = None) -> SnapshotRef:
    return SnapshotRef(
        snapshot_id=number,
        snapshot_ref_type=SnapshotRefType.BRANCH,
        min_snapshots_to_keep=count,
        max_snapshot_age_ms=age,
        max_ref_age_ms=ref_age,
    )


def tag(number: int, *, ref_age: int | None = None) -> SnapshotRef:
    return SnapshotRef(
        snapshot_id=number,
        snapshot_ref_type=SnapshotRefType.TAG,
        min_snapshots_to_keep=None,
        max_snapshot_age_ms=None,
        max_ref_age_ms=ref_age,
    )


def metadata(
    snapshots: list[Snapshot], refs: dict[str, SnapshotRef], properties: dict[str, str] | None = None
) -> TableMetadata:
    return TableMetadataV2(
        location="s3://b/t",
        last_column_id=1,
        schemas=[Schema(NestedField(1, "id", LongType(), required=False))],
        partition_specs=[UNPARTITIONED_PARTITION_SPEC],
        sort_orders=[UNSORTED_SORT_ORDER],
        properties=properties or {},
        snapshots=snapshots,
        refs=refs,
        current_snapshot_id=refs["main"].snapshot_id if "main" in refs else None,
        last_sequence_number=len(snapshots),
        last_updated_ms=max((each.timestamp_ms for each in snapshots), default=0),
    )


_AGES = st.none() | st.integers(1, 100)


@st.composite
def histories(draw: st.DrawFn) -> TableMetadata:
    """Trees of up to twelve snapshots whose clocks do not always agree, with refs anywhere."""
    count = draw(st.integers(1, 12))
    snapshots = [
        snapshot(
            number,
            draw(st.none() | st.integers(max(1, number - 3), number - 1)) if number > 1 else None,
            NOW_MS - draw(st.integers(0, 100)),
        )
        for number in range(1, count + 1)
    ]
    refs: dict[str, SnapshotRef] = {}
    ids = st.integers(1, count)
    if draw(st.booleans()):
        refs["main"] = branch(draw(ids), count=draw(st.none() | st.integers(1, 4)), age=draw(_AGES))
    for name in draw(st.lists(st.sampled_from("abc"), unique=True)):
        if draw(st.booleans()):
            refs[name] = branch(
                draw(ids), count=draw(st.none() | st.integers(1, 4)), age=draw(_AGES), ref_age=draw(_AGES)
            )
        else:
            refs[name] = tag(draw(ids), ref_age=draw(_AGES))
    properties = {
        f"history.expire.{key}": str(draw(st.integers(1, 100)))
        for key in draw(
            st.lists(st.sampled_from(["max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms"]), unique=True)
        )
    }
    return metadata(snapshots, refs, properties)
