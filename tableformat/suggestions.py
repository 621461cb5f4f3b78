"""What somebody meant who wrote an unknown name: one answer for fields, kinds, columns, operations and tables."""

import difflib
import json
from collections.abc import Iterable

_MOST_NAMED = 12
_ALIKE = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever their case; None where none is near."""
    by_folded = {choice.lower(): choice for choice in sorted(known)}
    near = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=_ALIKE)
    return by_folded[near[0]] if near else None


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`unknown field "compacton"; did you mean "compaction"?`, or which names there are, where they are few."""
    return f"unknown {what} {quoted(name)}; {did_you_mean(name, known)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The second half of such a sentence."""
    choices = sorted(known)
    near = nearest(name, choices)
    if near is not None:
        return f"did you mean {quoted(near)}?"
    return f"expected one of {', '.join(choices)}" if 0 < len(choices) <= _MOST_NAMED else "no known name is like it"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
