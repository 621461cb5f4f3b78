"""When things may happen: cron expressions, and windows of the week, both in a time zone."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from tableformat.suggestions import nearest, quoted
from tablewright.api.durations import WindowLength
from tablewright.api.objects import ApiModel
from tablewright.api.texts import Written

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _cron(text: str) -> str:
    try:
        _require_a_time(text)
    except CronSimError as error:
        minute, hour, day, _, weekday = text.split()
        try:
            _require_a_time(f"{minute} {hour} {day} * {weekday}")
        except CronSimError:
            raise ValueError(f"{_CRON.complaint(text)} ({str(error).lower()})") from None
        raise ValueError(f"{quoted(text)} never comes; use a day that its month has") from None
    return text


def _require_a_time(cron: str) -> None:
    """An expression whose day no month has is refused as such, or found to have no next time."""
    if next(CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC)), None) is None:
        raise CronSimError("Its time never comes")


def _cron_meant(text: str) -> str | None:
    """Of the names that some crons know, and of expressions that begin with seconds."""
    fields = text.split()
    if len(fields) == 6 and re.fullmatch(r"[0-9]+", fields[0]):
        return " ".join(fields[1:])
    return _CRON_NAMES.get(text.strip().lower())


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(_ZONE.complaint(name)) from None
    return name


def _time_meant(text: str) -> str | None:
    found = re.fullmatch(r"(\d{1,2})(?:[:.](\d\d))?(?::00)?\s*([ap]m)?", text.strip(), re.IGNORECASE)
    if found is None:
        return None
    hour = int(found[1])
    if found[3]:
        hour = hour % 12 + (12 if found[3].lower() == "pm" else 0)
    return f"{hour:02d}:{found[2] or '00'}"


_CRON_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELD = r"[0-9A-Za-z*/,#-]+"
_CRON = Written(
    rf"^{_FIELD}( +{_FIELD}){{4}}$",
    128,
    "a cron expression",
    "five fields (minute, hour, day, month, weekday), for example */30 * * * *",
    shortest=9,
    suggest=_cron_meant,
)
_ZONE = Written(
    r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$",
    64,
    "a time zone",
    "a name of the IANA database, for example Asia/Kolkata",
    shortest=1,
    # Of abbreviations, such as IST, the nearest name is another one's.
    suggest=lambda name: nearest(name.replace(" ", "_"), available_timezones()) if "/" in name else None,
)

Cron = Annotated[str, _CRON, AfterValidator(_cron)]
TimeZone = Annotated[str, _ZONE, AfterValidator(_time_zone)]
TimeOfDay = Annotated[
    str,
    Written(
        r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
        5,
        "a time of day",
        "hours and minutes, for example 22:00",
        suggest=_time_meant,
    ),
]


class Window(ApiModel):
    """A time of the week in which maintenance may start."""

    days: tuple[Day, ...] = Field(default=DAYS, min_length=1, max_length=7)
    start: TimeOfDay
    duration: WindowLength
    time_zone: TimeZone = "UTC"
