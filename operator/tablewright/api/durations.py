"""Lengths of time as the API writes them: `30s`, `10m`, `2h`, `7d`."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_MOST_MINUTES = 9_999_999  # some that are written in seconds are more
# At most some 270 years, so that no calendar ends before or after them.
_ANY = r"^((0|[1-9][0-9]{0,8})s|(0|[1-9][0-9]{0,6})m|(0|[1-9][0-9]{0,5})h|(0|[1-9][0-9]{0,4})d)$"
_POSITIVE = r"^([1-9][0-9]{0,8}s|[1-9][0-9]{0,6}m|[1-9][0-9]{0,5}h|[1-9][0-9]{0,4}d)$"
_UP_TO_A_WEEK = r"^([1-9][0-9]{0,4}s|[1-9][0-9]{0,3}m|([1-9][0-9]?|1[0-5][0-9]|16[0-8])h|[1-7]d)$"


def parse_duration(text: str, pattern: str = _ANY, kind: str = "a duration") -> timedelta:
    if not re.fullmatch(pattern, text):
        raise ValueError(f"{text!r} is not {kind}: write a whole number with s, m, h or d, such as 7d")
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


def format_duration(duration: timedelta) -> str:
    """In the largest unit that says it exactly, and so that it can be read again."""
    seconds = int(duration.total_seconds())
    unit = next(unit for unit, size in _SECONDS.items() if seconds % size == 0)
    if unit == "m" and seconds // 60 > _MOST_MINUTES:
        unit = "s"
    return f"{seconds // _SECONDS[unit]}{unit}"


def _reader(pattern: str, kind: str) -> BeforeValidator:
    return BeforeValidator(lambda value: parse_duration(value, pattern, kind) if isinstance(value, str) else value)


def _schema(pattern: str, longest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "maxLength": longest, "pattern": pattern})


_WRITER = PlainSerializer(format_duration, when_used="json")

# Fields that are written as text and read as lengths of time.
Duration = Annotated[timedelta, _reader(_ANY, "a duration"), _WRITER, _schema(_ANY, 10)]
PositiveDuration = Annotated[
    timedelta, _reader(_POSITIVE, "a duration of more than nothing"), _WRITER, _schema(_POSITIVE, 10)
]
WindowLength = Annotated[
    timedelta, _reader(_UP_TO_A_WEEK, "a duration of up to a week"), _WRITER, _schema(_UP_TO_A_WEEK, 6)
]
