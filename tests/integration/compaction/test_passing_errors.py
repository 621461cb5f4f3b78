"""Storage that fails for a moment while a file is read: the file is none the worse for it, and is tried again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table

from tableformat.engine import UnreachableDataFile, UnreadableDataFile, reading
from tableformat.engine.projection import Projection
from tests.integration.compaction.deletes import delete_positions
from tests.integration.compaction.tables import append_many, compacted, create, data_files, stored_rows

SLOW_DOWN = "AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate"


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    table = create(catalog)
    append_many(table, 6)
    return table


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as large as these come in pieces as well."""
    monkeypatch.setattr(reading, "_WHOLE_BELOW_BYTES", 0)


class FailingOnce:
    """Storage that refuses one request of those that concern a path, and answers before and after."""

    def __init__(self, path: str, monkeypatch: pytest.MonkeyPatch, *, request: int, opening: bool = False) -> None:
        self._path, self._requests, self._opening = path, iter(range(request, -1, -1)), opening
        real = PyArrowFile.open

        def open_file(file: PyArrowFile, seekable: bool = True) -> Any:
            stream = real(file, seekable)
            if file.location != path:
                return stream
            if opening:
                self.ask()
                return stream
            return pa.PythonFile(_Stream(stream, self.ask), mode="r")

        monkeypatch.setattr(PyArrowFile, "open", open_file)

    def ask(self) -> None:
        if next(self._requests, None) == 0:
            raise OSError(SLOW_DOWN)


class _Stream:
    def __init__(self, stream: Any, ask: Callable[[], None]) -> None:
        self._stream, self._ask = stream, ask

    def read(self, size: int = -1) -> bytes:
        self._ask()
        return bytes(self._stream.read(size))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("read"):  # those that Arrow would prefer
            raise AttributeError(name)
        return getattr(self._stream, name)


@pytest.mark.parametrize(
    ("whole", "opening", "at"),
    [(True, True, 0), (True, False, 0), (False, True, 0), (False, False, 0), (False, False, 1)],
)
def test_a_request_that_fails_once_damages_no_file(
    catalog: SqlCatalog,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    whole: bool,
    opening: bool,
    at: int,
) -> None:
    if not whole:
        request.getfixturevalue("in_pieces")
    before, path = stored_rows(table), data_files(table)[2].file_path
    FailingOnce(path, monkeypatch, request=at, opening=opening)

    with pytest.raises(UnreachableDataFile, match="SLOW_DOWN") as failure:
        compacted(catalog)

    assert failure.value.path == path
    assert compacted(catalog).files_rewritten == 6
    assert stored_rows(table.refresh()) == before


def test_a_delete_file_that_cannot_be_fetched_once_is_no_damaged_one(
    catalog: SqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_positions(table, {data_files(table)[0].file_path: [1]})
    [path] = [file.file_path for file in data_files(table.refresh()) if file.content.value]
    FailingOnce(path, monkeypatch, request=0, opening=True)

    with pytest.raises(UnreachableDataFile, match="SLOW_DOWN"):
        compacted(catalog)
    assert compacted(catalog).rows_deleted == 1


def test_a_file_in_pieces_that_fails_each_time_is_damaged(catalog: SqlCatalog, table: Table, in_pieces: None) -> None:
    path = data_files(table)[2].file_path
    file = Path(path.removeprefix("file://"))
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(bytes(content))

    with pytest.raises(UnreadableDataFile) as failure:
        compacted(catalog)
    assert failure.value.path == path


def test_want_of_memory_is_no_damage(catalog: SqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[pa.RecordBatch]:
        raise pa.ArrowMemoryError("malloc of size 1073741824 failed")

    monkeypatch.setattr(Projection, "apply", fails)
    with pytest.raises(MemoryError, match="malloc"):
        compacted(catalog)
