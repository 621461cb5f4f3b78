"""What a policy says about snapshots, as far as the table and its refs leave it open."""

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt


class ExpiryOptions(BaseModel):
    """What is not given comes from the table's `history.expire.*`. A branch's or tag's own settings go before both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_snapshot_age_ms: NonNegativeInt | None = None
    min_snapshots_to_keep: PositiveInt | None = None
    max_ref_age_ms: PositiveInt | None = None
    protected_snapshots: frozenset[int] = Field(default=frozenset())
    """Kept whatever their age: what running jobs started from."""
