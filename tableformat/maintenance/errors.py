"""Why maintenance leaves a table alone, or did not finish."""

from collections.abc import Mapping

from tableformat.errors import PermanentError, TransientError
from tableformat.plurals import plural


class UnsupportedTable(PermanentError):
    """The table cannot be rewritten exactly, so it is not rewritten at all."""

    def __init__(self, table: str, why: str, remedy: str) -> None:
        super().__init__(f"table {table} is left alone: {why}. {remedy}")


class DeletionDisabled(PermanentError):
    """The table's `gc.enabled` is false: its files may belong to others as well."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table}: gc.enabled is false, so others may need its files; nothing was changed. Remove that "
            "property if the files belong to this table alone"
        )


class UnreadableSetting(PermanentError):
    """A property of the table says what may go, in words that nobody can read."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(
            f"the table's property {name} is {value[:100]!r}, which is no number; nothing goes by a guess. Correct or "
            "remove that property"
        )


class SharedLocation(PermanentError):
    """A folder of the table belongs to others as well, or to nobody in particular."""


class PathsNotComparable(PermanentError):
    """The table's metadata names files in another way than the storage does: what is needed cannot be told apart."""


class TooYoung(PermanentError):
    """An age guard that would take files which writers are still about to commit."""


class ListingIncomplete(TransientError):
    """The storage did not list a file that is certainly there."""


class UnreadableMetadata(PermanentError):
    """A file that says what the table consists of is missing or broken: what is reachable cannot be known."""


class TableChanged(TransientError):
    """The table changed while it was read, so that what was to be read is no longer part of it. Read it again."""


class ClockBehind(TransientError):
    """The clock is behind the table's last commit: no age can be computed from it."""


class DeletionIncomplete(TransientError):
    """Files that nothing needs are still there. What was deleted and what was not is known exactly."""

    def __init__(self, table: str, deleted: int, failed: Mapping[str, str]) -> None:
        location, reason = next(iter(failed.items()))
        super().__init__(
            f"table {table}: deleted {plural(deleted, 'file')} and failed to delete {len(failed):,}, such as "
            f"{location}: {reason}. Fix the cause and run again"
        )
        self.deleted = deleted
        self.failed = dict(failed)
