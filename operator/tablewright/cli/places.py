"""Where the embedded path keeps things, for commands that need to know it before anything is loaded."""

from pathlib import Path


def state_folder(folder: Path, state: Path | None) -> Path:
    return state or (folder if folder.is_dir() else folder.parent) / ".tablewright"
