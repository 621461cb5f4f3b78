"""An object as the API server takes it in: without the nulls that its schema knows no use for, with its defaults."""

from typing import Any

from tablewright.api.admission.schemas import Schema


def with_defaults(schema: Schema, value: Any) -> Any:
    if isinstance(value, dict):
        properties: Schema = schema.get("properties", {})
        filled = {
            name: with_defaults(properties.get(name, _others(schema)), inner)
            for name, inner in value.items()
            if inner is not None or _may_be_null(properties.get(name) or _others(schema))
        }
        for name, child in properties.items():
            if name not in filled and "default" in child:
                filled[name] = with_defaults(child, child["default"])
        return filled
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), item) for item in value]
    return value


def _may_be_null(schema: Schema) -> bool:
    """What the schema does not know stays, to be named as unknown."""
    return not schema or bool(schema.get("nullable"))


def _others(schema: Schema) -> Schema:
    others = schema.get("additionalProperties", {})
    return others if isinstance(others, dict) else {}
