"""Which snapshots and refs a table may lose: pure, and by the rules of Iceberg's own expiry.

A ref other than main goes when its snapshot is older than the ref's maximum age. A branch keeps its newest snapshots up
to its minimum count and all that are young enough, walking back until the first that is neither. A tag keeps its
snapshot. What no remaining ref leads to (staged commits, history that was rolled back) is kept while it is young.
Beyond those rules, what running jobs started from is kept, and what was committed on top of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.ancestry import ancestry
from tableformat.maintenance.errors import UnreadableSetting
from tableformat.maintenance.expiry.options import ExpiryOptions
from tableformat.properties import read_number

_MAX_REF_AGE = "history.expire.max-ref-age-ms"


@dataclass(frozen=True)
class Retention:
    """What would go, as the table is now."""

    snapshots: frozenset[int]
    refs: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not self.snapshots and not self.refs

    def is_gone_from(self, metadata: TableMetadata) -> bool:
        snapshots = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        return self.snapshots.isdisjoint(snapshots) and self.refs.isdisjoint(metadata.refs)

    def covers(self, other: "Retention") -> bool:
        return other.snapshots <= self.snapshots and other.refs <= self.refs


def plan_retention(metadata: TableMetadata, options: ExpiryOptions, *, now: datetime) -> Retention:
    """Raises `UnreadableSetting` where a property of the table says how long, and nobody can tell what it says."""
    rules = _Rules.of(metadata, options, int(now.timestamp() * 1000))
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    refs = {name: ref for name, ref in metadata.refs.items() if rules.keeps_ref(name, ref, by_id)}
    kept = {ref.snapshot_id for ref in refs.values()} | options.protected_snapshots
    referenced = set(kept)
    for ref in refs.values():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            ancestors = list(ancestry(ref.snapshot_id, by_id))
            referenced.update(snapshot.snapshot_id for snapshot in ancestors)
            kept.update(snapshot.snapshot_id for snapshot in rules.kept_of_branch(ref, ancestors))
            kept.update(_back_to(options.protected_snapshots, ancestors))
    kept.update(
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in referenced and snapshot.timestamp_ms >= rules.expire_older_than
    )
    return Retention(
        snapshots=frozenset(by_id.keys() - kept),
        refs=frozenset(metadata.refs.keys() - refs.keys()),
    )


@dataclass(frozen=True)
class _Rules:
    now_ms: int
    expire_older_than: int
    min_to_keep: int
    max_ref_age_ms: int | None

    @classmethod
    def of(cls, metadata: TableMetadata, options: ExpiryOptions, now_ms: int) -> "_Rules":
        properties = metadata.properties
        age = options.max_snapshot_age_ms
        if age is None:
            age = _setting(properties, TableProperties.MAX_SNAPSHOT_AGE_MS)
        if age is None:
            age = TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT
        count = options.min_snapshots_to_keep or _setting(properties, TableProperties.MIN_SNAPSHOTS_TO_KEEP)
        return cls(
            now_ms=now_ms,
            expire_older_than=now_ms - age,
            min_to_keep=count or TableProperties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT,
            max_ref_age_ms=options.max_ref_age_ms or _setting(properties, _MAX_REF_AGE),
        )

    def keeps_ref(self, name: str, ref: SnapshotRef, by_id: Mapping[int, Snapshot]) -> bool:
        snapshot = by_id.get(ref.snapshot_id)
        max_age = ref.max_ref_age_ms or self.max_ref_age_ms
        if name == MAIN_BRANCH or snapshot is None or max_age is None:
            return True
        return self.now_ms - snapshot.timestamp_ms <= max_age

    def kept_of_branch(self, ref: SnapshotRef, ancestors: list[Snapshot]) -> Iterator[Snapshot]:
        older_than = self.expire_older_than
        if ref.max_snapshot_age_ms is not None:
            older_than = self.now_ms - ref.max_snapshot_age_ms
        count = ref.min_snapshots_to_keep or self.min_to_keep
        for number, snapshot in enumerate(ancestors):
            if number >= count and snapshot.timestamp_ms < older_than:
                return
            yield snapshot


def unreadable_settings(properties: Mapping[str, str], options: ExpiryOptions) -> list[str]:
    """The properties that say what expires, as far as the options leave it to them, and that are no numbers."""
    asked = {
        TableProperties.MAX_SNAPSHOT_AGE_MS: options.max_snapshot_age_ms,
        TableProperties.MIN_SNAPSHOTS_TO_KEEP: options.min_snapshots_to_keep,
        _MAX_REF_AGE: options.max_ref_age_ms,
    }
    return [name for name, given in asked.items() if given is None and _is_unreadable(properties, name)]


def _setting(properties: Mapping[str, str], name: str) -> int | None:
    if _is_unreadable(properties, name):
        raise UnreadableSetting(name, properties[name])
    return read_number(properties, name)


def _is_unreadable(properties: Mapping[str, str], name: str) -> bool:
    number = read_number(properties, name)
    return bool(properties.get(name)) and (number is None or number < 0)


def _back_to(protected: frozenset[int], ancestors: list[Snapshot]) -> list[int]:
    """The snapshots from the head back to the last protected one: a job validates every commit since its start."""
    ids = [snapshot.snapshot_id for snapshot in ancestors]
    last = max((position for position, each in enumerate(ids) if each in protected), default=-1)
    return ids[: last + 1]
