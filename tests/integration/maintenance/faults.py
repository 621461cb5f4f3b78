"""Calls that go wrong: a process that dies after its n-th one, files that stay, answers that are lost.

Nothing that a dead process does has any effect.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyiceberg.io import FileIO, InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.storage import Deleted, FileStore, StoredFile, open_store
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, append

T = TypeVar("T")


class Killed(BaseException):
    """Not an `Exception`: no handler of ours may catch it."""


class Life:
    """Ends after so many calls."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def call(self, action: Callable[[], T]) -> T:
        if self.calls <= 0:
            raise Killed
        result = action()
        self.calls -= 1
        if self.calls == 0:
            raise Killed
        return result


class MortalIO(PyArrowFileIO):
    def __init__(self, io: PyArrowFileIO, life: Life) -> None:
        super().__init__(io.properties)
        self._life = life

    def new_input(self, location: str) -> PyArrowFile:
        return self._life.call(lambda: super(MortalIO, self).new_input(location))

    def new_output(self, location: str) -> PyArrowFile:
        return _MortalFile(self._life.call(lambda: super(MortalIO, self).new_output(location)), self._life)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._life.call(lambda: super(MortalIO, self).delete(location))


class _MortalFile(PyArrowFile):
    def __init__(self, file: PyArrowFile, life: Life) -> None:
        super().__init__(file.location, file._path, file._filesystem, file._buffer_size)
        self._life = life

    def create(self, overwrite: bool = False) -> OutputStream:
        return self._life.call(lambda: super(_MortalFile, self).create(overwrite))


class MortalStore:
    def __init__(self, store: FileStore, life: Life) -> None:
        self._store = store
        self._life = life

    def files(self, folder: str) -> Iterator[StoredFile]:
        return iter(self._life.call(lambda: list(self._store.files(folder))))

    def delete(self, locations: Collection[str]) -> Deleted:
        return Deleted.merged([self._life.call(partial(self._store.delete, [one])) for one in locations])


class Stubborn:
    """Storage that refuses to delete what has a word in its name."""

    def __init__(self, store: FileStore, word: str) -> None:
        self._store = store
        self._word = word

    def files(self, folder: str) -> Iterator[StoredFile]:
        return self._store.files(folder)

    def delete(self, locations: Collection[str]) -> Deleted:
        refused = {one: "permission denied" for one in locations if self._word in one}
        rest = [one for one in locations if one not in refused]
        return Deleted.merged([self._store.delete(rest), Deleted(failed=refused)])


class MortalCatalog(LocalCatalog):
    def __init__(self, folder: Path, calls: int) -> None:
        self.life = Life(calls)
        super().__init__(folder)

    def wrap(self, io: PyArrowFileIO) -> FileIO:
        return MortalIO(io, self.life)

    @property
    def store(self) -> FileStore:
        return MortalStore(open_store(PyArrowFileIO()), self.life)

    def read_pointer(self, identifier: Identifier) -> Pointer | None:
        return self.life.call(lambda: super(MortalCatalog, self).read_pointer(identifier))

    def swap_pointer(self, identifier: Identifier, expected: Pointer, location: str, metadata: TableMetadata) -> None:
        self.life.call(lambda: super(MortalCatalog, self).swap_pointer(identifier, expected, location, metadata))


@contextmanager
def mortal(catalog: PointerCatalog, calls: int) -> Iterator[Life]:
    """Any catalog of ours in the hands of a process that dies after so many calls, with its tables' storage."""
    life = Life(calls)
    read, swap, file_io = catalog.read_pointer, catalog.swap_pointer, catalog._load_file_io

    def load_file_io(*arguments: Any, **named: Any) -> FileIO:
        io = file_io(*arguments, **named)
        return MortalIO(io if isinstance(io, PyArrowFileIO) else PyArrowFileIO(io.properties), life)

    patched = {
        "read_pointer": lambda *arguments: life.call(lambda: read(*arguments)),
        "swap_pointer": lambda *arguments: life.call(lambda: swap(*arguments)),
        "_load_file_io": load_file_io,
    }
    for name, method in patched.items():
        setattr(catalog, name, method)
    try:
        yield life
    finally:
        for name in patched:
            delattr(catalog, name)


def killed_after_every_call(
    folder: Path, operation: Callable[[MortalCatalog], object], *, limit: int = 1000
) -> Iterator[int]:
    """Runs the operation again and again, each time dying a call later, until it lives to its end."""
    for calls in range(1, limit):
        catalog = MortalCatalog(folder, calls)
        try:
            operation(catalog)
            return
        except Killed:
            yield calls
        finally:
            catalog.close()
    raise AssertionError(f"the operation makes more than {limit} calls")


class Deaf(LocalCatalog):
    """Commits, loses the answer, and lets another writer commit before anybody looks."""

    def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
        super().commit_table(table, requirements, updates)
        other = LocalCatalog(self.folder)
        append(other.load_table(IDENTIFIER))
        other.close()
        raise ConnectionError("the answer was lost")

    folder: Path
