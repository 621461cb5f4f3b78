"""When a schedule is due and a window is open. All of it as a function of `now`; summer time is the zone's business."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from tablewright.api.schedules import DAYS, Window


def next_time(cron: str, after: datetime, zone: str = "UTC") -> datetime:
    """The first scheduled time after this one.

    A time of the hour that comes twice, when summer time ends, is meant once: the first time. Seen from the second
    such hour, cronsim names it still, though it is over.
    """
    times = (found.astimezone(UTC) for found in CronSim(cron, after.astimezone(ZoneInfo(zone))))
    return next(found for found in times if found > after).astimezone(after.tzinfo)


def is_open(windows: Sequence[Window], now: datetime) -> bool:
    """Whether maintenance may start now; without windows it always may."""
    return not windows or any(start <= now < end for window in windows for start, end in _around(window, now))


def next_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """When the next window opens, if none is open now."""
    if is_open(windows, now):
        return None
    return min(start for window in windows for start, _ in _around(window, now) if start > now)


def may_start(windows: Sequence[Window], when: datetime | None) -> datetime | None:
    """The first time, from this one on, at which a window is open."""
    return None if when is None else next_opening(windows, when) or when


def _around(window: Window, now: datetime) -> list[tuple[datetime, datetime]]:
    """The window's openings from a week before now to a week after it."""
    zone = ZoneInfo(window.time_zone)
    clock, today = time.fromisoformat(window.start), now.astimezone(zone).date()
    days = (today + timedelta(days=offset) for offset in range(-8, 9))
    starts = (datetime.combine(day, clock, zone) for day in days if DAYS[day.weekday()] in window.days)
    return [(start.astimezone(now.tzinfo), start.astimezone(now.tzinfo) + window.duration) for start in starts]


def earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)
