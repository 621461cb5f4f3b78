"""Specs of our kinds, generated from the CRDs' schemas: such as the schema allows, and such as it does not.

The rules between fields (CEL) are not followed: what breaks them is part of the point. A seed gives the same spec
always. Hypothesis would take a second for each of these, which are large; it only supplies texts for the patterns.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.definitions import Schema

# What random text hardly ever hits, by the name of the field.
LIKELY: dict[str, list[str]] = {
    "type": ["long", "string", "timestamptz", "list<struct<sku: string, qty: int>>", "decimal(38,39)", "list<int"],
    "column": ["id", "ts", "absent"],
    "columns": ["id", "ts", "absent"],
    "identifierColumns": ["id", "absent"],
    "timeZone": ["UTC", "Asia/Kolkata", "Mars/Olympus"],
    "schedule": ["*/5 * * * *", "0 3 * * 0", "61 * * * *", "0 0 29 2 MON#5", "0 0 31 4 *"],
    "transform": ["identity", "day", "bucket[999999999]", "truncate[1]"],
    "initialDefault": ["0", "true", "2026-01-31", "null"],
    "location": ["file:///proc/version/x", "s3://bucket/x"],
    "warehouse": ["file:///proc/version/x", "file://relative"],
    "targetFileSize": ["2048000000", "512Mi", "1500000000"],
    "maxBytesPerRun": ["10240000000", "999999Ti", "1000000000000"],
    "bytesEach": ["2048000000", "1Gi", "1024000000"],
}
KEYS = ["team", "example.com/team", "write.format.default", "format-version", "", "a b", "é", "x" * 300]
TEXTS = ["", "id", "ts", "a b", "ключ", "🦆", "\x00", "\n", "'", '"', "../..", "x" * 64, "%s{}", "#?", "-1"]


@cache
def _texts_like(pattern: str) -> list[str]:
    found: list[str] = []

    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.from_regex(pattern, fullmatch=True))
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found


def allowed(node: Schema, random: Random, name: str = "") -> Any:
    """Something that the schema allows, leaving the rules between fields aside."""
    if "enum" in node:
        return random.choice(node["enum"])
    match node["type"]:
        case "string":
            return _text(node, random, name)
        case "integer":
            low, high = node.get("minimum", -(2**31)), node.get("maximum", 2**31)
            return random.choice([low, high, random.randint(low, high)])
        case "boolean":
            return random.random() < 0.5
        case "array":
            return _list(node, random, name)
    if "additionalProperties" in node:
        keys = random.sample(KEYS, random.randint(0, 2))
        return {key: allowed(node["additionalProperties"], random) for key in keys}
    required = node.get("required", ())
    return {
        field: allowed(child, random, field)
        for field, child in node.get("properties", {}).items()
        if field in required or random.random() < 0.3
    }


def _text(node: Schema, random: Random, name: str) -> str:
    if node.get("format") == "date-time":
        time = datetime(1900, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(400 * 365 * 86400))
        return time.isoformat().replace("+00:00", "Z")
    choices = _texts_like(node["pattern"]) if "pattern" in node else TEXTS
    fitting = [text for text in choices if node.get("minLength", 0) <= len(text) <= node["maxLength"]]
    likely = LIKELY.get(name)
    return random.choice(likely if likely and random.random() < 0.7 else fitting)


def _list(node: Schema, random: Random, name: str) -> list[Any]:
    items = [allowed(node["items"], random, name) for _ in range(random.randint(node.get("minItems", 0), 3))]
    keys = node.get("x-kubernetes-list-map-keys")
    if keys:
        return list({tuple(item[key] for key in keys): item for item in items}.values())
    return sorted(set(items)) if node["x-kubernetes-list-type"] == "set" else items


def near(good: dict[str, Any], node: Schema, random: Random) -> dict[str, Any]:
    """A good spec with some of its fields as the schema allows them: it comes further than one of chance alone."""
    other = allowed(node, random)
    changed = random.sample(sorted(other), min(2, len(other)))
    return {**good, **{field: other[field] for field in changed}}


def broken(node: Schema, random: Random) -> dict[str, Any]:
    """Something that the schema does not allow: an allowed spec with one thing wrong in it."""
    spec: dict[str, Any] = allowed(node, random)
    random.choice(_damages(spec, node))()
    return spec


def _damages(value: Any, node: Schema) -> list[Callable[[], None]]:
    """What could be done to the value, or to something in it, that the schema forbids."""
    found: list[Callable[[], None]] = []
    if isinstance(value, dict) and "additionalProperties" not in node:
        found.append(_putting(value, "no such field", 1))
        found += [_removing(value, field) for field in node.get("required", ())]
        for field, child in node.get("properties", {}).items():
            found += [_putting(value, field, wrong) for wrong in _wrong_values(child)]
            found += _damages(value.get(field), child)
    elif isinstance(value, list):
        for item in value:
            found += _damages(item, node["items"])
    return found


def _putting(into: dict[str, Any], field: str, wrong: Any) -> Callable[[], None]:
    return lambda: into.update({field: wrong})


def _removing(fields: dict[str, Any], field: str) -> Callable[[], None]:
    return lambda: fields.__delitem__(field)


def _wrong_values(node: Schema) -> list[Any]:
    found: list[Any] = [_of_another_type(node)]
    match node["type"]:
        case "string":
            found += ["x" * (node["maxLength"] + 1)] if "maxLength" in node else []
            found += ["no such choice"] if "enum" in node else []
            found += ["\n"] if "pattern" in node else []
            found += ["yesterday"] if node.get("format") == "date-time" else []
        case "integer":
            found += [node["maximum"] + 1] if "maximum" in node else []
            found += [node["minimum"] - 1] if "minimum" in node else []
            found += [99] if "enum" in node else []
        case "array":
            found += [[_of_another_type(node["items"])]]
    return found


def _of_another_type(node: Schema) -> Any:
    return {"string": 7, "integer": "7", "boolean": "true", "array": {}, "object": []}[node["type"]]
