"""Which data files a compaction would want to rewrite, each for reasons of its own.

Whether rewriting them together is worth the work is decided in `planning`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from tableformat.engine import RowOrder
from tableformat.errors import PermanentError
from tableformat.inspection import (
    Booleans,
    Floats,
    Integers,
    Partitions,
    SnapshotFiles,
    integers,
    partition_type,
    schema_of_spec,
)
from tableformat.maintenance.compaction.options import CompactionOptions

# What a Parquet file of one row takes: a footer, headers of pages, and their index.
_FILE_BYTES, _COLUMN_BYTES = 50, 250
_LEAST_CONTENT = 8  # a share: columns may be many, and a file's few
_ROUNDING = 1e-9  # shares of rows are sums of fractions


class BadFilter(PermanentError):
    """The filter cannot be understood, or speaks of columns that the table does not have."""


@dataclass(frozen=True)
class Candidates:
    """Data files to rewrite: those of a partition one after the other, in the order in which they were written."""

    rows: Integers
    """In the snapshot's table of data files."""
    partitions: Integers
    sizes: Integers
    content_bytes: Integers
    """Without what a file has once, however many rows it has, and of which one file has less than many."""
    live_bytes: Floats
    """Of the content, without the share of the rows that is likely to be deleted."""
    must: Booleans
    """Whether a file should be rewritten whatever its size: for its deletes, its order or its spec."""
    unordered: Booleans
    """Whether its rows are not in the order that is asked for, as far as it says."""

    def __len__(self) -> int:
        return len(self.rows)


def find_candidates(
    table: Table,
    files: SnapshotFiles,
    deleted_rows: Floats,
    options: CompactionOptions,
    order: RowOrder | None,
    stay: Booleans,
    *,
    now: datetime,
) -> Candidates:
    """The files that are too small, too large, too much deleted or in the wrong order, where writers are at rest.

    How many rows of each file are likely to be deleted, and which files stay as they are, is for the caller to say.
    """
    sizes, records = integers(files.data, "size_bytes"), np.maximum(1, integers(files.data, "records"))
    deleted = np.minimum(1.0, deleted_rows / records)
    must = deleted * 100 >= options.delete_ratio_percent * (1 - _ROUNDING)
    unordered = np.zeros(len(sizes), np.bool_)
    if order is not None and order.sort_order_id is not None:
        unordered = files.data["sort_order_id"].fill_null(-1).to_numpy() != order.sort_order_id
        must |= unordered & (sizes >= options.small_below)
    if options.rewrite_all:
        must[:] = True
    partitions = integers(files.data, "partition")
    if options.use_current_spec:
        must |= np.asarray(files.partitions.spec_ids)[partitions] != table.metadata.default_spec_id
    wanted = must | unordered | (sizes < options.small_below) | (sizes > options.large_above)
    wanted &= ~stay
    if options.cool_down_seconds:
        wanted &= ~_busy_partitions(table, files, options, now)[partitions]
    chosen = _Filter(table, options.filter).may_match(files.partitions, np.unique(partitions[wanted]))
    if chosen is not None:
        wanted &= np.isin(partitions, chosen)
    rows = np.flatnonzero(wanted)
    # Files that were written one after the other stay neighbours: their columns compress well together.
    rows = rows[np.lexsort((integers(files.data, "sequence_number")[rows], partitions[rows]))]
    content = _content_bytes(sizes, table.schema())
    return Candidates(
        rows=rows,
        partitions=partitions[rows],
        sizes=sizes[rows],
        content_bytes=content[rows],
        live_bytes=(content * (1 - deleted))[rows],
        must=must[rows],
        unordered=unordered[rows],
    )


def _content_bytes(sizes: Integers, schema: Schema) -> Integers:
    columns = sum(field.field_type.is_primitive for field in schema._lazy_id_to_field.values())
    return np.maximum(sizes - _FILE_BYTES - _COLUMN_BYTES * columns, sizes // _LEAST_CONTENT)


def _busy_partitions(table: Table, files: SnapshotFiles, options: CompactionOptions, now: datetime) -> Booleans:
    """The partitions that somebody wrote to during the cool-down; compactions do not count as writing."""
    since = (now.timestamp() - options.cool_down_seconds) * 1000
    recent = pa.array(
        [
            snapshot.snapshot_id
            for snapshot in table.metadata.snapshots
            if snapshot.timestamp_ms > since
            and not (snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE)
        ],
        pa.int64(),
    )
    busy = np.zeros(len(files.partitions), np.bool_)
    for written in (files.data, files.deletes):
        busy[integers(written, "partition")[pc.is_in(written["added_snapshot_id"], value_set=recent).to_numpy()]] = True
    return busy


class _Filter:
    """Which partitions can hold rows that the filter is about."""

    def __init__(self, table: Table, text: str | None) -> None:
        self._name = ".".join(table.name())
        self._metadata = table.metadata
        self._by_spec: dict[int, Callable[[Record], bool]] = {}
        try:
            self._expression = AlwaysTrue() if text is None else parse(text)
        except Exception as error:  # the parser's own error types are not part of its interface
            raise BadFilter(f"table {self._name}: filter: {text!r} cannot be read: {error}") from error

    def may_match(self, partitions: Partitions, numbers: Integers) -> Integers | None:
        """Those of the partitions that can hold such rows; none if that is true of all of them."""
        if isinstance(self._expression, AlwaysTrue):
            return None
        found = [number for number in numbers.tolist() if self._matches(partitions, number)]
        return np.array(found, np.int64)

    def _matches(self, partitions: Partitions, number: int) -> bool:
        spec_id = int(partitions.spec_ids[number])
        if spec_id not in self._by_spec:
            self._by_spec[spec_id] = self._evaluator(spec_id)
        return self._by_spec[spec_id](partitions.record(number))

    def _evaluator(self, spec_id: int) -> Callable[[Record], bool]:
        spec, schema = self._metadata.specs()[spec_id], self._schema(spec_id)
        try:
            projected = inclusive_projection(schema, spec)(self._expression)
        except ValueError as error:
            raise BadFilter(f"table {self._name}: filter: {error}") from error
        return expression_evaluator(Schema(*partition_type(spec, schema).fields), projected, True)

    def _schema(self, spec_id: int) -> Schema:
        """The current one, which the filter speaks of, with what the spec needs of columns that were dropped since."""
        current, older = self._metadata.schema(), schema_of_spec(self._metadata, spec_id)
        if older is None:
            return current
        sources = {field.source_id for field in self._metadata.specs()[spec_id].fields}
        dropped = sources - set(current._lazy_id_to_field)
        return Schema(
            *current.fields,
            *(NestedField(id_, f"dropped column {id_}", older.find_type(id_), required=False) for id_ in dropped),
        )
