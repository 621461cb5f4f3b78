"""One maintenance run as a value: what the operator asks of a job, and what the job says when it ends.

Both travel as JSON, in a pod's environment and in its termination message, so neither ever holds a credential: a
catalog's configuration names where things are, and the pod's environment supplies the keys.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from tableformat.catalogs import CatalogConfig
from tableformat.inspection import TableHealth
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult
from tableformat.maintenance.expiry import ExpiryOptions, ExpiryResult
from tableformat.maintenance.manifests import ManifestOptions, ManifestResult
from tableformat.maintenance.orphans import OrphanOptions, OrphanResult
from tableformat.maintenance.retention import RowRetentionOptions, RowRetentionResult
from tableformat.maintenance.rollback import CherryPickResult, RollbackOptions, RollbackResult
from tableformat.maintenance.sizing import ExecutorLimits
from tableformat.maintenance.summaries import PlanSummary

GIVE_UP_EXIT_CODE = 2
"""A driver's word that trying again is of no use: Kubernetes is told to start no other pod then."""
OUT_OF_MEMORY = "OutOfMemory"
"""The one reason that is more than a word for people: the next attempt, and the next run, give tasks more memory."""
SPARK_LOST = "SparkLost"
"""Spark's JVM ended under a run. Of several that shared it nobody knows which did it: each is tried again alone."""
TERMINATION_MESSAGE_BYTES = 4096
"""Kubernetes cuts a longer one, and what is left is no JSON."""
_LONGEST_MESSAGE = 1000


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)  # a catalog may have a password


class RunReference(_Value):
    """The MaintenanceRun that a job works for, where there is one to report to."""

    namespace: str
    name: str


class CompactWork(_Value):
    operation: Literal["Compact"] = "Compact"
    options: CompactionOptions


class ExpireWork(_Value):
    operation: Literal["ExpireSnapshots"] = "ExpireSnapshots"
    options: ExpiryOptions


class OrphanWork(_Value):
    operation: Literal["RemoveOrphanFiles"] = "RemoveOrphanFiles"
    options: OrphanOptions


class ManifestWork(_Value):
    operation: Literal["RewriteManifests"] = "RewriteManifests"
    options: ManifestOptions = ManifestOptions()


class RowRetentionWork(_Value):
    operation: Literal["DeleteExpiredRows"] = "DeleteExpiredRows"
    options: RowRetentionOptions


class RollbackWork(_Value):
    operation: Literal["Rollback"] = "Rollback"
    options: RollbackOptions


class CherryPickWork(_Value):
    operation: Literal["CherryPick"] = "CherryPick"
    snapshot_id: int


class InspectWork(_Value):
    operation: Literal["Inspect"] = "Inspect"
    small_file_bytes: PositiveInt


Work = Annotated[
    CompactWork
    | ExpireWork
    | OrphanWork
    | ManifestWork
    | RowRetentionWork
    | RollbackWork
    | CherryPickWork
    | InspectWork,
    Field(discriminator="operation"),
]


class MaintenanceJob(_Value):
    run_id: str  # recorded in the commits that the run makes, so that a restarted run knows its own
    run_name: str = ""
    """By which people know the run; recorded beside its id."""
    catalog: CatalogConfig
    identifier: tuple[str, ...]
    work: Work
    dry_run: bool = False
    """Plan, with the planner of the real run, and change nothing."""
    small_file_bytes: PositiveInt | None = None
    """For the figures before and after: a file is small below this. By default as the work or the table says."""
    executors: ExecutorLimits | None = None
    """What the work may be spread over, where the driver is a pod that may have others."""
    out_of_memory: int = Field(default=0, ge=0)
    """How many runs of this work in a row ended for want of memory before this one."""
    run: RunReference | None = None


class DriverOrder(_Value):
    """A job for a driver that carries out several, with the files in which it tells of this one."""

    job: MaintenanceJob
    report: Path
    """Gets the JobReport, whole or not at all."""
    progress: Path
    """Gets a line of JSON as often as there is news."""


class TableFigures(_Value):
    """What the table's main branch consists of, at one snapshot."""

    snapshot_id: int | None = None
    small_file_bytes: int = 0
    """Below which size a file was counted as small."""
    data_files: int = 0
    small_files: int = 0
    delete_files: int = 0
    data_bytes: int = 0
    median_file_bytes: int = 0
    records: int = 0
    snapshots: int = 0
    manifests: int = 0

    @classmethod
    def of(cls, health: TableHealth, *, small_file_bytes: int) -> "TableFigures":
        counted = {name: getattr(health, name) for name in cls.model_fields if name != "small_file_bytes"}
        return cls(small_file_bytes=small_file_bytes, **counted)


class JobReport(_Value):
    """What was done, in the one field that the operation fills. A dry run fills the plan alone."""

    succeeded: bool
    reason: str  # one CamelCase word, for conditions and alerts
    message: str
    plan: PlanSummary | None = None
    before: TableFigures | None = None
    after: TableFigures | None = None
    compaction: CompactionResult | None = None
    expiry: ExpiryResult | None = None
    orphans: OrphanResult | None = None
    manifests: ManifestResult | None = None
    rows: RowRetentionResult | None = None
    rollback: RollbackResult | None = None
    cherry_pick: CherryPickResult | None = None
    inspection: TableHealth | None = None

    def figures(self) -> dict[str, int | bool | None] | None:
        """What was done, by the names that a MaintenanceRun's `status.result` has for it; None if there are none."""
        if self.compaction is not None:
            return {
                "snapshot_id": self.compaction.snapshot_id,
                "rewritten_files": self.compaction.files_rewritten,
                "added_files": self.compaction.files_added,
                "rewritten_bytes": self.compaction.bytes_rewritten,
                "added_bytes": self.compaction.bytes_added,
                "records": self.compaction.rows,
                "more_left": self.compaction.more_left,
                "too_new": self.compaction.too_new,
            }
        if self.expiry is not None:
            return {
                "expired_snapshots": self.expiry.snapshots_expired,
                "deleted_files": self.expiry.files_deleted,
                "deleted_bytes": self.expiry.bytes_deleted,
            }
        if self.orphans is not None:
            return {
                "deleted_files": self.orphans.files_deleted,
                "deleted_bytes": self.orphans.bytes_deleted,
                "marked_files": self.orphans.files_marked,
            }
        if self.manifests is not None:
            return {
                "snapshot_id": self.manifests.snapshot_id,
                "rewritten_manifests": self.manifests.manifests_replaced,
                "added_manifests": self.manifests.manifests_written,
            }
        if self.rows is not None:
            return {
                "snapshot_id": self.rows.snapshot_id,
                "removed_files": self.rows.files_removed,
                "removed_bytes": self.rows.bytes_removed,
                "deleted_records": self.rows.rows_removed,
            }
        if self.rollback is not None:
            return {"snapshot_id": self.rollback.to_snapshot_id}
        if self.cherry_pick is not None:
            return {"snapshot_id": self.cherry_pick.snapshot_id}
        return None

    def to_termination_message(self) -> str:
        """As JSON that fits. What is only there for the eye is left out first, from its end."""
        report = self
        if len(self.message) > _LONGEST_MESSAGE:
            report = report.model_copy(update={"message": _shortened(self.message)})
        while len(text := report.model_dump_json(exclude_defaults=True).encode()) > TERMINATION_MESSAGE_BYTES:
            smaller = report._with_less()
            if smaller is None:
                break
            report = smaller
        return text.decode()

    def _with_less(self) -> "JobReport | None":
        if self.inspection is not None and self.inspection.worst_partitions:
            fewer = replace(self.inspection, worst_partitions=self.inspection.worst_partitions[:-1])
            return self.model_copy(update={"inspection": fewer})
        if self.plan is not None and self.plan.lines:
            return self.model_copy(update={"plan": self.plan.model_copy(update={"lines": self.plan.lines[:-1]})})
        if self.expiry is not None and self.expiry.refs_removed:
            kept = self.expiry.refs_removed[:-1]
            return self.model_copy(update={"expiry": self.expiry.model_copy(update={"refs_removed": kept})})
        return None


def _shortened(message: str) -> str:
    """Without its middle: what it is about comes first, and why mostly last."""
    half = _LONGEST_MESSAGE // 2
    return f"{message[: half - 1]}…{message[-half:]}"
