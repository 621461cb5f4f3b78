"""Label selectors as kubectl takes them: `team=sales,tier in (gold, silver),!draft`."""

import re
from collections.abc import Iterator
from typing import Any

from tablewright.cli.exits import InputError

_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<without>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|\s(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


def label_selector(text: str) -> dict[str, Any]:
    """The selector as the API writes it; `InputError` where it is none."""
    return {"matchExpressions": list(_requirements(text))}


def _requirements(text: str) -> Iterator[dict[str, Any]]:
    position = 0
    while position < len(text) or not text:
        found = _REQUIREMENT.match(text, position)
        if found is None or (found.end() == len(text) and text.endswith(",")):
            raise InputError(
                f"--selector: {text!r} is not a label selector. Use a form such as team=sales,tier!=bronze, "
                "'tier in (gold, silver)', team or '!team'"
            )
        yield _requirement(found)
        position = found.end()


def _requirement(found: "re.Match[str]") -> dict[str, Any]:
    if found["absent"]:
        return {"key": found["without"], "operator": "DoesNotExist"}
    if found["word"]:
        values = [value.strip() for value in found["values"].split(",")]
        return {"key": found["key"], "operator": "In" if found["word"] == "in" else "NotIn", "values": values}
    if found["sign"]:
        operator = "NotIn" if found["sign"] == "!=" else "In"
        return {"key": found["key"], "operator": operator, "values": [found["value"]]}
    return {"key": found["key"], "operator": "Exists"}
