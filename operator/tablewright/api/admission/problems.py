"""One thing that is wrong with an object, and where in it."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    path: Path
    message: str
    at_value: bool = True
    """Whether to point at the field's value; otherwise at its name, as for a field that should not be there."""

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.message}" if self.path else self.message


def path_text(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, or all of them where none is near and they are few."""
    choices = sorted(known)
    by_folded = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {by_folded[near[0]]}?"
    return f"known here: {', '.join(choices)}" if 0 < len(choices) <= 12 else "there is no such name here"
