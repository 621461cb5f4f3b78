"""What is to be done with files that nothing leads to, and how sure one has to be."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, NonNegativeInt

_DAY_MS = 24 * 3600 * 1000
SAFE_AGE_MS = _DAY_MS
"""Below this, a slow writer's files look like orphans before it commits them."""


class OrphanAction(StrEnum):
    REPORT = "Report"
    MARK_THEN_DELETE = "MarkThenDelete"
    """Mark now; a run after the grace period deletes what was marked and is still unreachable."""
    DELETE = "Delete"


class PrefixMismatch(StrEnum):
    """A file has the path of a live one, in another store by its scheme or authority."""

    REFUSE = "Refuse"
    KEEP = "Keep"
    DELETE = "Delete"
    """They are known to be two different stores."""


class OrphanOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    action: OrphanAction = OrphanAction.MARK_THEN_DELETE
    min_age_ms: NonNegativeInt = 3 * _DAY_MS
    grace_ms: NonNegativeInt = 7 * _DAY_MS
    allow_short_min_age: bool = False
    """Accept an age guard of less than a day; only for a table that nobody writes to."""
    prefix_mismatch: PrefixMismatch = PrefixMismatch.REFUSE
