"""MaintenanceRun: one run of one operation on one table."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from tablewright.api.objects import ApiModel, KubernetesResource


class Operation(StrEnum):
    COMPACT = "Compact"
    EXPIRE_SNAPSHOTS = "ExpireSnapshots"
    REMOVE_ORPHAN_FILES = "RemoveOrphanFiles"


class Phase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class TableReference(ApiModel):
    name: str


class MaintenanceRunSpec(ApiModel):
    table_ref: TableReference
    operation: Operation


class Progress(ApiModel):
    tasks: int = 0
    tasks_done: int = 0
    bytes: int = 0
    bytes_done: int = 0


class RunResult(ApiModel):
    snapshot_id: int | None = None
    rewritten_files: int = 0
    added_files: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0
    records: int = 0
    expired_snapshots: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0
    marked_files: int = 0


class MaintenanceRunStatus(ApiModel):
    observed_generation: int = -1
    phase: Phase | None = None
    reason: str | None = None
    message: str | None = None
    job_name: str | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    progress: Progress | None = None
    result: RunResult | None = None

    @property
    def is_finished(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)


class MaintenanceRun(KubernetesResource):
    kind_name: ClassVar[str] = "MaintenanceRun"
    plural: ClassVar[str] = "maintenanceruns"

    spec: MaintenanceRunSpec
    status: MaintenanceRunStatus = MaintenanceRunStatus()
