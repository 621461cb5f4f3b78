"""Why a commit did not happen, or may have."""

from collections.abc import Iterable
from typing import Final

from pyiceberg.exceptions import NoSuchTableError

from tableformat.errors import PermanentError, TransientError
from tableformat.properties import ENCRYPTION_KEY


class CommitConflict(TransientError):
    """The table changed in a way that the prepared files do not fit any more: plan anew. Nothing was committed."""

    def __init__(self, message: str, *, files: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.files = frozenset(files)
        """The paths of those that do not fit, replaced or new ones; without them, the rest may. None if none fits."""


class CommitOutcomeUnknown(TransientError):
    """The commit may have happened and could not be looked up: its files must stay. Run again with the same run id."""


class EncryptedTable(PermanentError):
    """A commit of ours would lose the keys that its files are encrypted with."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table} is encrypted (its property {ENCRYPTION_KEY}): a commit from here would lose its keys; "
            "nothing was changed. Maintain it with the engine that encrypts it"
        )


MAY_HAVE_LANDED: Final = (CommitOutcomeUnknown, NoSuchTableError)
"""Errors after which no file of a commit may be removed.

A client that repeats requests by itself tells only what became of the last one: the first may have landed before the
table was renamed, and its rows are in these files.
"""
