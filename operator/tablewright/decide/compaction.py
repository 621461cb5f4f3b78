"""When a table's files call for a compaction: here and nowhere else."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tablewright.api.run import MaintenanceRun, Operation
from tablewright.api.table import HealthFigures
from tablewright.decide.history import in_order
from tablewright.decide.policy import EffectivePolicy

FRUITLESS_PAUSE = timedelta(hours=1)  # where a run found nothing worth a rewrite, the next commit changes little


def is_past_policy(policy: EffectivePolicy, health: HealthFigures) -> bool:
    """Whether the table's files are past what its policy tolerates."""
    return policy.small_files is not None and health.small_files >= policy.small_files


def is_worthwhile(policy: EffectivePolicy, health: HealthFigures) -> bool:
    """Whether a scheduled compaction could find anything to do."""
    return health.small_files >= policy.min_input_files or health.delete_files > 0


def was_fruitless_until(runs: Sequence[MaintenanceRun]) -> datetime | None:
    """Until when the last run's finding, that nothing was worth a rewrite, is taken to hold."""
    ended = [run for run in in_order(runs, Operation.COMPACT) if run.status.completion_time is not None]
    if not ended or ended[-1].status.completion_time is None:
        return None
    result = ended[-1].status.result
    fruitless = result is not None and result.rewritten_files == 0
    return ended[-1].status.completion_time + FRUITLESS_PAUSE if fruitless else None
