"""How many files a move into the current partition spec makes: by the statistics of the files, which nobody reads.

A file of an older spec may hold rows of many partitions of the current one, and each of them gets a file of its own.
What no statistics tell, such as the values between a text column's bounds, is not counted: it is an estimate.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from tableformat.engine.sizing import files_for
from tableformat.inspection import read_entries, read_manifests

_MOST_VALUES = 10_000


@dataclass(frozen=True)
class Move:
    """Files of one partition of an older spec."""

    spec_id: int
    partition: Record
    paths: tuple[str, ...]
    live_bytes: float
    target_bytes: int


def files_after(table: Table, moves: Iterable[Move]) -> list[int]:
    """For each of the moves, how many files come out of it."""
    wanted = list(moves)
    statistics = _statistics(table, {path for move in wanted for path in move.paths}) if wanted else {}
    return [_files_after(table, move, statistics) for move in wanted]


def _statistics(table: Table, paths: set[str]) -> dict[str, DataFile]:
    snapshot, current = table.current_snapshot(), table.metadata.default_spec_id
    manifests = [] if snapshot is None else read_manifests(table.io, snapshot)
    older = (each for each in manifests if each.content == ManifestContent.DATA and each.partition_spec_id != current)
    found = (entry.data_file for manifest in older for entry in read_entries(table.io, manifest))
    return {file.file_path: file for file in found if file.file_path in paths}


def _files_after(table: Table, move: Move, statistics: Mapping[str, DataFile]) -> int:
    partitions: set[tuple[Any, ...]] = set()
    records = 0
    for file in (statistics[path] for path in move.paths if path in statistics):
        records += file.record_count
        each = [list(_values(table, move, field, file)) for field in table.spec().fields]
        partitions.update(itertools.islice(itertools.product(*each), max(1, min(file.record_count, _MOST_VALUES))))
    count = max(1, min(len(partitions), records))
    return count * files_for(move.live_bytes / count, move.target_bytes)


def _values(table: Table, move: Move, field: PartitionField, file: DataFile) -> Iterator[Any]:
    """The field's values in the file, as far as they are known; one that is not, where nothing is."""
    schema, spec = table.schema(), table.specs()[move.spec_id]
    known = _known(spec, move.partition, field, schema)
    if known is not None:
        yield known
        return
    if (file.null_value_counts or {}).get(field.source_id):
        yield None
    lower, upper = (_bound(bounds, field.source_id, schema) for bounds in (file.lower_bounds, file.upper_bounds))
    if lower is None or upper is None:
        yield "unknown"
        return
    yield from _between(field.transform, schema.find_type(field.source_id), lower, upper)


def _known(spec: PartitionSpec, partition: Record, field: PartitionField, schema: Schema) -> Any:
    """By the partition that the file is in, where its spec has the same field, or the column as it is."""
    for position, own in enumerate(spec.fields):
        if own.source_id == field.source_id and own.transform == field.transform:
            return partition[position]
        if own.source_id == field.source_id and isinstance(own.transform, IdentityTransform):
            return field.transform.transform(schema.find_type(field.source_id))(partition[position])
    return None


def _bound(bounds: Mapping[int, bytes] | None, source_id: int, schema: Schema) -> Any:
    kind = schema.find_type(source_id)
    value = (bounds or {}).get(source_id)
    return None if value is None or not isinstance(kind, PrimitiveType) else from_bytes(kind, value)


def _between(transform: Transform[Any, Any], kind: Any, lower: Any, upper: Any) -> Iterator[Any]:
    apply = transform.transform(kind)
    first, last = apply(lower), apply(upper)
    if isinstance(transform, BucketTransform):
        yield from (first,) if lower == upper else range(transform.num_buckets)
    elif isinstance(first, int) and isinstance(last, int) and not isinstance(first, bool):
        step = transform.width if isinstance(transform, TruncateTransform) else 1
        yield from itertools.islice(range(first, last + 1, step), _MOST_VALUES)
    else:
        yield from dict.fromkeys((first, last))
