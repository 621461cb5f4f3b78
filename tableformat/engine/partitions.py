"""Divides rows among the partitions of a spec, for files that move to a table's current spec.

Rows come sorted by partition, so that one partition is written after the other and memory holds one at a time. How many
rows each has is counted while they are read, because a file's size is chosen by what is still to come.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import UUIDType

from tableformat.engine.deletes import column_path
from tableformat.engine.errors import NoPartitionForValue
from tableformat.engine.sort_codes import Numbers, integers
from tableformat.engine.task import SortColumn
from tableformat.engine.transforms import partition_values, transformed
from tableformat.inspection.partitions import partition_key, partition_path

Key = tuple[Hashable, ...]
"""Of a partition, to compare it by: to Python 0.0 equals -0.0, and NaN is not equal to itself."""


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
        self._partitions: dict[Key, Record] = {}

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
            columns, numbers = self._numbered(batch)
            _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
            for key, rows in zip(self._keys(columns, first), counts.tolist(), strict=True):
                self._rows[key] += rows
            yield batch

    def rows_of(self, key: Key) -> int:
        return self._rows[key]

    def place(self, key: Key) -> Place:
        partition = self._partitions[key]
        path = partition_path(self._spec, partition, self._schema) if self._spec.fields else ""
        return Place(self._spec, partition, path)

    def runs(self, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
        """The batch cut where one partition's rows end and another's begin."""
        if not batch.num_rows:
            return
        columns, numbers = self._numbered(batch)
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        for key, start, end in zip(
            self._keys(columns, starts), starts, np.append(starts[1:], batch.num_rows), strict=True
        ):
            yield key, batch.slice(start, end - start)

    def _numbered(self, batch: pa.RecordBatch) -> tuple[list[pa.Array], Numbers]:
        """The partition values of each row, and a number for each partition among them."""
        columns = [self._values(batch, field) for field in self._spec.fields]
        numbers: Numbers = np.zeros(batch.num_rows, np.int64)
        for column in columns:
            codes = _codes(column)
            # Numbered again at each step, so that many columns cannot overflow the number.
            _, numbers = np.unique(numbers * (codes.max(initial=0) + 1) + codes, return_inverse=True)
        return columns, numbers

    def _keys(self, columns: list[pa.Array], rows: Numbers) -> Iterator[Key]:
        """The partitions of these rows; their values are remembered."""
        values = [
            self._manifest_values(field, column.take(pa.array(rows)))
            for field, column in zip(self._spec.fields, columns, strict=True)
        ]
        for number in range(len(rows)):
            partition = Record(*(column[number] for column in values))
            key = partition_key(self._spec.spec_id, partition)
            self._partitions.setdefault(key, partition)
            yield key

    def _manifest_values(self, field: PartitionField, column: pa.Array) -> list[Any]:
        """Equal to what is read from manifests, by which a commit finds the deletes of a partition that rows enter."""
        values = partition_values(column)
        if isinstance(field.transform, IdentityTransform) and isinstance(
            self._schema.find_type(field.source_id), UUIDType
        ):
            return [None if value is None else UUID(bytes=value) for value in values]
        return values

    def _values(self, batch: pa.RecordBatch, field: PartitionField) -> pa.Array:
        if isinstance(field.transform, VoidTransform):
            return pa.nulls(batch.num_rows, pa.int32())
        path = column_path(self._schema, field.source_id)
        column = batch.column(path[0])
        for position in path[1:]:
            column = pc.struct_field(column, position)
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        values = transformed(column, field.transform, self._schema.find_type(field.source_id))
        if pa.types.is_decimal(values.type):
            _require_room(field, values, column.type)
        return values


def _require_room(field: PartitionField, values: pa.Array, kind: pa.DataType) -> None:
    """Truncated away from zero, a negative decimal may get a digit more than its type has, and Java fails on it."""
    most = Decimal((0, (9,) * kind.precision, -kind.scale))
    ends = pc.min_max(values).as_py()
    if any(end is not None and abs(end) > most for end in ends.values()):
        raise NoPartitionForValue(
            field.name, f"{field.transform} makes {ends['min']} of a value, which {kind} has no room for"
        )


def _codes(column: pa.Array) -> Numbers:
    """Numbers from nought upwards that differ where values do: 0.0 and -0.0 are two values."""
    if pa.types.is_floating(column.type):
        column = pa.array(integers(column), mask=column.is_null().to_numpy(zero_copy_only=False))
    indices = pc.dictionary_encode(column, null_encoding="encode").indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)
