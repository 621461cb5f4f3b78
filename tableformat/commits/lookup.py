"""The look at a table before an attempt to commit, and after one."""

from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tableformat.backoff import READS, Backoff
from tableformat.commits.errors import CommitOutcomeUnknown


def load_as_it_is(
    catalog: Catalog, identifier: Identifier, failure: Exception | None, sleep: Callable[[float], None]
) -> Table:
    """The table as it is now. After the `failure` of an attempt, which may have landed, harder to put off."""
    backoff = Backoff(READS, sleep=sleep)
    while True:
        try:
            return catalog.load_table(identifier)
        except NoSuchTableError:
            raise
        except Exception as error:
            if failure is None:
                raise
            if not backoff.wait():
                raise outcome_unknown(identifier, failure, f"looking it up failed ({error})") from error


def outcome_unknown(identifier: Identifier, failure: Exception, then: str) -> CommitOutcomeUnknown:
    return CommitOutcomeUnknown(
        f"table {'.'.join(identifier)}: a commit's outcome is unknown ({failure}), and {then}. Run again with the same "
        "run id, where there is one; no file was removed."
    )
