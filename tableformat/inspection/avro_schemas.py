"""Avro schemas of manifests that do not say what their records are, or that PyIceberg does not understand.

Iceberg Java writes partition values of type `fixed` with their length in front of them, as Avro writes `bytes`, under a
schema that says `fixed`. PyIceberg does not know nanoseconds, although it would read them as the numbers that they are.
"""

import json
from collections.abc import Mapping
from typing import Any

_NANOSECONDS = "timestamp-nanos"


def with_lengths(schema: str) -> str | None:
    """The schema with `bytes` in the place of plain `fixed`, as Java encodes it; None if it has no such type."""
    if '"fixed"' not in schema:
        return None
    parsed = json.loads(schema)
    names = {each["name"] for each in _definitions(parsed) if _is_plain_fixed(each)}
    return json.dumps(_replaced(parsed, names)) if names else None


def without_nanoseconds(schema: str) -> str:
    """The schema with `long` in the place of nanoseconds."""
    return json.dumps(_replaced(json.loads(schema), set())) if _NANOSECONDS in schema else schema


def _is_plain_fixed(avro_type: Mapping[str, Any]) -> bool:
    """Decimals and UUIDs are `fixed` with a logical type, and Java writes those as the schema says."""
    return avro_type.get("type") == "fixed" and "logicalType" not in avro_type


def _definitions(node: Any) -> list[Mapping[str, Any]]:
    if isinstance(node, list):
        return [found for each in node for found in _definitions(each)]
    if isinstance(node, dict):
        return [node, *(found for each in node.values() for found in _definitions(each))]
    return []


def _replaced(node: Any, fixed_names: set[str]) -> Any:
    if isinstance(node, list):
        return [_replaced(each, fixed_names) for each in node]
    if isinstance(node, str):
        return "bytes" if node in fixed_names else node
    if not isinstance(node, dict):
        return node
    if _is_plain_fixed(node) and node["name"] in fixed_names:
        return "bytes"
    if node.get("logicalType") == _NANOSECONDS:
        return node["type"]
    # Names of fields are no types: a field may be called what a type is called.
    return {
        key: _replaced(value, fixed_names) if key in ("type", "fields", "items", "values") else value
        for key, value in node.items()
    }
