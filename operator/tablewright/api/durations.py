"""Lengths of time as the API writes them: `30s`, `10m`, `2h`, `7d`."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if not match:
        raise ValueError(f"{text!r} is not a duration: write a whole number with s, m, h or d, such as 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def format_duration(duration: timedelta) -> str:
    """In the largest unit that says it exactly."""
    seconds = int(duration.total_seconds())
    unit = next(unit for unit, size in _SECONDS.items() if seconds % size == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


# A field that is written as text and read as a length of time.
Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(format_duration, when_used="json")]
