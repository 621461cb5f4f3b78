"""The one comparison of a declaration with a table's metadata: what to change, what is refused, and the commit.

Pure: metadata in, values out. Every obstacle is found in one go, so that a person mends them all at once. The commit
(updates and requirements) is empty while anything is refused; its requirements say which state it was computed for,
so that a table that moved on meanwhile rejects it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.transforms import VoidTransform

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.declaration.changes import (
    Change,
    ChangeIdentifier,
    ChangePartitioning,
    ChangeSortOrder,
    CreateTable,
    SetProperty,
    UnsetProperty,
    UpgradeFormat,
)
from tableformat.declaration.layout_difference import (
    PartitionHistory,
    partition_fields,
    partition_texts,
    sort_fields,
    sort_texts,
    sort_updates,
    spec_updates,
)
from tableformat.declaration.refusals import Refusal, RefusalKind, column_field
from tableformat.declaration.schema_difference import SchemaComparison, SchemaFacts, compare_schemas
from tableformat.declaration.table import (
    DEFAULT_FORMAT_VERSION,
    TableDeclaration,
    format_problems,
)
from tableformat.grammar import type_text
from tableformat.locations import same_location
from tableformat.properties import ENCRYPTION_KEY, is_encrypted

_ENCRYPTED = Refusal(
    RefusalKind.UNSUPPORTED,
    f"properties[{ENCRYPTION_KEY}]",
    "the table is encrypted, and its keys would not survive a commit from here",
    "Alter it with the engine that encrypts it",
)
_NAME_MAPPING = TableProperties.DEFAULT_NAME_MAPPING


@dataclass(frozen=True)
class Difference:
    """`changes` in an order that is safe to apply; `refusals`, any of which means that nothing is changed at all."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.refusals


def difference(
    declaration: TableDeclaration,
    metadata: TableMetadata | None,
    *,
    previously_declared_properties: frozenset[str] = frozenset(),
) -> Difference:
    """What it takes to make the table as declared; `metadata` is None where there is no table yet."""
    if metadata is None:
        return _creation(declaration)
    found = _Comparison(declaration, metadata, previously_declared_properties).outcome()
    if found.changes and is_encrypted(metadata.properties):
        return replace(found, refusals=(*found.refusals, _ENCRYPTED))
    return found


@dataclass(frozen=True)
class NewTable:
    """The parts of a table that is created from a declaration."""

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    format_version: int
    properties: dict[str, str]


def new_table(declaration: TableDeclaration) -> NewTable:
    schema = declaration.new_schema()
    fields, _ = partition_fields(declaration.partitioning or (), schema, PartitionHistory())
    keys = sort_fields(declaration.sort_order or (), schema)
    return NewTable(
        schema=schema,
        spec=PartitionSpec(*fields),
        sort_order=SortOrder(*keys, order_id=1) if keys else SortOrder(order_id=0),
        format_version=declaration.format_version or DEFAULT_FORMAT_VERSION,
        properties=dict(declaration.properties),
    )


def _creation(declaration: TableDeclaration) -> Difference:
    if not declaration.columns:
        reason = "there is no such table, and the declaration has no columns to create it from"
        remedy = "Declare the columns, or correct the identifier"
        return Difference((), (Refusal(RefusalKind.TABLE_MISSING, "identifier", reason, remedy),))
    parts = new_table(declaration)
    columns = tuple(
        f"{column.name} {'required ' if column.required else ''}{type_text(column.type)}"
        for column in declaration.columns
    )
    creation = CreateTable(
        name=declaration.name,
        columns=columns,
        partitioning=partition_texts(parts.schema, parts.spec.fields),
        sort_order=sort_texts(parts.schema, parts.sort_order.fields),
        format_version=parts.format_version,
    )
    return Difference((creation,), tuple(format_problems(declaration, parts.format_version)))


class _Comparison:
    """One comparison under way: each step appends what it finds, in the order in which a commit may do it."""

    def __init__(
        self, declaration: TableDeclaration, metadata: TableMetadata, previously_declared: frozenset[str]
    ) -> None:
        self.declaration = declaration
        self.metadata = metadata
        self.changes: list[Change] = []
        self.refusals: list[Refusal] = []
        self.updates: list[TableUpdate] = []
        self.relies_on_emptiness = False
        self._format_version()
        self._location()
        schema = self._schema() if declaration.columns else metadata.schema()
        self._partitioning(schema)
        self._sort_order(schema)
        self._properties(previously_declared)

    def outcome(self) -> Difference:
        if self.refusals:
            return Difference(tuple(self.changes), tuple(self.refusals))
        if self.updates and self.metadata.format_version == 3:
            self.updates.insert(0, WriteFormatV3Update())
        return Difference(tuple(self.changes), (), tuple(self.updates), tuple(self._requirements()))

    def _format_version(self) -> None:
        now = int(self.metadata.format_version)
        declared = self.declaration.format_version
        version = max(now, declared or now)
        if declared is not None and declared < now:
            self.refusals.append(
                Refusal(
                    RefusalKind.FORMAT_DOWNGRADE,
                    "formatVersion",
                    f"the table has format version {now}, and Iceberg knows no way back",
                    f"Declare formatVersion: {now}",
                    declared=str(declared),
                    found=str(now),
                )
            )
        elif version > now:
            self.changes.append(UpgradeFormat(now, version))
            self.updates.append(
                WriteFormatV3Update() if version == 3 else UpgradeFormatVersionUpdate(format_version=version)
            )
        self.refusals += format_problems(self.declaration, version)
        self.version = version

    def _location(self) -> None:
        declared = self.declaration.location
        if declared is not None and not same_location(declared, self.metadata.location):
            self.refusals.append(
                Refusal(
                    RefusalKind.IMMUTABLE_FIELD,
                    "location",
                    "a table's location never changes: its files are named by it",
                    "Declare the location that the table has, or none",
                    declared=declared,
                    found=self.metadata.location,
                )
            )

    def _schema(self) -> Schema:
        metadata, declaration = self.metadata, self.declaration
        ids = count(metadata.last_column_id + 1)
        now = metadata.schema()
        facts = SchemaFacts(
            new_id=lambda: next(ids),
            removable=declaration.removed_columns,
            has_data=has_data(metadata),
            uses=self._uses,
            name_mapping=metadata.name_mapping(),
        )
        comparison = compare_schemas(declaration.fields, now.fields, facts)
        self.changes += comparison.changes
        self.refusals += comparison.refusals
        self.relies_on_emptiness = comparison.relies_on_emptiness
        wanted = Schema(*comparison.fields)
        if not comparison.refusals:
            self._check_partition_names(comparison)
        identifier_ids = self._identifier(now, wanted)
        if self.refusals:
            return wanted
        return self._set_schema(now, Schema(*comparison.fields, identifier_field_ids=identifier_ids), comparison)

    def _set_schema(self, now: Schema, wanted: Schema, comparison: SchemaComparison) -> Schema:
        if wanted == now:
            return now
        earlier = next((schema for schema in self.metadata.schemas if schema == wanted), None)
        if earlier is not None:
            self.updates.append(SetCurrentSchemaUpdate(schema_id=earlier.schema_id))
        else:
            schema_id = max(schema.schema_id for schema in self.metadata.schemas) + 1
            wanted = wanted.model_copy(update={"schema_id": schema_id})
            self.updates += [AddSchemaUpdate(schema_=wanted), SetCurrentSchemaUpdate(schema_id=-1)]
        mapping = comparison.next_name_mapping()
        if mapping is not None and _NAME_MAPPING not in self.declaration.properties:
            self.updates.append(SetPropertiesUpdate(updates={_NAME_MAPPING: mapping.model_dump_json()}))
        return wanted

    def _identifier(self, now: Schema, wanted: Schema) -> list[int]:
        declared = self.declaration.identifier_columns
        if declared is None:
            kept = [field_id for field_id in now.identifier_field_ids if field_id in wanted.field_ids]
            for field_id in kept:
                if not wanted.find_field(field_id).required:
                    path = tuple((wanted.find_column_name(field_id) or "").split("."))
                    self.refusals.append(
                        Refusal(
                            RefusalKind.COLUMN_IN_USE,
                            column_field(path, "required"),
                            "the column identifies rows, so it cannot be optional",
                            "Declare it required, or declare identifierColumns without it",
                            declared="false",
                            found="true",
                        )
                    )
            return kept
        if not self._has(wanted, declared):
            return now.identifier_field_ids
        ids = [wanted.find_field(name).field_id for name in declared]
        if set(ids) == set(now.identifier_field_ids):
            return now.identifier_field_ids
        old = tuple(now.find_column_name(field_id) or str(field_id) for field_id in now.identifier_field_ids)
        self.changes.append(ChangeIdentifier(old, declared))
        return ids

    def _has(self, schema: Schema, columns: Iterable[str], ids: Iterable[int] = ()) -> bool:
        """Whether what refers to columns can be told of this schema; it always can, unless the schema is refused."""
        if not self.refusals:
            return True
        return {*columns} <= {*schema.column_names} and {*ids} <= schema.field_ids

    def _uses(self, field_id: int) -> str | None:
        for spec in self.metadata.partition_specs:
            for partition in spec.fields:
                if partition.source_id == field_id and not isinstance(partition.transform, VoidTransform):
                    current = spec.spec_id == self.metadata.default_spec_id
                    return f"the partitioning {'' if current else 'of older files '}({partition.name})"
        if self.declaration.sort_order is None and any(
            key.source_id == field_id for key in self.metadata.sort_order().fields
        ):
            return "the sort order"
        if self.declaration.identifier_columns is None and field_id in self.metadata.schema().identifier_field_ids:
            return "the identifier"
        return None

    def _check_partition_names(self, comparison: SchemaComparison) -> None:
        """Engines refuse a schema where a column and a partition field on another column have one name."""
        wanted = Schema(*comparison.fields)
        known = set(self.metadata.schema().column_names)
        for partition in (field for spec in self.metadata.partition_specs for field in spec.fields):
            namesake = wanted._name_to_id.get(partition.name)  # PyIceberg's own index of full names
            if namesake is not None and namesake != partition.source_id and partition.name not in known:
                self.refusals.append(
                    Refusal(
                        RefusalKind.PARTITION_NAME,
                        column_field((partition.name,), "name"),
                        f"{partition.name!r} is the name of a partition field on another column",
                        "Choose another name for the column",
                        declared=partition.name,
                    )
                )

    def _partitioning(self, schema: Schema) -> None:
        declared, sources = self.declaration.partitioning, [field.source_id for field in self.metadata.spec().fields]
        if declared is None or not self._has(schema, [field.column for field in declared], sources):
            return
        fields, refusals = partition_fields(declared, schema, PartitionHistory.of(self.metadata))
        self.refusals += refusals
        updates = spec_updates(self.metadata, fields)
        if not updates:
            return
        now = partition_texts(schema, self.metadata.spec().fields)
        self.changes.append(ChangePartitioning(now, partition_texts(schema, fields)))
        self.updates += updates
        if self.version == 1:
            self.refusals.append(
                Refusal(
                    RefusalKind.FORMAT_TOO_OLD,
                    "partitioning",
                    "in format version 1 partition fields have no ids, so the partitioning cannot change safely",
                    "Declare formatVersion: 2",
                    declared=", ".join(partition_texts(schema, fields)),
                    found=", ".join(now),
                )
            )

    def _sort_order(self, schema: Schema) -> None:
        declared, sources = self.declaration.sort_order, [key.source_id for key in self.metadata.sort_order().fields]
        if declared is None or not self._has(schema, [key.column for key in declared], sources):
            return
        fields: tuple[SortField, ...] = sort_fields(declared, schema)
        updates = sort_updates(self.metadata, fields)
        if updates:
            now = sort_texts(schema, self.metadata.sort_order().fields)
            self.changes.append(ChangeSortOrder(now, sort_texts(schema, fields)))
            self.updates += updates

    def _properties(self, previously_declared: frozenset[str]) -> None:
        now, declared = self.metadata.properties, self.declaration.properties
        setting = {key: value for key, value in sorted(declared.items()) if now.get(key) != value}
        unsetting = sorted(key for key in previously_declared - declared.keys() if key in now)
        self.changes += [SetProperty(key, now.get(key), value) for key, value in setting.items()]
        self.changes += [UnsetProperty(key, now[key]) for key in unsetting]
        if setting:
            self.updates.append(SetPropertiesUpdate(updates=setting))
        if unsetting:
            self.updates.append(RemovePropertiesUpdate(removals=unsetting))

    def _requirements(self) -> Iterator[TableRequirement]:
        if not self.updates:
            return
        metadata = self.metadata
        yield AssertTableUUID(uuid=metadata.table_uuid)
        yield AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id)
        yield AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id)
        yield AssertDefaultSpecId(default_spec_id=metadata.default_spec_id)
        yield AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id)
        yield AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id)
        if self.relies_on_emptiness:
            yield AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id)


def has_data(metadata: TableMetadata) -> bool:
    """Whether any snapshot that somebody could still read, or roll back to, holds a row."""
    totals = (snapshot.summary and snapshot.summary.get("total-records") for snapshot in metadata.snapshots)
    return any(total != "0" for total in totals)
