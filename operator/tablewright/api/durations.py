"""Lengths of time as the API writes them: `30s`, `10m`, `2h`, `7d`."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tablewright.api.texts import Form

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_MOST_MINUTES = 9_999_999  # some that are written in seconds are more
_USE = "a whole number with s, m, h or d, for example 7d"


def parse_duration(text: str, form: "Form | None" = None) -> timedelta:
    wanted = form or ANY_DURATION
    if not wanted.fits(text):
        raise ValueError(wanted.complaint(text))
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


def format_duration(duration: timedelta) -> str:
    """In the largest unit that says it exactly, and so that it can be read again."""
    seconds = int(duration.total_seconds())
    unit = next(unit for unit, size in _SECONDS.items() if seconds % size == 0)
    if unit == "m" and seconds // 60 > _MOST_MINUTES:
        unit = "s"
    return f"{seconds // _SECONDS[unit]}{unit}"


_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)[a-z]*\.?[\s,]*", re.IGNORECASE)
_OTHERS = re.compile(r"\d\s*(mo|ms|mil|mic|y)", re.IGNORECASE)  # a month is no minute


def _meant(text: str) -> str | None:
    """Of other ways to write one: `7 days`, `1h30m`, `1.5 hours`, `2w`, `P7D`, `PT1H`."""
    said = re.sub(r"^P(.*?)T?(?=\d|$)", r"\1", text.strip(), count=1).replace("T", " ")
    if not said or _OTHERS.search(said) or not re.fullmatch(f"({_PART.pattern})+", said, re.IGNORECASE):
        return None
    sizes = {**_SECONDS, "w": 7 * 86400}
    seconds = sum(float(number) * sizes[unit.lower()] for number, unit in _PART.findall(said))
    return format_duration(timedelta(seconds=seconds)) if seconds == int(seconds) and seconds < 10**10 else None


# At most some 270 years, so that no calendar ends before or after them.
ANY_DURATION = Form(
    r"^((0|[1-9][0-9]{0,8})s|(0|[1-9][0-9]{0,6})m|(0|[1-9][0-9]{0,5})h|(0|[1-9][0-9]{0,4})d)$",
    10,
    "a duration",
    _USE,
    suggest=_meant,
)
_POSITIVE = Form(
    r"^([1-9][0-9]{0,8}s|[1-9][0-9]{0,6}m|[1-9][0-9]{0,5}h|[1-9][0-9]{0,4}d)$",
    10,
    "a duration above zero",
    _USE,
    suggest=_meant,
)
_UP_TO_A_WEEK = Form(
    r"^([1-9][0-9]{0,4}s|[1-9][0-9]{0,3}m|([1-9][0-9]?|1[0-5][0-9]|16[0-8])h|[1-7]d)$",
    6,
    "a duration of up to a week",
    "a whole number with s, m, h or d, for example 8h",
    suggest=_meant,
)


def _reader(form: Form) -> BeforeValidator:
    return BeforeValidator(lambda value: parse_duration(value, form) if isinstance(value, str) else value)


def _schema(form: Form) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "maxLength": form.longest, "pattern": form.pattern})


_WRITER = PlainSerializer(format_duration, when_used="json")

# Fields that are written as text and read as lengths of time.
Duration = Annotated[timedelta, ANY_DURATION, _reader(ANY_DURATION), _WRITER, _schema(ANY_DURATION)]
PositiveDuration = Annotated[timedelta, _POSITIVE, _reader(_POSITIVE), _WRITER, _schema(_POSITIVE)]
WindowLength = Annotated[timedelta, _UP_TO_A_WEEK, _reader(_UP_TO_A_WEEK), _WRITER, _schema(_UP_TO_A_WEEK)]
