"""One maintenance run as a value: what the operator asks of a job, and what the job says when it ends.

Both travel as JSON, in a pod's environment and in its termination message, so neither ever holds a credential: a
catalog's configuration names where things are, and the pod's environment supplies the keys.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tableformat.catalogs import CatalogConfig
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunReference(_Value):
    """The MaintenanceRun that a job works for, where there is one to report to."""

    namespace: str
    name: str


class MaintenanceJob(_Value):
    run_id: str  # recorded in the commits that the run makes, so that a restarted run knows its own
    catalog: CatalogConfig
    identifier: tuple[str, ...]
    operation: Literal["Compact"]
    compaction: CompactionOptions
    run: RunReference | None = None


class JobReport(_Value):
    succeeded: bool
    reason: str  # one CamelCase word, for conditions and alerts
    message: str
    compaction: CompactionResult | None = None
