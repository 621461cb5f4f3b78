"""One maintenance run as a value: what the operator asks of a job, and what the job says when it ends.

Both travel as JSON, in a pod's environment and in its termination message, so neither ever holds a credential: a
catalog's configuration names where things are, and the pod's environment supplies the keys.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tableformat.catalogs import CatalogConfig
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult
from tableformat.maintenance.expiry import ExpiryOptions, ExpiryResult
from tableformat.maintenance.orphans import OrphanOptions, OrphanResult


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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


Work = Annotated[CompactWork | ExpireWork | OrphanWork, Field(discriminator="operation")]


class MaintenanceJob(_Value):
    run_id: str  # recorded in the commits that the run makes, so that a restarted run knows its own
    catalog: CatalogConfig
    identifier: tuple[str, ...]
    work: Work
    run: RunReference | None = None


class JobReport(_Value):
    """What was done, in the one field that the operation fills."""

    succeeded: bool
    reason: str  # one CamelCase word, for conditions and alerts
    message: str
    compaction: CompactionResult | None = None
    expiry: ExpiryResult | None = None
    orphans: OrphanResult | None = None
