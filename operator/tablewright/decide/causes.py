"""Why a run was started: as the run itself carries it, and as its name follows from it.

The same cause gives the same name, so starting a run twice is creating one object twice. What the operator starts says
why in annotations; a run without them was made by a person.
"""

import hashlib
from datetime import datetime

from tablewright.api.run import Cause, MaintenanceRun, Operation
from tablewright.api.table import ManagedTable

CAUSE_ANNOTATION = "tablewright.dev/cause"
RUN_ANNOTATION = "tablewright.dev/run"  # on a table: a person asks for a run
SCHEDULED_FOR_ANNOTATION = "tablewright.dev/scheduled-for"
LONGEST_NAME = 63  # of a run whose Job has its name: the pods of a Job have that as a label


def run_name(table: ManagedTable, operation: Operation, cause: str) -> str:
    return name_of_run(table.metadata.name, operation, f"{table.metadata.uid}/{operation}/{cause}")


def name_of_run(table: str, operation: str, source: str) -> str:
    """`source` is what tells it from other runs of the operation on a table of this name."""
    ending = f"-{operation.lower()}-{hashlib.sha256(source.encode()).hexdigest()[:10]}"
    return table[: LONGEST_NAME - len(ending)].rstrip("-.") + ending


def cause_of(run: MaintenanceRun) -> Cause:
    written = run.metadata.annotations.get(CAUSE_ANNOTATION)
    return Cause(written) if written in tuple(Cause) else Cause.MANUAL


def scheduled_for(run: MaintenanceRun) -> datetime | None:
    """Up to when the run makes up for scheduled times, which the server's clock may not have reached yet."""
    try:
        found = datetime.fromisoformat(run.metadata.annotations[SCHEDULED_FOR_ANNOTATION])
    except (KeyError, ValueError):
        return None
    return found if found.tzinfo else None


def is_ours(run: MaintenanceRun) -> bool:
    """Whether the operator made it."""
    return CAUSE_ANNOTATION in run.metadata.annotations
