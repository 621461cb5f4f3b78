"""An object against its structural schema: types, bounds, patterns, required and unknown fields, list keys.

Written for the part of OpenAPI that CRDs use, because the answers are for people: every problem at once, each with its
path, and for an unknown field the nearest known one.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tableformat.secrets import without_passwords
from tablewright.api.admission.problems import Path, Problem, did_you_mean
from tablewright.api.admission.schemas import Schema

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
            yield Problem(path, f"must be a whole number or text, and is {_kind(value)}")
        return
    wanted = schema.get("type")
    if wanted is not None and not _is(wanted, value):
        yield Problem(path, f"must be {_article(wanted)}, and is {_kind(value)}{_hint(wanted, value)}")
        return
    if "enum" in schema and value not in schema["enum"]:
        allowed = [str(choice) for choice in schema["enum"]]
        meant = did_you_mean(value, allowed) if isinstance(value, str) else ""
        question = f": {meant}" if meant.startswith("did") else ""
        yield Problem(path, f"is {json.dumps(value)}; allowed are {', '.join(allowed)}{question}")
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
    yield from _bounds(schema, len(value), "Length", "characters", path)
    pattern = schema.get("pattern")
    if pattern is not None and not _matches(pattern, value):
        yield Problem(path, f"{json.dumps(without_passwords(value))} does not match {pattern}{_remedy(schema)}")
    if schema.get("format") == "date-time" and not is_time(value):
        yield Problem(path, f'{json.dumps(value)} is not a time: write one such as "2026-09-30T23:59:59Z"')


def _number_problems(schema: Schema, value: float, path: Path) -> Iterator[Problem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        yield Problem(path, f"is {value}; the least is {least}")
    if most is not None and value > most:
        yield Problem(path, f"is {value}; the most is {most}")
    bits = _WHOLE_NUMBERS.get(schema.get("format", ""), 63)
    if schema.get("type") == "integer" and not -(1 << bits) <= value < 1 << bits:
        yield Problem(path, f"is {value}, which does not fit into {bits + 1} bits")


def _object_problems(schema: Schema, value: dict[Any, Any], path: Path) -> Iterator[Problem]:
    properties: Schema = schema.get("properties", {})
    others = schema.get("additionalProperties")
    yield from _bounds(schema, len(value), "Properties", "entries", path)
    for name in schema.get("required", ()):
        if name not in value:
            yield Problem((*path, name), "is required", at_value=False)
    for name, inner in value.items():
        where = (*path, name)
        if not isinstance(name, str):
            yield Problem((*path, str(name)), "is no text, and names of fields are", at_value=False)
        elif name in properties:
            yield from structure_problems(properties[name], inner, where)
        elif isinstance(others, dict):
            yield from structure_problems(others, inner, where)
        elif others is None and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield Problem(where, f"there is no such field: {did_you_mean(name, properties)}", at_value=False)


def _list_problems(schema: Schema, value: list[Any], path: Path) -> Iterator[Problem]:
    yield from _bounds(schema, len(value), "Items", "items", path)
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
            shown = ", ".join(f"{key} {item.get(key)!r}" for key in keys) if kind == "map" else identity
            yield Problem((*path, number), f"is there twice: {shown}")
        seen.add(identity)


def _bounds(schema: Schema, count: int, suffix: str, what: str, path: Path) -> Iterator[Problem]:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if least is not None and count < least:
        yield Problem(path, f"has {count} {what}; at least {least} are needed")
    if most is not None and count > most:
        yield Problem(path, f"has {count} {what}; at most {most} are allowed")


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
    return json.dumps(value, default=str)


def _article(wanted: str) -> str:
    words = {"integer": "a whole number", "object": "an object", "array": "a list", "string": "text"}
    return words.get(wanted, f"a {wanted}")


def _hint(wanted: str, value: Any) -> str:
    return ": put it in quotes" if wanted == "string" and isinstance(value, (bool, int, float)) else ""


def _remedy(schema: Schema) -> str:
    description: str = schema.get("description", "")
    example = re.search(r"such as ([^ ,.]+)", description)
    if example:
        return f": write it such as {example[1]}"
    return f" ({description.rstrip('.')})" if description else ""
