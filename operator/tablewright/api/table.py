"""ManagedTable: one table as it should be, and what is known of it."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tablewright.api.conditions import Condition
from tablewright.api.objects import ApiModel, KubernetesResource, StatusModel
from tablewright.api.policy import MOST_HOLDS, MaintenanceFields, TableLayout, TableRetention
from tablewright.api.run import Cause, Count, Operation
from tablewright.api.texts import (
    CatalogName,
    ColumnName,
    ColumnPath,
    Doc,
    Message,
    Note,
    ObjectName,
    StorageLocation,
    Written,
)


class CatalogReference(ApiModel):
    name: ObjectName


class Identifier(ApiModel):
    namespace: CatalogName
    name: CatalogName


class FieldAttributes(ApiModel):
    """What can be said of a column, and of a field inside one."""

    doc: Doc | None = None
    previous_names: tuple[ColumnName, ...] = Field(default=(), max_length=32)
    initial_default: str | None = Field(default=None, max_length=4096)
    write_default: str | None = Field(default=None, max_length=4096)


class NestedField(FieldAttributes):
    path: ColumnPath


class Column(FieldAttributes):
    name: ColumnName
    type: str = Field(min_length=1, max_length=16384)
    required: bool = False
    nested: tuple[NestedField, ...] = Field(default=(), max_length=64)


class TableSchema(ApiModel):
    columns: tuple[Column, ...] = Field(min_length=1, max_length=2000)
    identifier_columns: tuple[ColumnPath, ...] | None = Field(default=None, max_length=12)
    removed_columns: tuple[ColumnPath, ...] = Field(default=(), max_length=256)


def _as_transform(text: str) -> str:
    """As Spark writes it: `days`, `bucket(16)`."""
    return re.sub(r"s$", "", re.sub(r"[(\s]+(\d+)\s*\)?$", r"[\1]", text.strip().lower()))


PartitionTransform = Annotated[
    str,
    Written(
        r"^(identity|year|month|day|hour|bucket\[[1-9][0-9]{0,8}\]|truncate\[[1-9][0-9]{0,8}\])$",
        32,
        "a partition transform",
        "identity, bucket[16], truncate[4], year, month, day or hour",
        suggest=_as_transform,
    ),
]


class PartitionField(ApiModel):
    column: ColumnPath
    transform: PartitionTransform
    name: ColumnName | None = None


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
    location: StorageLocation | None = None
    table_schema: TableSchema | None = Field(default=None, alias="schema")
    partitioning: tuple[PartitionField, ...] | None = Field(default=None, max_length=32)
    properties: dict[Annotated[str, Field(min_length=1, max_length=255)], Annotated[str, Field(max_length=4096)]] = (
        Field(default_factory=dict, max_length=256)
    )
    layout: TableLayout = TableLayout()
    retention: TableRetention = TableRetention()
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN


class TableIdentity(StatusModel):
    uuid: str = Field(max_length=36)
    location: str = Field(max_length=2048)
    metadata_location: str = Field(max_length=4096)
    snapshot_id: int | None = None
    schema_id: int
    spec_id: int


class CountedFiles(StatusModel):
    """What a run counted of a table with too many files for the operator to look at each."""

    snapshot_id: int  # these were its files: of a later one they say nothing
    time: datetime
    small_file_bytes: Count
    data_files: Count
    small_files: Count
    data_bytes: Count
    median_file_bytes: Count


class HealthFigures(StatusModel):
    target_file_bytes: Count
    estimated: bool = False  # there are too many files for a look at each, and no run has counted them
    exact: CountedFiles | None = None
    data_files: Count
    small_files: Count
    delete_files: Count
    delete_records: Count = 0
    data_bytes: Count
    size: str = Field(default="", max_length=16)
    records: Count
    median_file_bytes: Count
    manifests: Count
    old_spec_files: Count = 0
    manifest_bytes: Count = 0
    snapshots: Count


class RunState(StrEnum):
    """How far the operator has followed an operation's last run."""

    STARTED = "Started"  # it was asked for, and not seen yet
    SEEN = "Seen"
    ENDED = "Ended"  # its outcome is counted
    GONE = "Gone"  # it was deleted before it ended


class OperationRecord(StatusModel):
    """What the next decision needs of the past, so that it does not depend on runs that are deleted by then."""

    state: RunState | None = None  # of the last run
    run_time: datetime | None = None
    cause: Cause | None = None
    snapshot_id: int | None = None  # what it started from
    end: datetime | None = None  # of the last that ended
    generation: int | None = None  # of the object, when it failed
    owed: bool = False  # a scheduled run failed, and none has succeeded since
    schedule: str | None = Field(default=None, max_length=128)
    scheduled_until: datetime | None = None  # scheduled times up to here are dealt with
    paused_until: datetime | None = None  # no trigger starts it before
    idle_snapshot_id: int | None = None  # there was nothing to do in this one
    small_files: Count | None = None  # what the last compaction left
    delete_percent: Count | None = None


class OperationStatus(StatusModel):
    operation: Operation
    last_run: str | None = Field(default=None, max_length=253)
    last_success: datetime | None = None
    next_run: datetime | None = None
    consecutive_failures: Count = 0
    stopped: bool = False
    message: Note | None = None
    record: OperationRecord = OperationRecord()


class HoldState(StrEnum):
    HELD = "Held"
    PENDING = "Pending"
    REFUSED = "Refused"
    EXPIRED = "Expired"


class HoldStatus(StatusModel):
    name: str = Field(max_length=200)
    state: HoldState
    message: Note | None = None


class EffectiveField(StatusModel):
    """One field of the policy that holds, and which level gave it."""

    field: str = Field(max_length=128)
    value: Message
    origin: str = Field(max_length=300)


class ManagedTableStatus(StatusModel):
    observed_generation: int = -1
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16)
    identity: TableIdentity | None = None
    health: HealthFigures | None = None
    last_maintenance: datetime | None = None
    next_maintenance: datetime | None = None
    operations: tuple[OperationStatus, ...] = Field(default=(), max_length=16)
    holds: tuple[HoldStatus, ...] = Field(default=(), max_length=MOST_HOLDS)
    effective_policy: tuple[EffectiveField, ...] = Field(default=(), max_length=64)
    # The metadata file of a table that is being purged: what is left of it goes from there.
    purging: str | None = Field(default=None, max_length=4096)
    # Those that may be unset again: they were declared once.
    declared_properties: tuple[Annotated[str, Field(max_length=255)], ...] = Field(default=(), max_length=512)


class ManagedTable(KubernetesResource):
    kind_name: ClassVar[str] = "ManagedTable"
    plural: ClassVar[str] = "managedtables"

    spec: ManagedTableSpec
    status: ManagedTableStatus = ManagedTableStatus()

    @property
    def identifier(self) -> tuple[str, str]:
        """The table's name in the catalog: as declared, or the object's own, with _ for -."""
        declared = self.spec.identifier
        return default_identifier(*self.key) if declared is None else (declared.namespace, declared.name)


def default_identifier(namespace: str, name: str) -> tuple[str, str]:
    return namespace.replace("-", "_"), name.replace("-", "_")
