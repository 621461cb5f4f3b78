"""Holds: the table as it was at a time, kept until a date, whatever expiry would do.

A hold is an Iceberg tag, so every engine respects it. Its end is the tag's own maximum age, counted from its snapshot
as Iceberg counts it: the first expiry after that date releases it, whoever runs it. A hold never moves once it is set.
Tags of other names are not ours and are never touched.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

PREFIX = "tablewright-hold-"


class Hold(BaseModel):
    """Keep the table as of a time, until another."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=200)
    as_of: AwareDatetime
    until: AwareDatetime

    @property
    def tag(self) -> str:
        return PREFIX + self.name


@dataclass(frozen=True)
class HeldTag:
    tag: str
    snapshot_id: int
    max_ref_age_ms: int


@dataclass(frozen=True)
class HoldRefusal:
    hold: str
    reason: str


@dataclass(frozen=True)
class HoldPlan:
    table: str
    to_set: tuple[HeldTag, ...]
    to_release: tuple[str, ...]
    refusals: tuple[HoldRefusal, ...]
    pending: tuple[str, ...]
    """Holds as of a time that is still to come."""

    @property
    def is_empty(self) -> bool:
        return not self.to_set and not self.to_release

    def __str__(self) -> str:
        parts = [f"set {held.tag} on snapshot {held.snapshot_id}" for held in self.to_set]
        parts += [f"release {tag}" for tag in self.to_release]
        parts += [f"refuse {refusal.hold}: {refusal.reason}" for refusal in self.refusals]
        parts += [f"wait for the time of {name}" for name in self.pending]
        return f"holds of {self.table}: {'; '.join(parts) or 'nothing to do'}"


def plan_holds(table: str, metadata: TableMetadata, holds: Iterable[Hold], *, now: datetime) -> HoldPlan:
    """What brings the table's holds to the given ones; those that are not given, or are over, are released."""
    current = {
        name: ref
        for name, ref in metadata.refs.items()
        if name.startswith(PREFIX) and ref.snapshot_ref_type == SnapshotRefType.TAG
    }
    to_set: list[HeldTag] = []
    refusals: list[HoldRefusal] = []
    pending: list[str] = []
    wanted = {hold.tag: hold for hold in holds if hold.until > now}
    for hold in wanted.values():
        if hold.as_of > now:
            pending.append(hold.name)
            continue
        snapshot_id = current[hold.tag].snapshot_id if hold.tag in current else _snapshot_as_of(metadata, hold.as_of)
        if snapshot_id is None:
            refusals.append(HoldRefusal(hold.name, _what_is_left(metadata, hold)))
        elif (held := _held(metadata, hold, snapshot_id)) is None:
            refusals.append(HoldRefusal(hold.name, "it ends before its snapshot was made"))
        elif not _is_set(current, held):
            to_set.append(held)
    return HoldPlan(
        table,
        to_set=tuple(to_set),
        to_release=tuple(sorted(current.keys() - wanted.keys())),
        refusals=tuple(refusals),
        pending=tuple(pending),
    )


def _snapshot_as_of(metadata: TableMetadata, as_of: datetime) -> int | None:
    """What was current then, by the table's own log: it knows of rollbacks, which ancestry does not."""
    as_of_ms = int(as_of.timestamp() * 1000)
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    found = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= as_of_ms]
    return found[-1] if found and found[-1] in there else None


def _what_is_left(metadata: TableMetadata, hold: Hold) -> str:
    if not metadata.snapshot_log:
        return "the table has no snapshots yet"
    oldest = datetime.fromtimestamp(metadata.snapshot_log[0].timestamp_ms / 1000, UTC)
    return f"the table as of {hold.as_of.isoformat()} is no longer in its history, which begins at {oldest.isoformat()}"


def _held(metadata: TableMetadata, hold: Hold, snapshot_id: int) -> HeldTag | None:
    snapshot = next(each for each in metadata.snapshots if each.snapshot_id == snapshot_id)
    age = int(hold.until.timestamp() * 1000) - snapshot.timestamp_ms
    return HeldTag(hold.tag, snapshot_id, age) if age > 0 else None


def _is_set(current: Mapping[str, SnapshotRef], held: HeldTag) -> bool:
    ref = current.get(held.tag)
    return ref is not None and (ref.snapshot_id, ref.max_ref_age_ms) == (held.snapshot_id, held.max_ref_age_ms)
