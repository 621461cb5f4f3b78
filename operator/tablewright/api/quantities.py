"""Sizes as the API writes them: `256Mi`, `100Gi`, or plain bytes."""

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def parse_size(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,15})(Ki|Mi|Gi)?", text)
    if not match:
        raise ValueError(f"{text!r} is not a size: write a whole number with Ki, Mi or Gi, such as 256Mi")
    return int(match[1]) * _UNITS[match[2] or ""]


def _size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


# A field that is written as a quantity and read as bytes.
Size = Annotated[int, BeforeValidator(_size)]
