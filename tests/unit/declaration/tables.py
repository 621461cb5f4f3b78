"""Small words for tests of the difference: declare, create metadata in memory, put a row in, evolve."""

from typing import Any

from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import update_table_metadata

from tableformat.declaration import (
    Column,
    Difference,
    PartitionColumn,
    SortColumn,
    TableDeclaration,
    difference,
    parse_partition_transform,
    parse_type,
)
from tableformat.declaration.difference import new_table


def column(name: str, text: str = "string", **attributes: Any) -> Column:
    return Column(name, parse_type(text), **attributes)


def declare(*columns: Column, **parts: Any) -> TableDeclaration:
    return TableDeclaration(("db", "t"), columns, **parts)


def partition(name: str, transform: str = "identity", field_name: str | None = None) -> PartitionColumn:
    return PartitionColumn(name, parse_partition_transform(transform), field_name)


def sort(name: str) -> SortColumn:
    return SortColumn(name)


def created(declaration: TableDeclaration, *, format_version: int | None = None) -> TableMetadata:
    """The metadata of a table just created from the declaration."""
    parts = new_table(declaration)
    version = format_version or parts.format_version
    common: dict[str, Any] = {
        "location": declaration.location or "file:///warehouse/db/t",
        "schemas": [parts.schema],
        "last_column_id": parts.schema.highest_field_id,
        "current_schema_id": 0,
        "partition_specs": [parts.spec],
        "default_spec_id": 0,
        "last_partition_id": parts.spec.last_assigned_field_id,
        "sort_orders": [parts.sort_order],
        "default_sort_order_id": parts.sort_order.order_id,
        "properties": parts.properties,
    }
    if version == 1:
        return TableMetadataV1.model_validate(
            {
                "schema": parts.schema.model_dump(),
                "partition-spec": [field.model_dump() for field in parts.spec.fields],
                "location": common["location"],
                "last-column-id": common["last_column_id"],
            }
        )
    return TableMetadataV2(**common) if version == 2 else TableMetadataV3(**common, next_row_id=0)


def with_a_row(metadata: TableMetadata) -> TableMetadata:
    snapshot = Snapshot(
        snapshot_id=1,
        sequence_number=1,
        timestamp_ms=metadata.last_updated_ms,
        manifest_list="file:///warehouse/db/t/metadata/snap-1.avro",
        summary=Summary(Operation.APPEND, **{"total-records": "1"}),
        schema_id=metadata.current_schema_id,
    )
    main = SnapshotRef.model_validate({"snapshot-id": 1, "type": SnapshotRefType.BRANCH})
    return metadata.model_copy(
        update={"snapshots": [snapshot], "current_snapshot_id": 1, "refs": {"main": main}, "last_sequence_number": 1}
    )


def evolved(metadata: TableMetadata, found: Difference) -> TableMetadata:
    """The metadata after the commit of a difference, its requirements checked first as a catalog does."""
    assert found.refusals == ()
    for requirement in found.requirements:
        requirement.validate(metadata)
    return update_table_metadata(metadata, found.updates)


def evolve(metadata: TableMetadata, declaration: TableDeclaration, **arguments: Any) -> TableMetadata:
    return evolved(metadata, difference(declaration, metadata, **arguments))


def sentences(found: Difference) -> list[str]:
    return [change.sentence for change in found.changes]


def ids(metadata: TableMetadata) -> dict[str, int]:
    """Every column by its full name."""
    schema = metadata.schema()
    return {schema._lazy_id_to_name[field_id]: field_id for field_id in schema._lazy_id_to_name}
