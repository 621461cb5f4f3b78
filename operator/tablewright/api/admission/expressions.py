"""The CRDs' CEL rules, evaluated as the API server does on creation: rules about a change (`oldSelf`) have no say."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from tablewright.api.admission.problems import Path, Problem
from tablewright.api.admission.schemas import Schema

# A property of such a name is written with underscores in CEL, because the word itself means something there.
_RESERVED = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"}
    | {"let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def rule_problems(schema: Schema, value: Any, path: Path = ()) -> Iterator[Problem]:
    """`value` has passed its structural schema, and has its defaults."""
    if value is None:
        return
    rules = [rule for rule in schema.get("x-kubernetes-validations", ()) if not _is_about_a_change(rule)]
    if rules:
        variables = {"self": _cel_value(schema, value)}
        for rule in rules:
            failure = _failure(rule, variables)
            if failure is not None:
                yield Problem((*path, *_field_path(rule)), failure)
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, inner in value.items():
            child = properties.get(name, others if isinstance(others, dict) else {})
            yield from rule_problems(child, inner, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from rule_problems(schema.get("items", {}), item, (*path, number))


def _is_about_a_change(rule: dict[str, Any]) -> bool:
    return re.search(r"\boldSelf\b", rule["rule"]) is not None and not rule.get("optionalOldSelf")


def _failure(rule: dict[str, Any], variables: dict[str, Any]) -> str | None:
    """A rule that cannot be evaluated did not hold: so does the API server see it."""
    try:
        if _program(rule["rule"]).execute(variables) is True:
            return None
    except (KeyError, RuntimeError, TypeError, ValueError):
        pass
    if "messageExpression" in rule:
        return str(_program(rule["messageExpression"]).execute(variables))
    return str(rule.get("message", f"does not hold: {rule['rule']}"))


def _field_path(rule: dict[str, Any]) -> Path:
    return tuple(part for part in rule.get("fieldPath", "").split(".") if part)


@cache
def _program(text: str) -> Any:
    import cel  # half a second, which only those who validate should pay

    return cel.compile(text)


def _cel_value(schema: Schema, value: Any) -> Any:
    if isinstance(value, dict):
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if properties is not None:
            return {_escaped(name): _cel_value(properties.get(name, {}), inner) for name, inner in value.items()}
        child = others if isinstance(others, dict) else {}
        return {name: _cel_value(child, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cel_value(schema.get("items", {}), item) for item in value]
    if isinstance(value, str) and schema.get("format") == "date-time":
        return datetime.fromisoformat(value)
    if isinstance(value, float) and schema.get("type") == "integer":
        return int(value)
    return value


def _escaped(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda match: _ESCAPES[match[0]], name)
