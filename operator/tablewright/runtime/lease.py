"""Who leads, as a pure function of what was seen of the Lease and of our own clock. No I/O.

Clocks of two machines may differ by any amount, so the times that another replica wrote into the Lease are for people
only. What counts is how long *we* have seen the same record: a holder that does not change it for the whole of its
duration has lost it. The leader in turn counts from the moment before its last successful write was sent, and stops
acting at its renew deadline, which is earlier than the moment when anybody may take over.
"""

from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True)
class LeaseSettings:
    duration: float = 15.0  # seconds without a change, after which others may take over
    renew_deadline: float = 10.0  # seconds after its last renewal, after which the leader acts no more
    retry: float = 2.0  # seconds between looks

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration:
            raise ValueError("a lease needs 0 < retry < renew deadline < duration")

    @classmethod
    def of_duration(cls, seconds: float) -> "LeaseSettings":
        return cls(duration=seconds, renew_deadline=seconds * 2 / 3, retry=min(2.0, seconds * 2 / 15))


@dataclass(frozen=True)
class LeaseRecord:
    """The Lease as the API server has it; `version` is its resourceVersion."""

    holder: str  # empty: released
    duration: float
    acquired: datetime | None
    renewed: datetime | None
    transitions: int
    version: str


@dataclass(frozen=True)
class Seen:
    """A record, and since when (by our own clock) it has been exactly this one."""

    record: LeaseRecord | None  # None: there is no Lease
    since: float


@dataclass(frozen=True)
class Write:
    """Try to write this record on the version that was seen (empty: create it). Whose write succeeds leads."""

    record: LeaseRecord


@dataclass(frozen=True)
class Stand:
    """Somebody else leads: stand by."""

    holder: str


def look(before: Seen | None, record: LeaseRecord | None, at: float) -> Seen:
    """What is known after a look: the time starts anew whenever the record changed."""
    if before is not None and before.record == record:
        return before
    return Seen(record, at)


def decide_lease(identity: str, settings: LeaseSettings, seen: Seen, at: float, now: datetime) -> Write | Stand:
    """`at` is our own monotonic clock; `now` is the time of day, written for people to read."""
    record = seen.record
    if record is None:
        return Write(LeaseRecord(identity, settings.duration, now, now, 0, ""))
    if record.holder == identity:
        return Write(replace(record, renewed=now, duration=settings.duration))
    if record.holder and at - seen.since < max(record.duration, settings.duration):
        return Stand(record.holder)
    return Write(
        LeaseRecord(identity, settings.duration, now, now, record.transitions + 1, record.version),
    )


def released(record: LeaseRecord, now: datetime) -> LeaseRecord:
    """What a leader writes that stops: nobody has to wait for the duration to pass."""
    return replace(record, holder="", renewed=now, duration=1.0)


def may_act(renewed_at: float | None, settings: LeaseSettings, at: float) -> bool:
    """Whether a leader whose last successful renewal was sent at this time may still act."""
    return renewed_at is not None and at < renewed_at + settings.renew_deadline
