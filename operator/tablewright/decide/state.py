"""What decisions are made from, and what they come to. Values only."""

from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table.metadata import TableMetadata

from tableformat.declaration import Refusal, TableDeclaration
from tableformat.maintenance.holds import Hold
from tablewright.api.run import Cause, MaintenanceRunStatus, Operation, RunFigures, RunPlan, RunResult
from tablewright.api.table import HealthFigures, ManagedTableStatus


@dataclass(frozen=True)
class CatalogUnusable:
    """The catalog is not there, or cannot be reached; what is known of the table stays as it was."""

    reason: str
    message: str


@dataclass(frozen=True)
class TableAbsent:
    """The catalog answers, and has no such table."""


@dataclass(frozen=True)
class CreationRefused:
    """There is no such table, and it cannot be created as declared."""

    refusals: tuple[Refusal, ...]


@dataclass(frozen=True)
class TableUnreadable:
    """The catalog has the table, but its metadata cannot be used as it is."""

    message: str


@dataclass(frozen=True)
class TablePresent:
    metadata: TableMetadata
    metadata_location: str
    health: HealthFigures


TableObservation = CatalogUnusable | TableAbsent | CreationRefused | TableUnreadable | TablePresent


@dataclass(frozen=True)
class ApplyDeclaration:
    """Create the table, or bring it to its declaration, in one commit."""

    declaration: TableDeclaration


@dataclass(frozen=True)
class StartRun:
    """Start this MaintenanceRun. The name is a function of its cause, so a repeated start is the same run."""

    name: str
    operation: Operation
    cause: Cause
    scheduled_for: datetime | None = None


@dataclass(frozen=True)
class ApplyHolds:
    """Set these holds, and release what was placed before and is not among them, in one commit."""

    holds: tuple[Hold, ...]
    placed: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableDecision:
    status: ManagedTableStatus
    apply: ApplyDeclaration | ApplyHolds | None = None
    start: StartRun | None = None
    due: tuple[StartRun, ...] = ()  # all that could start now, in the order in which it would; `start` is the first
    clear_request: bool = False  # the annotation that asked for a run was acted on
    delete_runs: tuple[str, ...] = ()  # finished ones, beyond the history's limits
    look_again_at: datetime | None = None


@dataclass(frozen=True)
class PodProblem:
    """Why a run's pod does not run, or ended without a report."""

    reason: str  # CamelCase
    message: str


@dataclass(frozen=True)
class JobObservation:
    """A run's Job as the API server has it."""

    active: bool
    succeeded: bool
    failed: bool
    failure: str = ""
    failure_reason: str = "JobFailed"
    report: "DriverReport | None" = None  # from the termination message of the driver's last pod
    problem: PodProblem | None = None
    is_settled: bool = True  # the driver runs, or has ended: the Job itself tells of whatever comes next
    has_begun: bool = True  # a driver of it runs or ran, or may have
    made_with: str | None = None  # a fingerprint of what was declared when it was made
    is_being_deleted: bool = False
    version: "JobVersion | None" = None


@dataclass(frozen=True)
class DriverReport:
    """What the driver says of its run when it ends."""

    succeeded: bool
    reason: str
    message: str
    result: RunResult | None
    plan: RunPlan | None = None
    before: RunFigures | None = None
    after: RunFigures | None = None


@dataclass(frozen=True)
class CreateJob:
    """Create the run's Job; its name is the run's."""


@dataclass(frozen=True)
class JobVersion:
    """One Job, as it was when it was looked at."""

    uid: str
    resource_version: str


@dataclass(frozen=True)
class DeleteJob:
    """Delete the run's Job, unless it is another one by now, or changed."""

    version: JobVersion


@dataclass(frozen=True)
class RunDecision:
    status: MaintenanceRunStatus
    create_job: CreateJob | None = None
    delete_job: DeleteJob | None = None
    look_again_at: datetime | None = None
