"""When things may happen: cron expressions, and windows of the week, both in a time zone."""

from datetime import UTC, datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from tablewright.api.durations import WindowLength
from tablewright.api.objects import ApiModel
from tablewright.api.texts import Written

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _cron(text: str) -> str:
    try:
        next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        raise ValueError(f"{text!r} is not {_FIVE_FIELDS} ({str(error) or 'its time never comes'})") from None
    return text


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not {_ZONE}") from None
    return name


_FIELD = r"[0-9A-Za-z*/,#-]+"
_FIVE_FIELDS = "a cron expression: write five fields, such as '*/30 * * * *'"
_ZONE = "a time zone: write one such as Asia/Kolkata"

Cron = Annotated[str, Written(rf"^{_FIELD}( +{_FIELD}){{4}}$", 128, _FIVE_FIELDS, shortest=9), AfterValidator(_cron)]
TimeZone = Annotated[
    str, Written(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$", 64, _ZONE, shortest=1), AfterValidator(_time_zone)
]
TimeOfDay = Annotated[
    str, Written(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", 5, "a time of day: write hours and minutes, such as 22:00")
]


class Window(ApiModel):
    """A time of the week in which maintenance may start."""

    days: tuple[Day, ...] = Field(default=DAYS, min_length=1, max_length=7)
    start: TimeOfDay
    duration: WindowLength
    time_zone: TimeZone = "UTC"
