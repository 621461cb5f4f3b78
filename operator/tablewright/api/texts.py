"""The kinds of text that the API knows, each with the bounds that the CRDs give it.

The bounds are repeated here because objects also come from folders, which no API server has looked at; a test holds
the two together. What is not written as it should be is answered with how to write it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tableformat.suggestions import quoted

_LONGEST_MESSAGE = 32768
_LONGEST_NOTE = 4096
_LONGEST_QUOTE = 80


@dataclass(frozen=True)
class Form:
    """How a text is written."""

    pattern: str
    longest: int
    what: str
    """A noun with its article: `a size`."""
    use: str
    """What to write instead, with an example."""
    shortest: int = 0
    is_secret: bool = False
    """Then the text is not repeated in the answer."""
    suggest: Callable[[str], str | None] = lambda _: None
    """The right text for one that is nearly right, as far as that can be told."""

    def fits(self, text: str) -> bool:
        return self.shortest <= len(text) <= self.longest and re.fullmatch(self.pattern, text) is not None

    def complaint(self, text: str) -> str:
        """`"64 MB" is not a size; use 64Mi`."""
        meant = None if self.is_secret else self.suggest(text)
        use = self.use if meant is None or not self.fits(meant) else meant
        shown = "the value" if self.is_secret else quoted(shortened(text, _LONGEST_QUOTE))
        return f"{shown} is not {self.what}; use {use}"


@dataclass(frozen=True)
class Written(Form):
    """A text that is checked, and left as it is."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        bounds = {"minLength": self.shortest} if self.shortest else {}
        return {"type": "string", **bounds, "maxLength": self.longest, "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if not self.fits(text):
            raise ValueError(self.complaint(text))
        return text


def _as_name(text: str) -> str:
    """In lower case, with - for what a name does not have."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _as_address(text: str) -> str | None:
    return None if "://" in text else f"https://{text}"


ObjectName = Annotated[
    str,
    Written(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        253,
        "an object name",
        "lower-case letters, digits, - and ., for example my-table",
        shortest=1,
        suggest=_as_name,
    ),
]
ColumnName = Annotated[str, Field(min_length=1, max_length=255)]
ColumnPath = Annotated[str, Field(min_length=1, max_length=1024)]
CatalogName = Annotated[
    str,
    Written(
        r"^[^\x00-\x1f\x7f/\\#?%]+$",
        255,
        "a name that a folder can have",
        "a name without /, \\, #, ? and %, for example sales",
        shortest=1,
    ),
]
Doc = Annotated[str, Field(max_length=4096)]
WebAddress = Annotated[
    str,
    Written(
        r"^https?://[^\s/]+\S*$",
        1024,
        "a web address",
        "one that begins with http:// or https://, for example https://catalog.example.com:8181",
        suggest=_as_address,
    ),
]
StorageLocation = Annotated[
    str,
    Written(
        r"^((s3|s3a)://[^\s#?]+|file://[^\x00-\x1f\x7f#?]+|/[^\x00-\x1f\x7f]+)$",
        1024,
        "a storage location",
        "s3://, s3a:// or file:// and a path without # and ?, or an absolute local path, for example s3://lake/sales",
        shortest=1,
    ),
]
Region = Annotated[str, Field(min_length=1, max_length=64)]
LabelKey = Annotated[
    str,
    Written(
        r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        317,
        "a label key",
        "a key such as team or example.com/team",
    ),
]
LabelValue = Annotated[
    str,
    Written(
        r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
        63,
        "a label value",
        "up to 63 letters, digits, -, _ and ., for example finance",
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
