"""Holds: the table as it was at a time, kept until a date, whatever expiry would do.

A hold is an Iceberg tag, so every engine respects it. Its end is the tag's own maximum age, counted from its snapshot
as Iceberg counts it: the first expiry after that date releases it, whoever runs it. A hold never moves once it is set:
one that is asked for as of another time is refused. Whoever asks names the holds that may be released. All others stay:
somebody else has placed them, and tags of other names are not ours at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

PREFIX = "tablewright-hold-"
_EPOCH = datetime.fromtimestamp(0, UTC)


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


def plan_holds(
    table: str, metadata: TableMetadata, holds: Iterable[Hold], *, placed: Iterable[str] = (), now: datetime
) -> HoldPlan:
    """What brings the table's holds to the given ones. Given ones that are over are released, and those of the names
    that were `placed` before and are not given any more."""
    holds = list(holds)
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
        if hold.tag in current and (moved := _asks_for_another(metadata, hold, current[hold.tag].snapshot_id)):
            refusals.append(HoldRefusal(hold.name, moved))
        elif snapshot_id is None:
            refusals.append(HoldRefusal(hold.name, _what_is_left(metadata, hold)))
        elif (held := _held(metadata, hold, snapshot_id)) is None:
            refusals.append(HoldRefusal(hold.name, "it ends before its snapshot was made"))
        elif not _is_set(current, held):
            to_set.append(held)
    ours = {hold.tag for hold in holds} | {PREFIX + name for name in placed}
    return HoldPlan(
        table,
        to_set=tuple(to_set),
        to_release=tuple(sorted((current.keys() & ours) - wanted.keys())),
        refusals=tuple(refusals),
        pending=tuple(pending),
    )


def _snapshot_as_of(metadata: TableMetadata, as_of: datetime) -> int | None:
    """What was current then, by the table's own log: it knows of rollbacks, which ancestry does not."""
    as_of_ms = _ms(as_of)
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    found = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= as_of_ms]
    return found[-1] if found and found[-1] in there else None


def _asks_for_another(metadata: TableMetadata, hold: Hold, held: int) -> str | None:
    """Why the hold cannot be the one that is set already. What history no longer tells is taken to be as it was."""
    snapshot = metadata.snapshot_by_id(held)
    if snapshot is None:
        return None
    if _snapshot_as_of(metadata, hold.as_of) in (None, held) and snapshot.timestamp_ms <= _ms(hold.as_of):
        return None
    made_at = _EPOCH + timedelta(milliseconds=snapshot.timestamp_ms)
    return (
        f"it is set on snapshot {held} of {made_at.isoformat()} and never moves, and {hold.as_of.isoformat()} is the "
        "time of another: give that a name of its own, or keep the time as it was"
    )


def _ms(time: datetime) -> int:
    """Whole milliseconds; a floating-point number would lose one now and then."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _what_is_left(metadata: TableMetadata, hold: Hold) -> str:
    if not metadata.snapshot_log:
        return "the table has no snapshots yet"
    oldest = datetime.fromtimestamp(metadata.snapshot_log[0].timestamp_ms / 1000, UTC)
    return f"the table as of {hold.as_of.isoformat()} is no longer in its history, which begins at {oldest.isoformat()}"


def _held(metadata: TableMetadata, hold: Hold, snapshot_id: int) -> HeldTag | None:
    snapshot = next(each for each in metadata.snapshots if each.snapshot_id == snapshot_id)
    age = _ms(hold.until) - snapshot.timestamp_ms
    return HeldTag(hold.tag, snapshot_id, age) if age > 0 else None


def _is_set(current: Mapping[str, SnapshotRef], held: HeldTag) -> bool:
    ref = current.get(held.tag)
    return ref is not None and (ref.snapshot_id, ref.max_ref_age_ms) == (held.snapshot_id, held.max_ref_age_ms)
