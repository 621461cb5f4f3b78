"""A difference for people (text, as a pull request shows it) and for programs (JSON)."""

import json

from tableformat.declaration.changes import Change
from tableformat.declaration.difference import Difference
from tableformat.declaration.refusals import Refusal

_SIGNS = {"CreateTable": "+", "AddColumn": "+", "DropColumn": "-", "UnsetProperty": "-"}


def render_text(found: Difference) -> str:
    """One line a change (`+` adds, `-` removes, `~` alters), then the refusals; a last line says what follows."""
    lines = [f"{_SIGNS.get(type(change).__name__, '~')} {change.sentence}" for change in found.changes]
    for refusal in found.refusals:
        lines += [f"! {refusal.field}: {refusal.reason}", f"    {refusal.remedy}."]
    lines.append(_conclusion(found))
    return "\n".join(lines) + "\n"


def render_json(found: Difference) -> str:
    """The same with stable keys, in the same order."""
    document = {
        "changes": [_change(change) for change in found.changes],
        "refusals": [_refusal(refusal) for refusal in found.refusals],
        "applicable": not found.refusals,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _conclusion(found: Difference) -> str:
    if found.refusals:
        count = len(found.refusals)
        return f"Nothing is changed: {count} {'obstacle' if count == 1 else 'obstacles'}."
    if not found.changes:
        return "The table is as declared."
    return f"{len(found.changes)} {'change' if len(found.changes) == 1 else 'changes'}, in one commit."


def _change(change: Change) -> dict[str, str | None]:
    return {
        "change": type(change).__name__,
        "field": change.field,
        "before": change.before,
        "after": change.after,
        "description": change.sentence,
    }


def _refusal(refusal: Refusal) -> dict[str, str | None]:
    return {
        "refusal": refusal.kind.value,
        "field": refusal.field,
        "declared": refusal.declared,
        "found": refusal.found,
        "reason": refusal.reason,
        "remedy": refusal.remedy,
    }
