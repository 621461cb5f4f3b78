"""An object with its schema's defaults filled in, and with nulls dropped where a default stands in for them."""

from typing import Any

from tablewright.api.admission.schemas import Schema


def with_defaults(schema: Schema, value: Any) -> Any:
    if isinstance(value, dict):
        properties: Schema = schema.get("properties", {})
        filled = {
            name: with_defaults(properties.get(name, _others(schema)), inner)
            for name, inner in value.items()
            if not (inner is None and "default" in properties.get(name, {}))
        }
        for name, child in properties.items():
            if name not in filled and "default" in child:
                filled[name] = with_defaults(child, child["default"])
        return filled
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), item) for item in value]
    return value


def _others(schema: Schema) -> Schema:
    others = schema.get("additionalProperties", {})
    return others if isinstance(others, dict) else {}
