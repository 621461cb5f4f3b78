"""ManagedTable: one table as it should be, and what is known of it."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from tablewright.api.conditions import Condition
from tablewright.api.objects import ApiModel, KubernetesResource
from tablewright.api.policy import MaintenanceFields, TableLayout


class CatalogReference(ApiModel):
    name: str


class Identifier(ApiModel):
    namespace: str
    name: str


class Column(ApiModel):
    name: str
    type: str
    required: bool = False
    doc: str | None = None
    previous_names: tuple[str, ...] = ()


class TableSchema(ApiModel):
    columns: tuple[Column, ...] = Field(min_length=1)
    identifier_columns: tuple[str, ...] | None = None
    removed_columns: Literal["Refuse", "Drop"] = "Refuse"


class PartitionField(ApiModel):
    column: str
    transform: str
    name: str | None = None


class ManagementPolicy(StrEnum):
    """How far the object rules the table."""

    FULL = "Full"
    MAINTAIN_ONLY = "MaintainOnly"
    OBSERVE_ONLY = "ObserveOnly"


class DeletionPolicy(StrEnum):
    """What happens to the table when its object is deleted."""

    RETAIN = "Retain"
    DROP = "Drop"
    PURGE = "Purge"


class ManagedTableSpec(MaintenanceFields):
    catalog_ref: CatalogReference
    identifier: Identifier | None = None
    management_policy: ManagementPolicy = ManagementPolicy.FULL
    format_version: Literal[2, 3] | None = None
    table_schema: TableSchema | None = Field(default=None, alias="schema")
    partitioning: tuple[PartitionField, ...] | None = None
    layout: TableLayout = TableLayout()
    properties: dict[str, str] = Field(default_factory=dict)
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN


class TableIdentity(ApiModel):
    uuid: str
    location: str
    metadata_location: str
    snapshot_id: int | None = None
    schema_id: int
    spec_id: int


class HealthFigures(ApiModel):
    target_file_bytes: int
    data_files: int
    small_files: int
    delete_files: int
    data_bytes: int
    records: int
    median_file_bytes: int
    manifests: int
    snapshots: int


class OperationStatus(ApiModel):
    operation: str
    last_run: str | None = None
    last_success_time: datetime | None = None
    consecutive_failures: int = 0


class EffectiveField(ApiModel):
    """One field of the policy that holds, and which level gave it."""

    field: str
    value: str
    origin: str


class ManagedTableStatus(ApiModel):
    observed_generation: int = -1
    conditions: tuple[Condition, ...] = ()
    identity: TableIdentity | None = None
    health: HealthFigures | None = None
    operations: tuple[OperationStatus, ...] = ()
    effective_policy: tuple[EffectiveField, ...] = ()
    declared_properties: tuple[str, ...] = ()  # those that may be unset again: they were declared once


class ManagedTable(KubernetesResource):
    kind_name: ClassVar[str] = "ManagedTable"
    plural: ClassVar[str] = "managedtables"

    spec: ManagedTableSpec
    status: ManagedTableStatus = ManagedTableStatus()

    @property
    def identifier(self) -> tuple[str, str]:
        """The table's name in the catalog: as declared, or the object's own, with _ for -."""
        declared = self.spec.identifier
        if declared is not None:
            return declared.namespace, declared.name
        return self.metadata.namespace.replace("-", "_"), self.metadata.name.replace("-", "_")
