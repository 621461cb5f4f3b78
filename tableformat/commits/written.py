"""The files that a commit writes before its swap, which are removed when it is certain that nothing refers to them."""

from collections.abc import Collection

from pyiceberg.io import FileIO

from tableformat.engine.writing import remove_files


class WrittenFiles:
    """Manifests and manifest lists of all attempts of one commit."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._offered: Collection[str] = ()

    def note(self, path: str) -> None:
        """A file that is about to be written."""
        self._paths.append(path)

    def offer(self, paths: Collection[str]) -> None:
        """What the snapshot of the current attempt refers to."""
        self._offered = paths

    def remove(self, io: FileIO) -> None:
        """When no attempt landed, and none still can."""
        self._remove(io, frozenset())

    def remove_unused(self, io: FileIO) -> None:
        """When the last attempt landed, and no other can."""
        self._remove(io, frozenset(self._offered))

    def _remove(self, io: FileIO, keep: frozenset[str]) -> None:
        remove_files(io, [path for path in self._paths if path not in keep])
        self._paths = [path for path in self._paths if path in keep]
