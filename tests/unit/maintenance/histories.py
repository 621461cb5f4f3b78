"""Metadata of tables with a made-up history, no file behind which exists, and what an expiry is to leave of any."""

from datetime import UTC, datetime

from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from tableformat.maintenance.expiry import ExpiryOptions

DAY = 24 * 3600 * 1000
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


def model(history: TableMetadata, options: ExpiryOptions, now_ms: int) -> tuple[set[int], set[str]]:
    """The snapshots and refs that stay, said slowly."""
    parents = {each.snapshot_id: each.parent_snapshot_id for each in history.snapshots}
    ages = {each.snapshot_id: now_ms - each.timestamp_ms for each in history.snapshots}

    def setting(name: str, given: int | None, default: int) -> int:
        return given if given is not None else int(history.properties.get(f"history.expire.{name}", default))

    max_age = setting("max-snapshot-age-ms", options.max_snapshot_age_ms, 5 * DAY)
    count = setting("min-snapshots-to-keep", options.min_snapshots_to_keep, 1)
    max_ref_age = setting("max-ref-age-ms", options.max_ref_age_ms, 2**63)
    refs = {
        name: ref
        for name, ref in history.refs.items()
        if name == "main" or ages[ref.snapshot_id] <= (ref.max_ref_age_ms or max_ref_age)
    }
    stays, led_to = set(), set()
    for ref in refs.values():
        current: int | None = ref.snapshot_id
        walking, seen = True, 0
        while current in ages:  # parents may have expired
            led_to.add(current)
            young = ages[current] <= (ref.max_snapshot_age_ms or max_age)
            if str(ref.snapshot_ref_type) == "tag":
                stays.add(current)
                break
            walking = walking and (young or seen < (ref.min_snapshots_to_keep or count))
            if walking:
                stays.add(current)
            seen += 1
            current = parents[current]
    stays |= {each for each in ages if each not in led_to and ages[each] <= max_age}
    return stays, set(refs)
