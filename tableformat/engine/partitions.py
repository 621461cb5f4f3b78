"""Divides rows among the partitions of a spec, for files that move to a table's current spec.

Rows come sorted by partition, so that one partition is written after the other and memory holds one at a time. How many
rows each has is counted while they are read, because a file's size is chosen by what is still to come.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record

from tableformat.engine.deletes import column_path
from tableformat.engine.sort_codes import integers
from tableformat.engine.task import SortColumn
from tableformat.engine.transforms import partition_values, transformed

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Place:
    """The partition that a file belongs to, and its folder."""

    spec: PartitionSpec
    partition: Record
    path: str


class Partitioning:
    """The partitions of a spec, as far as rows have been seen."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._spec = spec
        self._schema = schema
        self._rows: Counter[Key] = Counter()

    @property
    def columns(self) -> list[SortColumn]:
        """What brings the rows of a partition together."""
        return [
            SortColumn(field.source_id, descending=False, nulls_first=True, transform=field.transform)
            for field in self._spec.fields
            if not isinstance(field.transform, VoidTransform)
        ]

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for key, rows in self.runs(batch):
                self._rows[key] += rows.num_rows
            yield batch

    def rows_of(self, key: Key) -> int:
        return self._rows[key]

    def place(self, key: Key) -> Place:
        partition = Record(*key)
        path = self._spec.partition_to_path(partition, self._schema) if self._spec.fields else ""
        return Place(self._spec, partition, path)

    def runs(self, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
        """The batch cut where one partition's rows end and another's begin."""
        if not batch.num_rows:
            return
        columns = [self._values(batch, field.source_id, field.transform) for field in self._spec.fields]
        changes = np.zeros(batch.num_rows, bool)
        changes[0] = True
        for column in columns:
            codes = _codes(column)
            changes[1:] |= codes[1:] != codes[:-1]
        starts = np.flatnonzero(changes)
        values = [partition_values(column.take(pa.array(starts))) for column in columns]
        for number, start in enumerate(starts):
            end = starts[number + 1] if number + 1 < len(starts) else batch.num_rows
            yield tuple(column[number] for column in values), batch.slice(start, end - start)

    def _values(self, batch: pa.RecordBatch, field_id: int, transform: Any) -> pa.Array:
        if isinstance(transform, VoidTransform):
            return pa.nulls(batch.num_rows, pa.int32())
        path = column_path(self._schema, field_id)
        column = batch.column(path[0])
        for position in path[1:]:
            column = pc.struct_field(column, position)
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        return transformed(column, transform, self._schema.find_type(field_id))


def _codes(column: pa.Array) -> Any:
    """Numbers that differ where values do: 0.0 and -0.0 are two values."""
    if pa.types.is_floating(column.type):
        column = pa.array(integers(column), mask=column.is_null().to_numpy(zero_copy_only=False))
    return pc.dictionary_encode(column).indices.fill_null(-1).to_numpy(zero_copy_only=False)
