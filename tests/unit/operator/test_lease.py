"""Who leads, by values: no server, no sleep. The clocks of two machines agree on nothing but the length of a second."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablewright.runtime.lease import (
    LeaseRecord,
    LeaseSettings,
    Seen,
    Stand,
    Write,
    decide_lease,
    look,
    may_act,
    released,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = LeaseSettings(duration=15, renew_deadline=10, retry=2)


def record(holder: str, *, version: str = "7", renewed: datetime = NOW) -> LeaseRecord:
    return LeaseRecord(holder, 15, NOW, renewed, 3, version)


def test_a_lease_that_is_not_there_is_created() -> None:
    decided = decide_lease("me", SETTINGS, Seen(None, 0), 0, NOW)
    assert decided == Write(LeaseRecord("me", 15, NOW, NOW, 0, ""))


def test_another_holder_is_stood_by_for_until_its_record_was_the_same_for_the_whole_duration() -> None:
    seen = Seen(record("other"), since=100)
    assert decide_lease("me", SETTINGS, seen, 114.9, NOW) == Stand("other")
    decided = decide_lease("me", SETTINGS, seen, 115, NOW)
    assert isinstance(decided, Write)
    assert (decided.record.holder, decided.record.transitions, decided.record.version) == ("me", 4, "7")


@pytest.mark.parametrize("skew", [timedelta(days=-3), timedelta(0), timedelta(days=3)])
def test_the_times_that_the_other_wrote_mean_nothing(skew: timedelta) -> None:
    seen = Seen(record("other", renewed=NOW + skew), since=100)
    assert decide_lease("me", SETTINGS, seen, 101, NOW) == Stand("other")
    assert isinstance(decide_lease("me", SETTINGS, seen, 116, NOW), Write)


def test_a_longer_duration_of_the_holder_is_respected() -> None:
    seen = Seen(LeaseRecord("other", 60, NOW, NOW, 0, "1"), since=0)
    assert decide_lease("me", SETTINGS, seen, 59, NOW) == Stand("other")


def test_a_released_lease_is_taken_at_once() -> None:
    assert isinstance(decide_lease("me", SETTINGS, Seen(released(record("other"), NOW), 100), 100, NOW), Write)


def test_every_change_of_the_record_starts_the_time_anew() -> None:
    seen = look(None, record("other"), 0)
    assert look(seen, record("other"), 10) == seen
    assert look(seen, record("other", version="8"), 10).since == 10


def test_our_own_lease_is_renewed_without_a_transition() -> None:
    later = NOW + timedelta(seconds=5)
    decided = decide_lease("me", SETTINGS, Seen(record("me"), 0), 5, later)
    assert isinstance(decided, Write)
    assert (decided.record.renewed, decided.record.acquired, decided.record.transitions) == (later, NOW, 3)


def test_a_lease_must_leave_time_between_the_deadlines() -> None:
    with pytest.raises(ValueError, match="renew deadline"):
        LeaseSettings(duration=10, renew_deadline=10)


@given(
    duration=st.floats(1, 600),
    sent=st.floats(0, 1e6),
    travel=st.floats(0, 60),
    seen_after=st.floats(0, 60),
    waited=st.floats(0, 2000),
)
def test_nobody_takes_over_while_the_leader_may_still_act(
    duration: float, sent: float, travel: float, seen_after: float, waited: float
) -> None:
    """However long a renewal travels, and however late the standby looks: both count seconds, not times of day."""
    settings = LeaseSettings.of_duration(duration)
    arrived = sent + travel
    seen = Seen(LeaseRecord("leader", duration, NOW, NOW, 0, "1"), since=arrived + seen_after)
    at = seen.since + waited
    if isinstance(decide_lease("standby", settings, seen, at, NOW), Write):
        assert not may_act(sent, settings, at)
