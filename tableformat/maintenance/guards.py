"""What must hold before anything of a table is deleted."""

from datetime import datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.utils.properties import property_as_bool

from tableformat.maintenance.errors import ClockBehind, DeletionDisabled

_SKEW = timedelta(minutes=10)


def require_deletable(table: Table, *, now: datetime) -> None:
    """The files are the table's own, and their ages can be told."""
    if not property_as_bool(table.metadata.properties, "gc.enabled", True):
        raise DeletionDisabled(".".join(table.name()))
    require_current_clock(table, now=now)


def require_current_clock(table: Table, *, now: datetime) -> None:
    """Clocks of different machines may differ by minutes; by more, an age means nothing."""
    behind = timedelta(milliseconds=table.metadata.last_updated_ms - int(now.timestamp() * 1000))
    if behind > _SKEW:
        raise ClockBehind(
            f"table {'.'.join(table.name())} was last changed {behind} from now by this machine's clock, which "
            "cannot be; nothing was changed. Correct the clock"
        )
