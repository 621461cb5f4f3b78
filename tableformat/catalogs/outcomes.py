"""How a write to a catalog's server can end, other than well. Each store translates its own errors into these.

The commit decides by these types alone, so a store must be honest: `LostRace` and `NotApplied` promise that the
write took no effect and never will; anything less sure is `OutcomeUnknown`.
"""

from tableformat.backoff import Backoff
from tableformat.errors import PermanentError, TransientError


class WriteOutcome(Exception):
    """A write did not end in a plain success."""


class LostRace(WriteOutcome):
    """The condition of the write did not hold: somebody else changed the object first. Nothing was written."""


class NotApplied(WriteOutcome):
    """The server refused the write before looking at it (throttled, unreachable). It may be repeated."""


class OutcomeUnknown(WriteOutcome):
    """The write was sent and no usable answer came back. It may have been applied, or may still be."""


class CatalogUnavailableError(TransientError):
    """The server that holds the pointers does not answer."""


class CatalogAccessError(PermanentError):
    """The server that holds the pointers refuses us; the message says which permission is missing."""

    reason = "CatalogAccessDenied"


class CatalogDriverMissingError(PermanentError):
    """What speaks to the server that holds the pointers is not installed; the message names it."""


class DeletionPendingError(PermanentError):
    """The server keeps an object that was to be deleted until somebody else lets it go; the message says who."""


class CorruptCatalogEntryError(PermanentError):
    """An object that holds a pointer is not as we write it; the message names it. Nothing was overwritten."""


class UnreadableMetadataError(PermanentError):
    """A metadata file is there, but cannot be understood."""


def wait_or_give_up(backoff: Backoff, what: str, outcome: WriteOutcome) -> None:
    """For writes outside a table's commit: waits, or raises when there may be no further attempt."""
    if not backoff.wait():
        raise CatalogUnavailableError(
            f"could not {what} in {backoff.attempts} attempts: try again later ({outcome})"
        ) from outcome
