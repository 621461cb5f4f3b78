"""Objects as kubectl shows them: the columns that the CRD itself declares, and ages in kubectl's short words."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tablewright.api.admission.schemas import printer_columns
from tablewright.api.objects import KubernetesObject
from tablewright.cli.output import Cell, Column

_STEP = re.compile(r"""\.(?P<field>[A-Za-z0-9_]+)|\[\?\(@\.(?P<key>\w+)\s*==\s*["'](?P<value>[^"']*)["']\)\]""")


def columns_of(kind: str, *, with_namespace: bool) -> list[Column]:
    """A column of a priority above 0 is for `-o wide`, as everywhere in Kubernetes."""
    declared = [Column(entry["name"].upper(), entry.get("priority", 0) > 0) for entry in printer_columns(kind)]
    return [*([Column("NAMESPACE")] if with_namespace else []), Column("NAME"), *declared]


def row_of(kind: str, obj: KubernetesObject, *, with_namespace: bool, now: datetime) -> list[Cell]:
    metadata = obj["metadata"]
    values = [_shown(value_at(obj, entry["jsonPath"]), entry["type"], now) for entry in printer_columns(kind)]
    return [*([metadata.get("namespace")] if with_namespace else []), metadata["name"], *values]


def value_at(obj: Any, path: str) -> Any:
    """The part of JSONPath that printer columns use: fields, and the items of a list that have a given field."""
    value, position = obj, 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f'{path}: nothing but fields and [?(@.field=="value")] can be read')
        position = step.end()
        if step["field"] is not None:
            value = value.get(step["field"]) if isinstance(value, dict) else None
        else:
            items = value if isinstance(value, list) else []
            value = next((item for item in items if item.get(step["key"]) == step["value"]), None)
    return value


def age(since: datetime, now: datetime) -> str:
    """As kubectl says it: two units where the first is small, otherwise one."""
    seconds = int((now - since).total_seconds())
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    for holds, first, unit, rest, smaller in (
        (seconds < 120, seconds, "s", 0, ""),
        (minutes < 10, minutes, "m", seconds % 60, "s"),
        (minutes < 180, minutes, "m", 0, ""),
        (hours < 8, hours, "h", minutes % 60, "m"),
        (hours < 48, hours, "h", 0, ""),
        (days < 8, days, "d", hours % 24, "h"),
        (days < 730, days, "d", 0, ""),
        (days < 365 * 8, days // 365, "y", days % 365, "d"),
    ):
        if holds:
            return f"{first}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{days // 365}y"


def _shown(value: Any, kind: str, now: datetime) -> str | None:
    if value is None:
        return None
    if kind == "date":
        return age(datetime.fromisoformat(str(value)), now)
    return str(value).lower() if isinstance(value, bool) else str(value)


def described(obj: KubernetesObject) -> str:
    """An object for people: its name, what it is told, what is known of it; conditions and other lists as tables."""
    metadata = obj["metadata"]
    lines = [f"Name:       {metadata['name']}", f"Namespace:  {metadata.get('namespace', 'default')}"]
    for title in ("labels", "annotations"):
        pairs = metadata.get(title) or {}
        if pairs:
            lines.append(f"{title.capitalize()}:")
            lines += [f"  {key}={value}" for key, value in sorted(pairs.items())]
    for part in ("spec", "status"):
        if obj.get(part):
            lines += [f"{part.capitalize()}:", *_tree(obj[part], 1)]
    return "\n".join(lines)


def _tree(value: dict[str, Any], depth: int) -> list[str]:
    indent = "  " * depth
    plain = {key: inner for key, inner in value.items() if not isinstance(inner, (dict, list))}
    width = max((len(_words(key)) for key in plain), default=0)
    lines = [f"{indent}{_words(key) + ':':<{width + 1}}  {_plain(inner)}" for key, inner in plain.items()]
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            lines += [f"{indent}{_words(key)}:", *_tree(inner, depth + 1)]
        elif isinstance(inner, list) and inner:
            lines += [f"{indent}{_words(key)}:", *_list(inner, depth + 1)]
    return lines


def _list(items: Sequence[Any], depth: int) -> list[str]:
    indent = "  " * depth
    if not all(isinstance(item, dict) for item in items):
        return [f"{indent}{_plain(item)}" for item in items]
    if any(isinstance(inner, dict) for item in items for inner in item.values()):  # too much for a line
        return [line for item in items for line in ("", *_tree(item, depth))][1:]
    keys = list(dict.fromkeys(key for item in items for key in item))
    table = [[_words(key) for key in keys], *([_plain(item.get(key, "")) for key in keys] for item in items)]
    widths = [max(len(row[place]) for row in table) for place in range(len(keys))]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]


def _words(key: str) -> str:
    """`lastTransitionTime` as `Last Transition Time`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key)
    return spaced[:1].upper() + spaced[1:]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
