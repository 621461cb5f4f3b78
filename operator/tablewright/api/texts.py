"""The kinds of text that the API knows, each with the bounds that the CRDs give it.

The bounds are repeated here because objects also come from folders, which no API server has looked at; a test holds
the two together.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_LONGEST_MESSAGE = 32768
_LONGEST_NOTE = 4096


@dataclass(frozen=True)
class Written:
    """How a text is written. What is not written so is answered with `remedy`, which says how to."""

    pattern: str
    longest: int
    remedy: str
    shortest: int = 0
    is_secret: bool = False  # then it is not repeated in the answer

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        bounds = {"minLength": self.shortest} if self.shortest else {}
        return {"type": "string", **bounds, "maxLength": self.longest, "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if not self.shortest <= len(text) <= self.longest or not re.fullmatch(self.pattern, text):
            raise ValueError(f"{'this' if self.is_secret else repr(shortened(text, 80))} is not {self.remedy}")
        return text


ObjectName = Annotated[
    str,
    Written(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        253,
        "an object's name: write lower-case letters, digits, - and .",
        shortest=1,
    ),
]
ColumnName = Annotated[str, Field(min_length=1, max_length=255)]
ColumnPath = Annotated[str, Field(min_length=1, max_length=1024)]
CatalogName = Annotated[
    str,
    Written(
        r"^[^\x00-\x1f\x7f/\\#?%]+$", 255, "a name that a folder can have: leave out /, \\, #, ? and %", shortest=1
    ),
]
Doc = Annotated[str, Field(max_length=4096)]
WebAddress = Annotated[
    str, Written(r"^https?://[^\s/]+\S*$", 1024, "an address: write one such as https://catalog.example.com:8181")
]
StorageLocation = Annotated[
    str,
    Written(
        r"^((s3|s3a)://[^\s#?]+|file://[^\x00-\x1f\x7f#?]+|/[^\x00-\x1f\x7f]+)$",
        1024,
        "a location: write s3://, s3a:// or file:// and a path without # and ?, or a local path from / on",
        shortest=1,
    ),
]
Region = Annotated[str, Field(min_length=1, max_length=64)]
LabelKey = Annotated[
    str,
    Written(
        r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        317,
        "a label's key: write one such as team or example.com/team",
    ),
]
LabelValue = Annotated[
    str,
    Written(
        r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
        63,
        "a label's value: write up to 63 letters, digits, -, _ and .",
    ),
]


def shortened(text: str, longest: int) -> str:
    """The text, or as much of it as there is room for."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _fit(longest: int) -> BeforeValidator:
    return BeforeValidator(lambda value: shortened(value, longest) if isinstance(value, str) else value)


# What the operator says: a status that the API server refuses for its length would say nothing at all.
Message = Annotated[str, Field(max_length=_LONGEST_MESSAGE), _fit(_LONGEST_MESSAGE)]
Note = Annotated[str, Field(max_length=_LONGEST_NOTE), _fit(_LONGEST_NOTE)]
