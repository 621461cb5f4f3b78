"""Sizes as the API writes them: `256Mi`, `100Gi`, or plain bytes."""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tablewright.api.texts import Written

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_SIZE = r"^([1-9][0-9]{4,15}|[1-9][0-9]{0,5}(Ki|Mi|Gi|Ti))$"
_MOST_OF_A_UNIT = 999_999  # as many digits as it may have


def parse_size(text: str) -> int:
    if not re.fullmatch(_SIZE, text):
        raise ValueError(f"{text!r} is not a size: write a whole number with Ki, Mi, Gi or Ti, such as 256Mi")
    digits = text.rstrip("KMGTi")
    return int(digits) * _UNITS[text[len(digits) :]]


def format_size(size: int) -> str:
    """In the largest unit that says it exactly, and so that it can be read again."""
    fits = (unit for unit, each in reversed(_UNITS.items()) if size % each == 0 and size // each <= _MOST_OF_A_UNIT)
    unit = next(fits, "")
    return f"{size // _UNITS[unit]}{unit}"


def readable_size(count: int) -> str:
    """For people, who want to see how large and not how large exactly."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def is_size(text: str) -> bool:
    return re.fullmatch(_SIZE, text) is not None


def _size(value: object) -> int:
    return parse_size(value if isinstance(value, str) else repr(value))  # a number, too, is written as text


# A field that is written as a quantity and read as bytes.
Size = Annotated[
    int,
    BeforeValidator(_size),
    PlainSerializer(format_size, when_used="json"),
    WithJsonSchema({"type": "string", "maxLength": 16, "pattern": _SIZE}),
]

# What a container gets, in Kubernetes' own words, and left in them.
Processors = Annotated[
    str, Written(r"^([1-9][0-9]{0,3}|[1-9][0-9]{0,5}m)$", 8, "a number of processors: write one such as 2 or 500m")
]
Memory = Annotated[str, Written(r"^[1-9][0-9]{0,5}(Mi|Gi)$", 8, "an amount of memory: write one such as 2Gi")]


def millicores(text: Processors) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def memory_bytes(text: Memory) -> int:
    return int(text[:-2]) * _UNITS[text[-2:]]
