"""Where the embedded path keeps things, for commands that need to know it before anything is loaded."""

from collections.abc import Sequence
from pathlib import Path


def state_folder(given: Sequence[Path], state: Path | None) -> Path:
    """Beside the first of the declarations; those of standard input are the current folder's."""
    first = given[0]  # - for standard input has the current folder as its parent
    return state or (first if first.is_dir() else first.parent) / ".tablewright"
