"""When things may happen: cron expressions, and windows of the week, both in a time zone."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from tablewright.api.durations import Duration
from tablewright.api.objects import ApiModel

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _cron(text: str) -> str:
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        example = "*/30 * * * *"
        raise ValueError(
            f"{text!r} is not a cron expression ({error}): write five fields, such as {example!r}"
        ) from None
    return text


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone: write one such as Asia/Kolkata") from None
    return name


def _time_of_day(text: str) -> str:
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text):
        raise ValueError(f"{text!r} is not a time of day: write hours and minutes, such as 22:00")
    return text


Cron = Annotated[str, AfterValidator(_cron)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]


class Window(ApiModel):
    """A time of the week in which maintenance may start."""

    days: tuple[Day, ...] = Field(default=DAYS, min_length=1)
    start: TimeOfDay
    duration: Duration
    time_zone: TimeZone = "UTC"
