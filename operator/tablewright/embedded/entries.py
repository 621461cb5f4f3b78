"""Entries of a declared object by path: where the one is that a refusal names, and the object without some of them."""

import re
from typing import Any

from tablewright.api.admission import Path as FieldPath
from tablewright.api.objects import KubernetesObject


def spec_path(obj: KubernetesObject, field_text: str, nth: int = 0) -> FieldPath:
    """A refusal names an entry by its name (`schema.columns[ts].type`); in the file it has a number.

    `nth`: which of the entries of that name, where several have it.
    """
    path: list[str | int] = ["spec"]
    node = obj.get("spec")
    for name, _, key in re.findall(r"([A-Za-z]+)(\[([^\]]*)\])?", field_text):
        path.append(name)
        node = node.get(name) if isinstance(node, dict) else None
        if key and isinstance(node, dict):
            return (*path, key)
        if key and isinstance(node, list):
            number, inner = _entry(node, key, nth)
            if number is None:
                break
            path.append(number)
            node = node[number]
            if inner:  # a field inside a column: where it is described, or else in the column's type
                described, _ = _entry(node.get("nested"), inner, 0)
                if described is None:
                    return (*path, "type")
                path += ["nested", described]
                node = node["nested"][described]
    return tuple(path)


def _entry(items: Any, key: str, nth: int) -> tuple[int | None, str]:
    """The entry of this name; or of the longest name that leads to it, and the way from there."""
    named = [(number, name) for number, item in enumerate(items or ()) for name in _names_of(item)]
    exact = [number for number, name in named if name == key]
    if exact:
        return exact[min(nth, len(exact) - 1)], ""
    around = [(number, name) for number, name in named if key.startswith(f"{name}.")]
    if not around:
        return None, ""
    number, name = max(around, key=lambda each: len(each[1]))
    return number, key.removeprefix(f"{name}.")


def _names_of(item: Any) -> tuple[str, ...]:
    names = (item.get("name"), item.get("column"), item.get("path")) if isinstance(item, dict) else (item,)
    return tuple(name for name in names if isinstance(name, str))


def column_at(obj: KubernetesObject, path: FieldPath) -> set[str]:
    """The name of the declared column that the path leads into."""
    if path[:3] != ("spec", "schema", "columns") or len(path) < 4:
        return set()
    column: Any = obj
    for step in path[:4]:
        column = column[step]
    name = column.get("name") if isinstance(column, dict) else None
    return {name} if isinstance(name, str) else set()


def prune(obj: KubernetesObject, path: FieldPath) -> bool:
    """Takes what is at the path out of the object; what lacks it, if it is not there. Whether the object is left."""
    above: list[tuple[Any, Any]] = []
    node: Any = obj
    for step in path:
        there = range(len(node)) if isinstance(node, list) else node if isinstance(node, dict) else ()
        if step not in there:
            break
        above.append((node, step))
        node = node[step]
    if len(above) < 2:  # its spec, or all of it
        return False
    holder, step = above[-1]
    if isinstance(holder, dict):
        del holder[step]
    else:
        holder[step] = None  # so that the numbers of the others stay as they are
    return True


def without_gaps(value: Any) -> Any:
    """Lists without what was taken out of them."""
    if isinstance(value, dict):
        return {name: without_gaps(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_gaps(item) for item in value if item is not None]
    return value
