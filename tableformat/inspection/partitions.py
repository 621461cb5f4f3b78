"""Partitions of files: which files belong together, and with which schema a spec's values are to be understood.

Partition values are compared by a key of their own: two NaN are one partition, and 0.0 and -0.0 are two, as in
Iceberg, while Python's equality says the opposite.
"""

import struct
from collections.abc import Hashable

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.typedef import Record


def partition_key(spec_id: int, partition: Record) -> tuple[Hashable, ...]:
    """Equal for files of one partition of one spec, and only for those."""
    values = (partition[position] for position in range(len(partition)))
    return (spec_id, *(_comparable(value) for value in values))


def _comparable(value: Hashable) -> Hashable:
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("<d", value)
    return value


def schema_of_spec(metadata: TableMetadata, spec_id: int) -> Schema | None:
    """A schema with every source column of the spec, the current one first: columns may have been dropped since."""
    spec = metadata.specs()[spec_id]
    if any(isinstance(field.transform, UnknownTransform) for field in spec.fields):
        return None
    sources = {field.source_id for field in spec.fields}
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.schema(), *newest_first):
        if sources <= set(schema._lazy_id_to_field):
            return schema
    return None


def global_specs(metadata: TableMetadata) -> frozenset[int]:
    """The specs without partitions: equality deletes under one of them apply to the whole table."""
    return frozenset(
        spec_id
        for spec_id, spec in metadata.specs().items()
        if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
    )
