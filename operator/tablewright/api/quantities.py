"""Sizes as the API writes them: `256Mi`, `100Gi`, or plain bytes."""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tablewright.api.texts import Form, Written

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_MOST_OF_A_UNIT = 999_999  # as many digits as it may have
_MEANT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b|i|bytes?)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    if not _SIZE.fits(text):
        raise ValueError(_SIZE.complaint(text))
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


def _meant(text: str) -> str | None:
    """Of other ways to write one: `64 MB`, `64mib`, `1.5G`."""
    found = _MEANT.fullmatch(text.strip())
    if found is None:
        return None
    size = float(found[1]) * _UNITS[f"{found[2].upper()}i" if found[2] else ""]
    return format_size(int(size)) if size == int(size) and size < 1 << 60 else None


_SIZE = Form(
    r"^([1-9][0-9]{4,15}|[1-9][0-9]{0,5}(Ki|Mi|Gi|Ti))$",
    16,
    "a size",
    "a whole number with Ki, Mi, Gi or Ti, for example 256Mi",
    suggest=_meant,
)


def is_size(text: str) -> bool:
    return _SIZE.fits(text)


def _size(value: object) -> int:
    return parse_size(value if isinstance(value, str) else repr(value))  # a number, too, is written as text


# A field that is written as a quantity and read as bytes.
Size = Annotated[
    int,
    _SIZE,
    BeforeValidator(_size),
    PlainSerializer(format_size, when_used="json"),
    WithJsonSchema({"type": "string", "maxLength": _SIZE.longest, "pattern": _SIZE.pattern}),
]


def _processors_meant(text: str) -> str | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:cpus?|cores?)?", text.strip(), re.IGNORECASE)
    thousandths = round(float(found[1]) * 1000) if found else 0
    return None if not thousandths else f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def _memory_meant(text: str) -> str | None:
    found = _MEANT.fullmatch(text.strip())
    if found is None:
        return None
    mebibytes = float(found[1]) * _UNITS[f"{found[2].upper()}i" if found[2] else ""] / _UNITS["Mi"]
    if mebibytes != int(mebibytes):
        return None
    return f"{int(mebibytes)}Mi" if mebibytes % 1024 else f"{int(mebibytes) // 1024}Gi"


# What a container gets, in Kubernetes' own words, and left in them.
Processors = Annotated[
    str,
    Written(
        r"^([1-9][0-9]{0,3}|[1-9][0-9]{0,5}m)$",
        8,
        "a number of processors",
        "one such as 2 or 500m",
        suggest=_processors_meant,
    ),
]
Memory = Annotated[
    str,
    Written(
        r"^[1-9][0-9]{0,5}(Mi|Gi)$",
        8,
        "an amount of memory",
        "a whole number with Mi or Gi, for example 2Gi",
        suggest=_memory_meant,
    ),
]


def millicores(text: Processors) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def memory_bytes(text: Memory) -> int:
    return int(text[:-2]) * _UNITS[text[-2:]]
