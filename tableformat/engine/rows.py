"""The live rows of a task's files: read, brought to the current schema, with their lineage, without those deleted."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from tableformat.engine.checksum import Checksum
from tableformat.engine.deletes import FileDeletes, TaskDeletes, column_path, key_column
from tableformat.engine.equality import same_values
from tableformat.engine.errors import UnreadableDataFile
from tableformat.engine.lineage import fill_lineage
from tableformat.engine.parallel import Readers, in_turn
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.task import RewriteTask, SourceFile

_AHEAD_ROWS = 1024 * 1024
_AHEAD_BYTES = 64 * 1024 * 1024  # as they are in the files
_HELD_BYTES = 128 * 1024 * 1024  # as they are in memory, where the same text a thousand times is a thousand texts


@dataclass
class _FileRows:
    """The live rows of a file, as far as they were read ahead, and those that come after them."""

    deletes: FileDeletes | None
    checksum: Checksum | None
    ahead: deque[pa.RecordBatch] = field(default_factory=deque)
    rest: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))

    @property
    def deleted(self) -> int:
        """As far as they were read."""
        return 0 if self.deletes is None else self.deletes.rows_deleted


class _Held:
    """The bytes of batches that were read and not taken yet, by all readers together."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bytes = 0
        self._seen_bytes = self._seen_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._bytes += batch.nbytes
            self._seen_bytes += batch.nbytes
            self._seen_rows += batch.num_rows

    def remove(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._bytes -= batch.nbytes

    def is_full(self) -> bool:
        return self._bytes >= _HELD_BYTES

    def row_bytes(self) -> float:
        """Of the rows that were read so far."""
        return self._seen_bytes / max(1, self._seen_rows)


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
        self._held = _Held()
        self._deletes = TaskDeletes(io, task, readers) if task.position_deletes or task.equality_deletes else None
        self._current: _FileRows | None = None

    def expected(self) -> int:
        """All the rows that come out in the end, as far as it is known by now how many are deleted."""
        return self._task.source_records - self.deleted - (0 if self._current is None else self._current.deleted)

    def batches(self) -> Iterator[pa.RecordBatch]:
        ahead = in_turn(self._readers, self._task.sources, self._read_ahead, weight=self._weight, limit=_AHEAD_ROWS)
        for _, file in ahead:
            self._current = file
            while file.ahead:
                batch = file.ahead.popleft()
                self._held.remove(batch)
                yield batch
            yield from file.rest
            self.deleted, self._current = self.deleted + file.deleted, None
            if self.checksum is not None and file.checksum is not None:
                self.checksum.merge(file.checksum)

    def _read_ahead(self, source: SourceFile) -> _FileRows:
        """The rows of a file. Those that are too many come piece by piece, when it is their turn."""
        deletes = self._deletes.of(source) if self._deletes is not None else None
        file = _FileRows(deletes, None if self.checksum is None else Checksum())
        file.rest = self._stream(source, file)
        if _weight(source) > _AHEAD_ROWS // 4:
            return file
        while not self._held.is_full():
            batch = next(file.rest, None)
            if batch is None:
                break
            self._held.add(batch)
            file.ahead.append(batch)
        return file

    def _weight(self, source: SourceFile) -> int:
        """As far as it is known by now how wide rows are in memory."""
        return max(_weight(source), int(source.records * self._held.row_bytes() * _AHEAD_ROWS / _HELD_BYTES))

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
        for batch in batches:
            if self._task.output_spec is not None:
                _require_partition_values(batch, self._task, source)
            live = batch if file.deletes is None else file.deletes.apply(batch).select(self._columns)
            if file.checksum is not None:
                file.checksum.add(live)
            yield live


def _require_partition_values(batch: pa.RecordBatch, task: RewriteTask, source: SourceFile) -> None:
    """Iceberg Java reads identity partition values in the place of a file's own: outside the partition it would not."""
    for field_id, value in task.identity_values.items():
        try:
            path = column_path(task.read_schema, field_id)
        except ValueError:
            continue  # the column is gone
        stored = key_column(batch, path)
        expected = key_column(_constant(batch, path, value), (0,))
        if not same_values(stored, expected).all():
            name = task.read_schema.find_column_name(field_id)
            reason = f"column {name!r} has values other than its identity partition's, {value}, which other readers see"
            raise UnreadableDataFile(source.path, reason)


def _constant(batch: pa.RecordBatch, path: tuple[int, ...], value: object) -> pa.RecordBatch:
    kind = batch.schema.field(path[0]).type
    for place in path[1:]:
        kind = kind.field(place).type
    array = pa.nulls(batch.num_rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), batch.num_rows)
    return pa.record_batch([array], names=["value"])


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
