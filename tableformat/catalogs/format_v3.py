"""Writing metadata of format version 3, which PyIceberg reads but declines to write.

PyIceberg's metadata of version 3 raises when it is serialised, and its upgrade stops at version 2. Neither is a matter
of the format: the JSON is complete once `next-row-id` is there. So one update of ours, put before the others of a
commit, turns the metadata into a kind that serialises, whichever catalog carries the commit out. To a REST catalog it
is the plain upgrade, which does nothing to a table that has version 3 already.
"""

from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    UpgradeFormatVersionUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)
from pyiceberg.typedef import IcebergBaseModel, Identifier

from tableformat.catalogs.pointer_catalog import PointerCatalog

_NO_ROWS_YET = 0


class WritableMetadataV3(TableMetadataV3):
    def model_dump_json(  # type: ignore[override]  # PyIceberg's own signature
        self, exclude_none: bool = True, exclude: Any | None = None, by_alias: bool = True, **kwargs: Any
    ) -> str:
        return IcebergBaseModel.model_dump_json(
            self, exclude_none=exclude_none, exclude=exclude, by_alias=by_alias, **kwargs
        )


class WriteFormatV3Update(UpgradeFormatVersionUpdate):
    """First in every commit to a table that has, or will have, version 3."""

    def __init__(self) -> None:
        super().__init__(format_version=3)


@_apply_table_update.register(WriteFormatV3Update)
def _(
    update: WriteFormatV3Update, base_metadata: TableMetadata, context: _TableMetadataUpdateContext
) -> WritableMetadataV3:
    fields = dict(base_metadata)
    if base_metadata.format_version < 3:
        context.add_update(update)
        fields |= {"format_version": 3, "next_row_id": _NO_ROWS_YET}
    known = {name: value for name, value in fields.items() if name in WritableMetadataV3.model_fields}
    return WritableMetadataV3.model_construct(**known)


def create_table_v3(
    catalog: MetastoreCatalog,
    identifier: Identifier,
    *,
    schema: Schema,
    location: str,
    partition_spec: PartitionSpec,
    sort_order: SortOrder,
    properties: dict[str, str],
) -> Table:
    """As the catalog's `create_table`, which cannot write version 3 and would lose the columns' defaults."""
    metadata = WritableMetadataV3(
        location=location,
        schemas=[schema],
        last_column_id=schema.highest_field_id,
        current_schema_id=schema.schema_id,
        partition_specs=[partition_spec],
        default_spec_id=partition_spec.spec_id,
        last_partition_id=partition_spec.last_assigned_field_id,
        sort_orders=[sort_order],
        default_sort_order_id=sort_order.order_id,
        properties=properties,
        next_row_id=_NO_ROWS_YET,
    )
    metadata_location = load_location_provider(location, properties).new_table_metadata_file_location()
    io = catalog._load_file_io(properties, metadata_location)
    if isinstance(catalog, PointerCatalog):
        return catalog.create_staged(StagedTable(identifier, metadata, metadata_location, io, catalog))
    # Whatever the registration ends in, the file stays: such a catalog cannot tell whether a pointer leads to it.
    ToOutputFile.table_metadata(metadata, io.new_output(metadata_location))
    return catalog.register_table(identifier, metadata_location)
