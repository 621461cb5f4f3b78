"""When a table's files call for a compaction: here and nowhere else."""

from tableformat.plurals import plural
from tablewright.api.table import HealthFigures, OperationRecord
from tablewright.decide.policy import EffectivePolicy


def delete_percent(health: HealthFigures) -> int:
    """The share of the table's rows that delete files mark as deleted."""
    return min(100, health.delete_records * 100 // health.records) if health.records else 0


def past_policy(policy: EffectivePolicy, health: HealthFigures, record: OperationRecord) -> list[tuple[str, str]]:
    """What of the table's files is past what its policy tolerates: a reason, and a sentence, for each."""
    found = []
    limit, left = policy.small_files, record.small_files
    if limit is not None and health.small_files >= limit:
        sentence = f"{small_files_said(health)}; the policy tolerates fewer than {limit}"
        if left is not None and left >= limit:  # no compaction brings that about, so a person has to
            sentence += (
                f", and the last compaction left {left} that have nothing to be joined with: "
                "raise compaction.triggers.smallFiles, or partition more coarsely"
            )
        found.append(("TooManySmallFiles", sentence))
    limit, percent = policy.delete_ratio_trigger_percent, delete_percent(health)
    if limit is not None and percent >= limit:
        tolerated = f"the policy tolerates less than {limit} %"
        found.append(("TooManyDeletes", f"delete files mark {percent} % of the rows as deleted; {tolerated}"))
    return found


def small_files_said(health: HealthFigures) -> str:
    least = "at least " if health.estimated else ""
    return f"{least}{plural(health.small_files, 'small file')} of {health.data_files:,}"


def is_triggered(policy: EffectivePolicy, health: HealthFigures, record: OperationRecord) -> bool:
    """Whether a figure is past its limit, and by enough more than the last compaction left for another to help."""
    return _is_past(health.small_files, policy.small_files, record.small_files) or _is_past(
        delete_percent(health), policy.delete_ratio_trigger_percent, record.delete_percent
    )


def is_worthwhile(policy: EffectivePolicy, health: HealthFigures) -> bool:
    """Whether a scheduled compaction could find anything to do. Estimates prove that files are small, never that none
    are: then any of them may be."""
    moves = policy.use_current_spec and health.old_spec_files > 0
    may_be_small = health.data_files if health.estimated else health.small_files
    return moves or may_be_small >= policy.min_input_files or health.delete_files > 0


def _is_past(figure: int, limit: int | None, left: int | None) -> bool:
    """With hysteresis: where a compaction left many, alone in their partitions, a quarter of the limit must be new."""
    return limit is not None and figure >= limit and (left is None or figure >= left + max(1, limit // 4))
