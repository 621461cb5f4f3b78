"""Which finished runs go: of each operation, the oldest beyond what the policy keeps.

Only runs that the operator made: what a person applied from Git would come back, and run again. And only those whose
outcome is in the table's status already.
"""

from collections.abc import Sequence

from tablewright.api.run import MaintenanceRun, Operation, Phase
from tablewright.decide.bookkeeping import Operations, counted, real_runs
from tablewright.decide.causes import is_ours
from tablewright.decide.policy import EffectiveRunHistory


def surplus_runs(
    runs: Sequence[MaintenanceRun], operations: Operations, history: EffectiveRunHistory
) -> tuple[str, ...]:
    found: list[str] = []
    for operation in Operation:
        mine = [run for run in counted(operations[operation], real_runs(runs, operation)) if is_ours(run)]
        for phase, limit in ((Phase.SUCCEEDED, history.succeeded), (Phase.FAILED, history.failed)):
            ended = [run.metadata.name for run in mine if run.status.phase == phase]
            found += ended[: max(0, len(ended) - limit)]
    return tuple(sorted(found))
