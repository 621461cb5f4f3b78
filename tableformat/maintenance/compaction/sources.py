"""The source files of a task as rows of the snapshot's own table, which become objects only when somebody looks.

A plan can have a million files. As objects they take more time and memory than the whole plan; as row numbers they take
nothing. A task that goes to another process takes its own rows with it, and no others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
from typing_extensions import override

from tableformat.engine import SourceFile
from tableformat.inspection import FORMATS, Integers

_COLUMNS: Final = ("path", "file_format", "size_bytes", "records", "sequence_number", "first_row_id")
_FORMATS: Final = tuple(file_format.value for file_format in FORMATS)
_ROWS_AT_A_TIME: Final = 10_000


class SourceFiles(Sequence[SourceFile]):
    def __init__(self, files: pa.Table, rows: Integers) -> None:
        """The rows of a snapshot's table of data files."""
        self._files = files
        self._rows = rows

    @override
    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> SourceFile: ...
    @overload
    def __getitem__(self, place: slice) -> "SourceFiles": ...
    @override
    def __getitem__(self, place: int | slice) -> "SourceFile | SourceFiles":
        if isinstance(place, slice):
            return SourceFiles(self._files, self._rows[place])
        return next(self._made(self._rows[[place]]))

    @override
    def __iter__(self) -> Iterator[SourceFile]:
        for start in range(0, len(self), _ROWS_AT_A_TIME):
            yield from self._made(self._rows[start : start + _ROWS_AT_A_TIME])

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]  # as every list of files

    @override
    def __repr__(self) -> str:
        return f"<{len(self)} source files>"

    @override
    def __reduce__(self) -> tuple[Callable[[bytes], "SourceFiles"], tuple[bytes]]:
        own = self._own(self._rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, own.schema) as writer:
            writer.write_table(own)
        return _received, (sink.getvalue().to_pybytes(),)

    def _own(self, rows: Integers) -> pa.Table:
        return self._files.select(_COLUMNS).take(pa.array(rows, pa.int64()))

    def _made(self, rows: Integers) -> Iterator[SourceFile]:
        path, file_format, *numbers = (column.to_pylist() for column in self._own(rows).columns)
        return map(SourceFile, path, map(_FORMATS.__getitem__, file_format), *numbers)


def _received(stream: bytes) -> SourceFiles:
    files = pa.ipc.open_stream(stream).read_all()
    return SourceFiles(files, np.arange(files.num_rows))


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)
