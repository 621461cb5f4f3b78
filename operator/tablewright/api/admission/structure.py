"""An object against its structural schema: types, bounds, patterns, required and unknown fields, list keys.

Written for the part of OpenAPI that CRDs use, because the answers are for people: every problem at once, each with its
path, and for an unknown field the nearest known one.
"""

import json
import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tableformat.secrets import without_passwords
from tableformat.suggestions import did_you_mean, nearest, quoted, unknown
from tablewright.api.admission.forms import forms
from tablewright.api.admission.problems import Path, Problem
from tablewright.api.admission.schemas import Schema
from tablewright.api.objects import MISSING

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_WHOLE_NUMBERS = {"int32": 31, "int64": 63}


def structure_problems(schema: Schema, value: Any, path: Path = ()) -> Iterator[Problem]:
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield Problem(path, f"must be a whole number or text, not {_kind(value)}")
        return
    wanted = schema.get("type")
    if wanted is not None and not _is(wanted, value):
        yield Problem(path, f"must be {_article(wanted)}, not {_kind(value)}{_hint(schema, value)}")
        return
    if "enum" in schema and value not in schema["enum"]:
        allowed = [str(choice) for choice in schema["enum"]]
        yield Problem(path, f"unknown value {_kind(value)}; {_meant(str(value), allowed)}")
        return
    if isinstance(value, str):
        yield from _text_problems(schema, value, path)
    elif isinstance(value, dict):
        yield from _object_problems(schema, value, path)
    elif isinstance(value, list):
        yield from _list_problems(schema, value, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_problems(schema, value, path)


def _text_problems(schema: Schema, value: str, path: Path) -> Iterator[Problem]:
    outside = list(_bounds(schema, len(value), "Length", "character", path))
    pattern = schema.get("pattern")
    form = forms().get(pattern) if pattern is not None and (outside or not _matches(pattern, value)) else None
    if form is not None:
        yield Problem(path, form.complaint(without_passwords(value)))
    else:
        yield from outside
    if schema.get("format") == "date-time" and not is_time(value):
        yield Problem(path, f"{quoted(value)} is not a time; use a form such as 2026-09-30T23:59:59Z")


def _number_problems(schema: Schema, value: float, path: Path) -> Iterator[Problem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        yield Problem(path, f"is {value}; the minimum is {least}")
    if most is not None and value > most:
        yield Problem(path, f"is {value}; the maximum is {most}")
        return
    bits = _WHOLE_NUMBERS.get(schema.get("format", ""), 63)
    if schema.get("type") == "integer" and not -(1 << bits) <= value < 1 << bits:
        yield Problem(path, f"is {value}, which does not fit into {bits + 1} bits")


def _object_problems(schema: Schema, value: dict[Any, Any], path: Path) -> Iterator[Problem]:
    properties: Schema = schema.get("properties", {})
    others = schema.get("additionalProperties")
    yield from _bounds(schema, len(value), "Properties", "entry", path)
    for name in schema.get("required", ()):
        if name not in value:
            yield Problem((*path, name), MISSING, at_value=False)
    for name, inner in value.items():
        where = (*path, name)
        if not isinstance(name, str):
            yield Problem((*path, str(name)), "must be text: put the field's name in quotes", at_value=False)
        elif name in properties:
            yield from structure_problems(properties[name], inner, where)
        elif isinstance(others, dict):
            yield from structure_problems(others, inner, where)
        elif others is None and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield Problem(where, unknown("field", name, properties), at_value=False)


def _list_problems(schema: Schema, value: list[Any], path: Path) -> Iterator[Problem]:
    yield from _bounds(schema, len(value), "Items", "item", path)
    for number, item in enumerate(value):
        yield from structure_problems(schema.get("items", {}), item, (*path, number))
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", [])
    seen: set[str] = set()
    for number, item in enumerate(value):
        if kind == "set":
            identity = json.dumps(item, sort_keys=True)
        elif kind == "map" and isinstance(item, dict):
            identity = json.dumps([item.get(key) for key in keys])
        else:
            continue
        if identity in seen:
            shown = ", ".join(_kind(item.get(key)) for key in keys) if kind == "map" else identity
            where = (*path, number, *keys) if len(keys) == 1 else (*path, number)
            yield Problem(where, f"repeats {shown}, which the list has already; remove or rename one of the two")
        seen.add(identity)


def _bounds(schema: Schema, count: int, suffix: str, what: str, path: Path) -> Iterator[Problem]:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if least is not None and count < least:
        yield Problem(path, f"has {_counted(count, what)}; the minimum is {least}")
    if most is not None and count > most:
        yield Problem(path, f"has {_counted(count, what)}; the maximum is {most}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what[:-1]}ies" if what[-1] == "y" else f"{count} {what}s"


def _meant(value: str, allowed: list[str]) -> str:
    """All that is allowed is named also where one of them is near: choices are few, and each means something else."""
    near = nearest(value, allowed)
    question = f"{did_you_mean(value, allowed)} " if near is not None else ""
    return f"{question}{'Allowed are' if question else 'allowed are'} {', '.join(allowed)}"


def is_time(value: str) -> bool:
    """As RFC 3339 writes a time, which Kubernetes asks for: with seconds and a zone."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", value).upper())
    except ValueError:
        return False
    return True


def _matches(pattern: str, value: str) -> bool:
    """Go's `$` is the text's very end; Python's also stands before a last newline."""
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value) is not None


def _is(wanted: str, value: Any) -> bool:
    if wanted in ("integer", "number") and isinstance(value, bool):
        return False
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted])


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, default=str, ensure_ascii=False)


def _article(wanted: str) -> str:
    words = {"integer": "a whole number", "object": "an object", "array": "a list", "string": "text"}
    return words.get(wanted, f"a {wanted}")


def _hint(schema: Schema, value: Any) -> str:
    """A number where text is wanted mostly lacks its quotes, or its unit."""
    if schema.get("type") != "string" or not isinstance(value, (bool, int, float)):
        return ""
    form = forms().get(schema.get("pattern", ""))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "; put it in quotes" if form is None or form.fits(text) else f"; use {form.use}"
