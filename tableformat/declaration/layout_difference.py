"""Partitioning and sort order, declared against the table's: new specs and orders beside the old ones, never in place.

Files keep the spec that they were written under, so a spec is only ever added. A partition field that the table has
had before (same column id, same transform) gets its id and name back, as Iceberg's specification asks; any other gets
an id above all that were given and a name that no field of any spec has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    TableUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform, VoidTransform

from tableformat.declaration.refusals import Refusal, RefusalKind
from tableformat.declaration.table import PartitionColumn, SortColumn


@dataclass(frozen=True)
class PartitionHistory:
    """What partition fields a table has had, and which it has now."""

    current: tuple[PartitionField, ...] = ()
    all: tuple[PartitionField, ...] = ()
    last_id: int = PARTITION_FIELD_ID_START - 1

    @staticmethod
    def of(metadata: TableMetadata) -> "PartitionHistory":
        fields = tuple(field for spec in metadata.partition_specs for field in spec.fields)
        last_id = max(
            [PARTITION_FIELD_ID_START - 1, metadata.last_partition_id or 0, *(field.field_id for field in fields)]
        )
        return PartitionHistory(_live(metadata.spec().fields), fields, last_id)


def partition_fields(
    declared: Sequence[PartitionColumn], schema: Schema, history: PartitionHistory
) -> tuple[tuple[PartitionField, ...], tuple[Refusal, ...]]:
    """The fields of the declared spec, with ids and names."""
    fields: list[PartitionField] = []
    refusals: list[Refusal] = []
    last_id = history.last_id
    for wanted in declared:
        source_id = schema.find_field(wanted.column).field_id
        known = _known(history, source_id, wanted.transform, wanted.name)
        if known is not None and wanted.name in (None, known.name):
            fields.append(known)
            continue
        if known is None:
            last_id += 1
        field_id = last_id if known is None else known.field_id
        others = {field.name for field in (*history.all, *fields) if field.field_id != field_id}
        if wanted.name in others:
            refusals.append(
                Refusal(
                    RefusalKind.PARTITION_NAME,
                    f"partitioning[{wanted.column}].name",
                    f"another partition field of this table is or was named {wanted.name!r}",
                    "Choose a name that no partition field has had, or leave the name out",
                    declared=wanted.name,
                )
            )
        name = wanted.name or _free_name(schema, source_id, wanted.transform, others, field_id)
        fields.append(PartitionField(source_id, field_id, wanted.transform, name))
    return tuple(fields), tuple(refusals)


def sort_fields(declared: Sequence[SortColumn], schema: Schema) -> tuple[SortField, ...]:
    return tuple(
        SortField(
            source_id=schema.find_field(key.column).field_id,
            transform=key.transform,
            direction=key.direction,
            null_order=key.effective_null_order,
        )
        for key in declared
    )


def spec_updates(metadata: TableMetadata, fields: Sequence[PartitionField]) -> tuple[TableUpdate, ...]:
    """What makes a spec of these fields the default; nothing if it is."""
    if tuple(fields) == _live(metadata.spec().fields):
        return ()
    for spec in metadata.partition_specs:
        if tuple(fields) == spec.fields:
            return (SetDefaultSpecUpdate(spec_id=spec.spec_id),)
    spec_id = max(spec.spec_id for spec in metadata.partition_specs) + 1
    return AddPartitionSpecUpdate(spec=PartitionSpec(*fields, spec_id=spec_id)), SetDefaultSpecUpdate(spec_id=-1)


def sort_updates(metadata: TableMetadata, fields: Sequence[SortField]) -> tuple[TableUpdate, ...]:
    """What makes an order of these fields the default; nothing if it is."""
    if list(fields) == metadata.sort_order().fields:
        return ()
    for order in metadata.sort_orders:
        if order.fields == list(fields):
            return (SetDefaultSortOrderUpdate(sort_order_id=order.order_id),)
    if not fields:  # Iceberg keeps the id 0 for no order
        return AddSortOrderUpdate(sort_order=SortOrder(order_id=0)), SetDefaultSortOrderUpdate(sort_order_id=0)
    order_id = max([0, *(order.order_id for order in metadata.sort_orders)]) + 1
    order = SortOrder(*fields, order_id=order_id)
    return AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=order_id)


def partition_texts(schema: Schema, fields: Sequence[PartitionField]) -> tuple[str, ...]:
    return tuple(_named(_transform_text(schema, field), field.name) for field in _live(fields))


def sort_texts(schema: Schema, fields: Sequence[SortField]) -> tuple[str, ...]:
    return tuple(
        f"{_transform_text(schema, field)} {field.direction.value} {field.null_order.value}" for field in fields
    )


def _named(text: str, name: str) -> str:
    return text if text == name else f"{text} as {name}"


def _live(fields: Sequence[PartitionField]) -> tuple[PartitionField, ...]:
    """Without the void fields that format version 1 leaves in the place of removed ones."""
    return tuple(field for field in fields if not isinstance(field.transform, VoidTransform))


def _known(
    history: PartitionHistory, source_id: int, transform: Transform[Any, Any], name: str | None
) -> PartitionField | None:
    same = [
        field
        for field in (*history.current, *history.all)
        if (field.source_id, field.transform) == (source_id, transform)
    ]
    return next((field for field in same if field.name == name), same[0] if same else None)


def _free_name(schema: Schema, source_id: int, transform: Transform[Any, Any], taken: set[str], field_id: int) -> str:
    column = schema.find_column_name(source_id)
    match transform:
        case IdentityTransform():
            name = f"{column}"
        case BucketTransform():
            name = f"{column}_bucket_{transform.num_buckets}"
        case TruncateTransform():
            name = f"{column}_trunc_{transform.width}"
        case _:
            name = f"{column}_{transform}"
    is_another_column = name in schema.column_names and not isinstance(transform, IdentityTransform)
    return f"{name}_{field_id}" if name in taken or is_another_column else name


def _transform_text(schema: Schema, field: PartitionField | SortField) -> str:
    column = schema.find_column_name(field.source_id) or f"the dropped column {field.source_id}"
    return column if isinstance(field.transform, IdentityTransform) else f"{field.transform} of {column}"
