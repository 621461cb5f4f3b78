"""MaintenanceRun: one run of one operation on one table."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import AwareDatetime, Field, model_validator

from tablewright.api.conditions import Condition
from tablewright.api.objects import ApiModel, KubernetesResource, StatusModel
from tablewright.api.texts import Message, ObjectName

Count = Annotated[int, Field(ge=0)]


class Operation(StrEnum):
    COMPACT = "Compact"
    EXPIRE_SNAPSHOTS = "ExpireSnapshots"
    REMOVE_ORPHAN_FILES = "RemoveOrphanFiles"
    REWRITE_MANIFESTS = "RewriteManifests"
    DELETE_EXPIRED_ROWS = "DeleteExpiredRows"
    ROLLBACK = "Rollback"
    CHERRY_PICK = "CherryPick"
    INSPECT = "Inspect"


class Phase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Cause(StrEnum):
    """Why a run was started."""

    SCHEDULE = "Schedule"
    TRIGGER = "Trigger"
    ANNOTATION = "Annotation"
    MANUAL = "Manual"


class TableReference(ApiModel):
    name: ObjectName


class Rollback(ApiModel):
    """Where a rollback goes back to: exactly one place."""

    snapshot_id: int | None = Field(default=None, ge=0)
    as_of: AwareDatetime | None = None
    tag: str | None = Field(default=None, min_length=1, max_length=255)
    before_run: str | None = Field(default=None, min_length=1, max_length=253)
    undo: bool = False
    """Where main was before its last rollback that is not undone."""
    allow_losing_commits: bool = False

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        given = (self.snapshot_id, self.as_of, self.tag, self.before_run, self.undo or None)
        if sum(each is not None for each in given) != 1:
            raise ValueError("name exactly one place to go back to: snapshotId, asOf, tag, beforeRun or undo")
        return self


class CherryPick(ApiModel):
    """Which staged snapshot is published."""

    snapshot_id: int = Field(ge=0)


class MaintenanceRunSpec(ApiModel):
    """That `rollback` comes with a Rollback alone, and `cherryPick` with a CherryPick, is the API server's to check: no
    run comes from elsewhere."""

    table_ref: TableReference
    operation: Operation
    dry_run: bool = False
    rollback: Rollback | None = None
    cherry_pick: CherryPick | None = None


class Progress(StatusModel):
    tasks: Count = 0
    tasks_done: Count = 0
    bytes: Count = 0
    bytes_done: Count = 0
    reason: str | None = Field(default=None, max_length=64)
    """Why no work is done just now, where that is so."""
    message: str | None = Field(default=None, max_length=1024)


class RunPlan(StatusModel):
    """What would go."""

    files: Count = 0
    bytes: Count = 0
    rows: Count = 0
    snapshots: Count = 0
    lines: tuple[Annotated[str, Field(max_length=1024)], ...] = Field(default=(), max_length=20)


class RunFigures(StatusModel):
    """A table's figures around a run, as the run counted them at one snapshot."""

    snapshot_id: int | None = None
    small_file_bytes: Count = 0
    data_files: Count = 0
    small_files: Count = 0
    delete_files: Count = 0
    data_bytes: Count = 0
    median_file_bytes: Count = 0
    records: Count = 0
    snapshots: Count = 0
    manifests: Count = 0


class RunResult(StatusModel):
    snapshot_id: int | None = None
    rewritten_files: Count = 0
    added_files: Count = 0
    rewritten_bytes: Count = 0
    added_bytes: Count = 0
    records: Count = 0
    expired_snapshots: Count = 0
    deleted_files: Count = 0
    deleted_bytes: Count = 0
    deleted_records: Count = 0
    removed_files: Count = 0
    """Files that the table refers to no more; they are in storage until their snapshots expire."""
    removed_bytes: Count = 0
    marked_files: Count = 0
    rewritten_manifests: Count = 0
    added_manifests: Count = 0
    more_left: bool = False
    """Another compaction could go on at once, beyond what one run may take."""
    too_new: bool = False
    """A compaction left files alone that were written during the cool-down."""


class MaintenanceRunStatus(StatusModel):
    observed_generation: int = -1
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16)
    phase: Phase | None = None
    cause: Cause | None = None
    reason: str | None = Field(default=None, max_length=64)
    message: Message | None = None
    job_name: str | None = Field(default=None, max_length=253)
    held_up_since: datetime | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    progress: Progress | None = None
    plan: RunPlan | None = None
    before: RunFigures | None = None
    after: RunFigures | None = None
    result: RunResult | None = None

    @property
    def is_finished(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)


class MaintenanceRun(KubernetesResource):
    kind_name: ClassVar[str] = "MaintenanceRun"
    plural: ClassVar[str] = "maintenanceruns"

    spec: MaintenanceRunSpec
    status: MaintenanceRunStatus = MaintenanceRunStatus()
