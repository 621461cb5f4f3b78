"""Durations, cron schedules with time zones, and maintenance windows."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tablewright.api.durations import Duration, format_duration, parse_duration
from tablewright.api.schedules import Cron, Window
from tablewright.decide.schedules import is_open, next_opening, next_time

NIGHTS = Window(days=("Mon", "Fri"), start="22:00", duration=parse_duration("8h"), time_zone="Asia/Kolkata")


SECONDS_OF_2026 = st.integers(0, 365 * 86400)
MOMENTS = SECONDS_OF_2026.map(lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
HOURS_AROUND_THE_END_OF_SUMMER = st.builds(
    lambda day, minutes: day + timedelta(minutes=minutes),
    st.sampled_from([datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 11, 1, 4, tzinfo=UTC)]),
    st.integers(0, 180),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [("30s", timedelta(seconds=30)), ("10m", timedelta(minutes=10)), ("7d", timedelta(days=7)), ("0s", timedelta(0))],
)
def test_durations_are_read(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "7", "7 d", "-1d", "1w", "1.5h", "d"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        ValidationError, match=r"is not a duration; use (7d|90m|a whole number with s, m, h or d, for example 7d)"
    ):
        TypeAdapter(Duration).validate_python(text)


@given(st.integers(0, 10**6))
def test_a_duration_survives_being_written(seconds: int) -> None:
    length = timedelta(seconds=seconds)
    assert parse_duration(format_duration(length)) == length


@pytest.mark.parametrize("text", ["* * * *", "61 * * * *", "every day", ""])
def test_what_is_no_cron_expression_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="is not a cron expression"):
        TypeAdapter(Cron).validate_python(text)


def test_a_schedule_is_in_its_time_zone() -> None:
    assert next_time("0 2 * * *", at("2026-03-01T00:00"), "Asia/Kolkata") == at("2026-03-01T20:30")


def test_a_time_that_summer_time_skips_is_not_lost() -> None:
    day = next_time("30 2 * * *", at("2026-03-29T00:00"), "Europe/Berlin")  # 02:30 does not exist that day
    assert at("2026-03-29T00:30") < day <= at("2026-03-29T01:30")


@pytest.mark.parametrize("now", ["2026-10-25T00:31", "2026-10-25T01:13", "2026-10-25T01:30"])
def test_a_time_of_the_hour_that_comes_twice_is_over_after_the_first(now: str) -> None:
    """02:30 comes at 00:30 and again at 01:30, when summer time ends."""
    assert next_time("30 2 * * *", at("2026-10-25T00:00"), "Europe/Berlin") == at("2026-10-25T00:30")
    assert next_time("30 2 * * *", at(now), "Europe/Berlin") == at("2026-10-26T01:30")


@given(
    MOMENTS | HOURS_AROUND_THE_END_OF_SUMMER,
    st.sampled_from(["*/30 * * * *", "15 3 * * 0", "0 0 1 * *", "30 2 * * *", "45 1 * * *"]),
    st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York", "Europe/Berlin"]),
)
def test_the_next_time_is_always_later(since: datetime, cron: str, zone: str) -> None:
    due = next_time(cron, since, zone)
    assert since < due < next_time(cron, due, zone)


@pytest.mark.parametrize(
    ("now", "opened"),
    [
        ("2026-03-02T16:29", False),  # Monday 21:59 in Kolkata
        ("2026-03-02T16:30", True),  # Monday 22:00
        ("2026-03-03T00:29", True),  # Tuesday 05:59: Monday's window still
        ("2026-03-03T00:30", False),  # Tuesday 06:00
        ("2026-03-03T16:30", False),  # Tuesday 22:00 is no window
    ],
)
def test_a_window_is_open_from_its_start_for_its_length(now: str, opened: bool) -> None:
    assert is_open([NIGHTS], at(now)) == opened


def test_without_windows_it_is_always_open() -> None:
    assert is_open([], at("2026-03-03T16:30"))
    assert next_opening([], at("2026-03-03T16:30")) is None


@given(MOMENTS)
def test_the_next_opening_is_open_and_the_moment_before_is_not(now: datetime) -> None:
    opening = next_opening([NIGHTS], now)
    if opening is None:
        assert is_open([NIGHTS], now)
    else:
        assert opening > now
        assert is_open([NIGHTS], opening)
        assert not is_open([NIGHTS], opening - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"start": "25:00"}, "is not a time of day"),
        ({"timeZone": "Mars/Olympus"}, "is not a time zone"),
        ({"days": ["Funday"]}, "days"),
        ({"duration": "8"}, "is not a duration"),
    ],
)
def test_a_bad_window_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Window.model_validate({"start": "22:00", "duration": "8h", **change})
