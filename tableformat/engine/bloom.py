"""Bloom filters as the table's `write.parquet.bloom-filter-*` properties ask for them.

Iceberg's names and defaults: a false positive in a hundred, and no filter larger than a mebibyte. A filter is sized for
as many different values as its row group has rows, or as many as the table says that there are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import BooleanType, ListType, MapType, NestedField, PrimitiveType, StructType

from tableformat.properties import positive_number, read_number

_ENABLED = "write.parquet.bloom-filter-enabled.column."
_FALSE_POSITIVES = "write.parquet.bloom-filter-fpp.column."
_DISTINCT = "write.parquet.bloom-filter-ndv.column."
_MAX_BYTES = "write.parquet.bloom-filter-max-bytes"


@dataclass(frozen=True)
class BloomFilter:
    path: str
    """Where Parquet stores the column, such as `tags.list.element`."""
    false_positives: float
    distinct: int | None
    max_bytes: int

    def options(self, rows: int) -> dict[str, object]:
        # Bits for each value in a filter of blocks of eight words, by the false positives that are accepted.
        bits_each = -8 / math.log(1 - self.false_positives ** (1 / 8))
        fitting = max(1, int(self.max_bytes * 8 / bits_each))
        return {"ndv": max(1, min(self.distinct or rows, fitting)), "fpp": self.false_positives}


def bloom_filters(schema: Schema, properties: Mapping[str, str]) -> dict[int, tuple[BloomFilter, ...]]:
    """By the position of a top-level column: the filters of the columns that are stored for it."""
    wanted = {
        key.removeprefix(_ENABLED)
        for key, value in properties.items()
        if key.startswith(_ENABLED) and value.lower() == "true"
    }
    found = {}
    for place, column in enumerate(sanitize_column_names(schema).fields):  # the names that are stored
        filters = tuple(
            BloomFilter(
                path,
                false_positives=_share(properties.get(_FALSE_POSITIVES + name, ""), default=0.01),
                distinct=read_number(properties, _DISTINCT + name),
                max_bytes=positive_number(properties, _MAX_BYTES, 1024 * 1024),
            )
            for leaf, path in _leaves(column, column.name)
            if (name := schema.find_column_name(leaf.field_id)) in wanted
            # Parquet has none for booleans.
            and not isinstance(leaf.field_type, BooleanType)
        )
        if filters:
            found[place] = filters
    return found


def _share(text: str, *, default: float) -> float:
    try:
        share = float(text)
    except ValueError:
        return default
    return share if 0 < share < 1 else default


def _leaves(field: NestedField, path: str) -> list[tuple[NestedField, str]]:
    kind = field.field_type
    if isinstance(kind, PrimitiveType):
        return [(field, path)]
    if isinstance(kind, StructType):
        return [leaf for child in kind.fields for leaf in _leaves(child, f"{path}.{child.name}")]
    if isinstance(kind, ListType):
        return _leaves(kind.element_field, f"{path}.list.element")
    if isinstance(kind, MapType):
        return [
            *_leaves(kind.key_field, f"{path}.key_value.key"),
            *_leaves(kind.value_field, f"{path}.key_value.value"),
        ]
    return []
