"""What must hold before anything of a table is deleted, and what to make of a table that changes under the eyes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from pyiceberg.table import Table

from tableformat.inspection import UnreadableManifest
from tableformat.maintenance.errors import ClockBehind, DeletionDisabled, TableChanged, UnreadableMetadata
from tableformat.properties import may_delete_files

_SKEW = timedelta(minutes=10)
_READINGS = 5

T = TypeVar("T")


def require_deletable(table: Table, *, now: datetime) -> None:
    """The files are the table's own, and their ages can be told."""
    if not may_delete_files(table.metadata.properties):
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


@contextmanager
def reading(table: Table) -> Iterator[None]:
    """A file that is missing from a table which has moved on was another expiry's to delete: no damage was found."""
    try:
        with _nothing_missing(table):
            yield
    except UnreadableMetadata as error:
        now = table.catalog.load_table(table.name())
        if now.metadata_location == table.metadata_location:
            raise
        raise TableChanged(f"table {'.'.join(table.name())} changed while it was read ({error}). Run again") from error


@contextmanager
def _nothing_missing(table: Table) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UnreadableMetadata(
            f"table {'.'.join(table.name())}: a file of its metadata does not exist ({error}); nothing was changed. "
            "Restore it, or roll the table back to a snapshot without it"
        ) from error
    except UnreadableManifest as error:
        raise UnreadableMetadata(f"table {'.'.join(table.name())}: {error}; nothing was changed") from error


def read_again_if_changed(work: Callable[[], T]) -> T:
    """The work, begun anew when the table changed while it was read; work that does so must bear being repeated."""
    for _ in range(_READINGS - 1):
        try:
            return work()
        except TableChanged:
            continue
    return work()
