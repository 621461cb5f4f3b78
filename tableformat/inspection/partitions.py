"""Partitions of files: which files belong together, what they are called, and by which schema values are understood.

Partition values are compared by a key of their own: two NaN are one partition, and 0.0 and -0.0 are two, as in
Iceberg, while Python's equality says the opposite.
"""

import struct
from collections.abc import Hashable
from typing import Any
from urllib.parse import quote_plus

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, StructType


def partition_key(spec_id: int, partition: Record) -> tuple[Hashable, ...]:
    """Equal for files of one partition of one spec, and only for those."""
    values = (partition[position] for position in range(len(partition)))
    return (spec_id, *(_comparable(value) for value in values))


def _comparable(value: Hashable) -> Hashable:
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("<d", value)
    return value


def partition_type(spec: PartitionSpec, schema: Schema) -> StructType:
    """The type of the spec's partitions. Every field is optional, as in Iceberg Java.

    PyIceberg requires a value where the source column does, but a `void` field never has one.
    """
    fields = spec.partition_type(schema).fields
    return StructType(*(field.model_copy(update={"required": False}) for field in fields))


def partition_path(spec: PartitionSpec, partition: Record, schema: Schema) -> str:
    """The partition's name and folder, as PyIceberg has them; it has none for times outside Python's calendar.

    Java writes years before 1 and after 9999 as well, and one such row must not keep a table from being managed.
    """
    try:
        return spec.partition_to_path(partition, schema)
    except (OverflowError, ValueError):
        kinds = partition_type(spec, schema).fields
        return "/".join(
            _field_path(field, kinds[place].field_type, partition[place]) for place, field in enumerate(spec.fields)
        )


def _field_path(field: PartitionField, kind: IcebergType, value: Any) -> str:
    """One field's part of the path; the plain number where it has no other text."""
    try:
        text = field.transform.to_human_string(kind, value=value)
    except (OverflowError, ValueError):
        text = str(value)
    return f"{quote_plus(field.name, safe='')}={quote_plus(text, safe='')}"


def schema_of_spec(metadata: TableMetadata, spec_id: int) -> Schema | None:
    """A schema with every source column of the spec, the current one first: columns may have been dropped since.

    The source column of a `void` field may be in no schema any more: the field has no values, so any type will do.
    """
    spec = metadata.specs()[spec_id]
    if any(isinstance(field.transform, UnknownTransform) for field in spec.fields):
        return None
    sources = {field.source_id for field in spec.fields}
    needed = {field.source_id for field in spec.fields if not isinstance(field.transform, VoidTransform)}
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    schemas = (metadata.schema(), *newest_first)
    having = (schema for ids in (sources, needed) for schema in schemas if ids <= set(schema._lazy_id_to_field))
    return next(having, None)


def global_specs(metadata: TableMetadata) -> frozenset[int]:
    """The specs without partitions: equality deletes under one of them apply to the whole table."""
    return frozenset(
        spec_id
        for spec_id, spec in metadata.specs().items()
        if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
    )
