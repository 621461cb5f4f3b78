"""Tables of format version 3, which PyIceberg reads but neither creates nor upgrades to.

PyIceberg's metadata of version 3 raises when it is serialised (`pyiceberg_private` lets it), and its upgrade stops at
version 2. Neither is a matter of the format: the JSON is complete once `next-row-id` is there. To a REST catalog the
update is the plain upgrade, which does nothing to a table that has version 3 already.
"""

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
from pyiceberg.typedef import Identifier

from tableformat.catalogs.pointer_catalog import PointerCatalog

_NO_ROWS_YET = 0


class WriteFormatV3Update(UpgradeFormatVersionUpdate):
    """First in every commit to a table that has, or will have, version 3."""

    def __init__(self) -> None:
        super().__init__(format_version=3)


@_apply_table_update.register(WriteFormatV3Update)
def _(
    update: WriteFormatV3Update, base_metadata: TableMetadata, context: _TableMetadataUpdateContext
) -> TableMetadataV3:
    fields = dict(base_metadata)
    if base_metadata.format_version < 3:
        context.add_update(update)
        fields |= {"format_version": 3, "next_row_id": _NO_ROWS_YET}
    known = {name: value for name, value in fields.items() if name in TableMetadataV3.model_fields}
    return TableMetadataV3.model_construct(**known)


def create_table_v3(
    catalog: MetastoreCatalog,
    identifier: Identifier,
    *,
    schema: Schema,
    location: str | None,
    partition_spec: PartitionSpec,
    sort_order: SortOrder,
    properties: dict[str, str],
) -> Table:
    """As the catalog's `create_table`, which cannot write version 3 and would lose the columns' defaults.

    Only a catalog of ours chooses the location.
    """

    def stage(at: str) -> StagedTable:
        metadata = _metadata(schema, at, partition_spec, sort_order, properties)
        metadata_location = load_location_provider(at, properties).new_table_metadata_file_location()
        return StagedTable(
            identifier, metadata, metadata_location, catalog._load_file_io(properties, metadata_location), catalog
        )

    if isinstance(catalog, PointerCatalog):
        return catalog.create_staged(identifier, location, properties, stage)
    if location is None:
        raise ValueError(f"Table {'.'.join(identifier)}: give a location, this catalog chooses none")
    # Whatever the registration ends in, the file stays: such a catalog cannot tell whether a pointer leads to it.
    staged = stage(location)
    ToOutputFile.table_metadata(staged.metadata, staged.io.new_output(staged.metadata_location))
    return catalog.register_table(identifier, staged.metadata_location)


def _metadata(
    schema: Schema, location: str, partition_spec: PartitionSpec, sort_order: SortOrder, properties: dict[str, str]
) -> TableMetadataV3:
    return TableMetadataV3(
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
