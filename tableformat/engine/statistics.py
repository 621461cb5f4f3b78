"""The statistics of a written Parquet file as its manifest entry holds them.

They come from the file's own footer, as raw stored numbers, so that a value outside Python's calendar or an unusual
decimal cannot fail or shift. Which columns get bounds follows the table's `write.metadata.metrics.*` properties and
Iceberg's rules: truncation of text, no bounds below lists and maps.
"""

import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode, match_metrics_mode
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.decimal import decimal_to_bytes, unscaled_to_decimal

from tableformat.engine.stored_types import VARIANT_PARTS
from tableformat.properties import read_number
from tableformat.types_as_written import is_geospatial, is_variant

_COUNTS = MetricsMode(MetricModeTypes.COUNTS)
_NONE = MetricsMode(MetricModeTypes.NONE)
_FORMS: dict[type[PrimitiveType], str] = {
    IntegerType: "<i",
    LongType: "<q",
    FloatType: "<f",
    DoubleType: "<d",
    DateType: "<i",
    TimeType: "<q",
    TimestampType: "<q",
    TimestamptzType: "<q",
    TimestampNanoType: "<q",
    TimestamptzNanoType: "<q",
}
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF
_LONGEST_IN_PARQUET_STATISTICS = 4096  # bytes, as pyarrow's writer has it
Bounds = Mapping[int, tuple[bytes, bytes] | tuple[float, float]]
_MAX_INFERRED_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"


@dataclass(frozen=True)
class LeafColumn:
    """A column that Parquet stores: a primitive field at any depth."""

    field_id: int
    type: PrimitiveType
    mode: MetricsMode
    path: tuple[int, ...] | None
    """The positions that lead to it through structs; none below lists and maps."""


@dataclass(frozen=True)
class FileStatistics:
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


def leaf_columns(schema: Schema, properties: Mapping[str, str]) -> list[LeafColumn]:
    """The stored columns in the order in which Parquet has them."""
    modes = _Modes(schema, properties)
    leaves: list[LeafColumn] = []

    def visit(nested: NestedField, nested_type: IcebergType, path: tuple[int, ...] | None) -> None:
        if isinstance(nested_type, StructType):
            for place, child in enumerate(nested_type.fields):
                visit(child, child.field_type, None if path is None else (*path, place))
        elif isinstance(nested_type, ListType):
            visit(nested_type.element_field, nested_type.element_type, None)
        elif isinstance(nested_type, MapType):
            visit(nested_type.key_field, nested_type.key_type, None)
            visit(nested_type.value_field, nested_type.value_type, None)
        elif isinstance(nested_type, PrimitiveType) and is_variant(nested_type):
            # Bounds of a variant are those of its fields, which are not columns here.
            leaves.extend(LeafColumn(nested.field_id, nested_type, _NONE, None) for _ in VARIANT_PARTS)
        elif isinstance(nested_type, PrimitiveType):
            # Bounds of a geometry are corners of a box, which the least and the greatest bytes are not.
            has_no_bounds = path is None or is_geospatial(nested_type)
            mode = modes.of_leaf(nested, has_no_bounds, position=len(leaves))
            leaves.append(LeafColumn(nested.field_id, nested_type, mode, path))

    for place, column in enumerate(schema.fields):
        visit(column, column.field_type, (place,))
    return leaves


class _Modes:
    """Which statistics the table wants of a column."""

    def __init__(self, schema: Schema, properties: Mapping[str, str]) -> None:
        self._schema = schema
        self._properties = properties
        default = properties.get(TableProperties.DEFAULT_WRITE_METRICS_MODE)
        usual = match_metrics_mode(TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT)
        self._default = _mode_of(default, otherwise=usual) if default else usual
        # A very wide table has statistics of its first columns only, unless it asks for more.
        self._inferred = len(schema.field_ids) if default else _inferred(properties)

    def of_leaf(self, leaf: NestedField, has_no_bounds: bool, *, position: int) -> MetricsMode:
        name = self._schema.find_column_name(leaf.field_id)
        configured = self._properties.get(f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{name}")
        if configured is not None:
            mode = _mode_of(configured, otherwise=self._default)
        else:
            mode = self._default if position < self._inferred else _NONE
        return _COUNTS if has_no_bounds and mode.type in (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL) else mode


def _inferred(properties: Mapping[str, str]) -> int:
    number = read_number(properties, _MAX_INFERRED_COLUMNS)
    return 100 if number is None or number < 0 else number


def _mode_of(text: str, *, otherwise: MetricsMode) -> MetricsMode:
    """A word that nobody knows is no reason to leave a table alone: Iceberg's own writer goes on without it as well."""
    try:
        return match_metrics_mode(text)
    except ValueError:
        return otherwise


def file_statistics(metadata: pq.FileMetaData, leaves: list[LeafColumn], others: Sequence[Bounds]) -> FileStatistics:
    """`others` has what `other_bounds` found in the rows of each row group."""
    statistics = FileStatistics(split_offsets=_split_offsets(metadata))
    for position, leaf in enumerate(leaves):
        chunks = [metadata.row_group(group).column(position) for group in range(metadata.num_row_groups)]
        size = sum(chunk.total_compressed_size for chunk in chunks)
        statistics.column_sizes[leaf.field_id] = statistics.column_sizes.get(leaf.field_id, 0) + size
        if leaf.mode == _NONE:
            continue
        statistics.value_counts[leaf.field_id] = sum(chunk.num_values for chunk in chunks)
        found = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
        if len(found) < len(chunks) or not all(chunk.has_null_count for chunk in found):
            continue
        statistics.null_value_counts[leaf.field_id] = sum(chunk.null_count for chunk in found)
        if leaf.mode == _COUNTS:
            continue
        # A chunk of nulls alone has no bounds and says nothing; one with values but without bounds (NaN alone, or a
        # type whose order Parquet leaves open) leaves the column without bounds.
        bounds = [
            (chunk.min_raw, chunk.max_raw) if chunk.has_min_max else of_group.get(leaf.field_id)
            for chunk, of_group in zip(found, others, strict=True)
            if chunk.num_values
        ]
        known = [pair for pair in bounds if pair is not None]
        if len(known) < len(bounds) or not known:
            continue
        if isinstance(leaf.type, UUIDType) and len({_signs(end) for pair in known for end in pair}) > 1:
            continue  # each row group has one order, and all of them together have two
        lower = _lower(leaf, min(_as_number(leaf, pair[0]) for pair in known))
        upper = _upper(leaf, max(_as_number(leaf, pair[1]) for pair in known))
        if lower is not None:
            statistics.lower_bounds[leaf.field_id] = lower
        if upper is not None:
            statistics.upper_bounds[leaf.field_id] = upper
    return statistics


def nan_counts(rows: pa.Table, leaves: list[LeafColumn]) -> dict[int, int]:
    """How many values are NaN, by field id: the one count that Parquet's own statistics lack."""
    counts = {}
    for leaf in leaves:
        if leaf.path is None or leaf.mode == _NONE or not isinstance(leaf.type, FloatType | DoubleType):
            continue
        counts[leaf.field_id] = pc.sum(pc.is_nan(_values(rows, leaf.path)), min_count=0).as_py()
    return counts


def other_bounds(rows: pa.Table, leaves: list[LeafColumn], nans: Mapping[int, int]) -> Bounds:
    """The least and the greatest value, by field id, where Parquet's own statistics may have none: a manifest has the
    beginning of what is long, and what is there beside NaN. `nans` counts these, by field id."""
    found: dict[int, tuple[bytes, bytes] | tuple[float, float]] = {}
    for leaf in leaves:
        if leaf.path is None or leaf.mode in (_NONE, _COUNTS):
            continue
        if isinstance(leaf.type, StringType | BinaryType):
            values = _values(rows, leaf.path)
            if (pc.max(pc.binary_length(values)).as_py() or 0) > _LONGEST_IN_PARQUET_STATISTICS:
                ends = pc.min_max(values.cast(pa.large_binary())).as_py()
                found[leaf.field_id] = (ends["min"], ends["max"])
        elif nans.get(leaf.field_id):
            values = _values(rows, leaf.path)
            ends = pc.min_max(values.filter(pc.invert(pc.is_nan(values)))).as_py()
            if ends["min"] is not None:  # either zero stands for both, and Iceberg has them apart
                found[leaf.field_id] = (ends["min"] or -0.0, ends["max"] or 0.0)
    return found


def _values(rows: pa.Table, path: tuple[int, ...]) -> pa.ChunkedArray:
    column = rows.column(path[0])
    for position in path[1:]:
        column = pc.struct_field(column, position)
    return column


def uuid_signs(array: pa.Array) -> set[int]:
    """The signs that the halves of the values have. UUIDs with the same signs compare alike as bytes and in Java."""
    stored = array.storage.drop_null()
    halves = np.frombuffer(stored.buffers()[1] or b"", ">i8")[2 * stored.offset : 2 * (stored.offset + len(stored))]
    negative = halves.reshape(-1, 2) < 0
    return set(np.unique(negative @ np.array([2, 1])).tolist())


def _signs(uuid: Any) -> tuple[bool, bool]:
    return uuid[0] >= 0x80, uuid[8] >= 0x80


def _split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    offsets = []
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(0)
        offset = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            offset = min(offset, column.dictionary_page_offset)
        offsets.append(offset)
    return tuple(sorted(offsets))


def _as_number(leaf: LeafColumn, raw: Any) -> Any:
    """Decimals of many digits are stored as big-endian bytes, which do not compare like the numbers they stand for."""
    if isinstance(leaf.type, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def _lower(leaf: LeafColumn, raw: object) -> bytes | None:
    if isinstance(leaf.type, StringType) and isinstance(raw, bytes):
        text = _text(raw)
        return None if text is None else text[: leaf.mode.length].encode()
    if isinstance(leaf.type, BinaryType) and isinstance(raw, bytes):
        return raw[: leaf.mode.length]
    return _exact(leaf, raw)


def _upper(leaf: LeafColumn, raw: object) -> bytes | None:
    if isinstance(leaf.type, StringType) and isinstance(raw, bytes):
        text = _text(raw)
        bound = None if text is None else upper_text(text, leaf.mode.length)
        return None if bound is None else bound.encode()
    if isinstance(leaf.type, BinaryType) and isinstance(raw, bytes):
        return upper_bytes(raw, leaf.mode.length)
    return _exact(leaf, raw)


def _text(raw: bytes) -> str | None:
    """None if it is no text: some engines put any bytes into such columns, and rows are kept as they are."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def upper_text(text: str, length: int | None) -> str | None:
    """The least text of so many characters that is not less, if there is one."""
    if length is None or len(text) <= length:
        return text
    for place in range(length - 1, -1, -1):
        following = ord(text[place]) + 1
        if following == _FIRST_SURROGATE:  # halves of characters, which no text may have
            following = _LAST_SURROGATE + 1
        if following <= sys.maxunicode:
            return text[:place] + chr(following)
    return None


def upper_bytes(value: bytes, length: int | None) -> bytes | None:
    """The least bytes, and no more than so many, that are not less, if there are any."""
    if length is None or len(value) <= length:
        return value
    start = value[:length].rstrip(b"\xff")
    return start[:-1] + bytes([start[-1] + 1]) if start else None


def _exact(leaf: LeafColumn, raw: object) -> bytes | None:
    """Iceberg's single-value form of a stored number."""
    if isinstance(raw, bytes):
        return raw
    if isinstance(raw, bool):
        return b"\x01" if raw else b"\x00"
    if isinstance(leaf.type, DecimalType) and isinstance(raw, int):
        return decimal_to_bytes(unscaled_to_decimal(raw, leaf.type.scale))
    if isinstance(raw, int | float):
        return struct.pack(_FORMS[type(leaf.type)], raw)
    return None
