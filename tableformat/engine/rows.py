"""The live rows of a task's files: read, brought to the current schema, with their lineage, without those deleted."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from tableformat.engine.checksum import Checksum
from tableformat.engine.deletes import TaskDeletes
from tableformat.engine.lineage import fill_lineage
from tableformat.engine.parallel import Readers, in_turn
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.task import RewriteTask, SourceFile

_AHEAD_ROWS = 1024 * 1024
_AHEAD_BYTES = 64 * 1024 * 1024  # as they are in the files


@dataclass
class _FileRows:
    """The live rows of a whole file."""

    batches: list[pa.RecordBatch]
    deleted: int
    checksum: Checksum | None


class TaskRows:
    """The live rows of a task's files, in the current schema and in the order of the files.

    Files with few rows are read ahead, several at a time: each costs a wait for storage, and a core of its own.
    """

    def __init__(self, io: FileIO, task: RewriteTask, readers: Readers) -> None:
        self.deleted = 0
        self.checksum = Checksum() if task.verify_contents else None
        self._io = io
        self._task = task
        self._readers = readers
        self._target = TargetSchema.of(task.read_schema)
        self._mapping = name_mapping(task)
        self._columns = list(range(len(task.schema.fields)))
        self._deletes = TaskDeletes(io, task) if task.position_deletes or task.equality_deletes else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        ahead = in_turn(self._readers, self._task.sources, self._read_ahead, weight=_weight, limit=_AHEAD_ROWS)
        for source, rows in ahead:
            if rows is None:
                file = self._nothing_yet()
                yield from self._stream(source, file)
            else:
                file = rows
                yield from file.batches
                file.batches.clear()
            self.deleted += file.deleted
            if self.checksum is not None and file.checksum is not None:
                self.checksum.merge(file.checksum)

    def _read_ahead(self, source: SourceFile) -> _FileRows | None:
        """All rows of a file, unless they are so many that they have to come piece by piece."""
        if _weight(source) > _AHEAD_ROWS // 4:
            return None
        file = self._nothing_yet()
        file.batches = list(self._stream(source, file))
        return file

    def _nothing_yet(self) -> _FileRows:
        return _FileRows([], 0, None if self.checksum is None else Checksum())

    def _stream(self, source: SourceFile, file: _FileRows) -> Iterator[pa.RecordBatch]:
        """The file's live rows; what is counted on the way is noted in `file`."""
        batches: Iterator[pa.RecordBatch] = read_batches(
            self._io,
            source,
            self._target,
            name_mapping=self._mapping,
            identity_values=self._task.identity_values,
        )
        if self._task.keeps_lineage:
            batches = _with_lineage(batches, source)
        deletes = self._deletes.of(source) if self._deletes is not None else None
        for batch in batches:
            live = batch if deletes is None else deletes.apply(batch).select(self._columns)
            if file.checksum is not None:
                file.checksum.add(live)
            yield live
        file.deleted = 0 if deletes is None else deletes.rows_deleted


def _weight(source: SourceFile) -> int:
    """In rows; wide ones count for several, so that what is read ahead is bounded in bytes, too."""
    return max(source.records, source.size_bytes * _AHEAD_ROWS // _AHEAD_BYTES)


def _with_lineage(batches: Iterator[pa.RecordBatch], source: SourceFile) -> Iterator[pa.RecordBatch]:
    row = 0
    for batch in batches:
        yield fill_lineage(batch, source, row)
        row += batch.num_rows


def name_mapping(task: RewriteTask) -> NameMapping | None:
    text = task.table_properties.get(TableProperties.DEFAULT_NAME_MAPPING)
    return None if text is None else parse_mapping_from_json(text)
