"""The replace commit: old files out, new files with the same rows in, by one swap of the table's pointer.

Each attempt starts from the table as it is then, validates anew (see `validation`), writes what earlier attempts have
not written yet (see `memory`), and swaps. A lost race is tried again, soon and often: maintenance has time, and writers
are many. A failed check is a `CommitConflict`, and the caller plans again. After an attempt whose outcome is unknown,
the table is looked up before anything else happens, and no file of the commit is removed any more: the catalog's
compare-and-swap makes a second attempt harmless, not the hope that the first one failed.
"""

import logging
import random
import time
from collections.abc import Callable
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

from tableformat.commits.change import swap
from tableformat.commits.errors import CommitConflict, CommitOutcomeUnknown
from tableformat.commits.head import on_main
from tableformat.commits.lookup import load_as_it_is, outcome_unknown
from tableformat.commits.memory import CommitMemory
from tableformat.commits.replacement import Replacement
from tableformat.commits.runs import summary_of_run
from tableformat.commits.snapshot import prepare_snapshot
from tableformat.commits.validation import validate_replacement
from tableformat.errors import PermanentError

logger = logging.getLogger(__name__)

# A table's commit.retry properties are for its writers, who have to give up some time; these are maintenance's own.
_RETRIES = 300
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 1.0


def commit_replacement(
    catalog: Catalog,
    identifier: Identifier,
    replacement: Replacement,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """Commit the replacement to the main branch and return its snapshot.

    Raises `CommitConflict` if the table no longer has what is replaced (nothing was committed), and
    `CommitOutcomeUnknown` if it cannot be said whether the commit happened.
    """
    attempts: _Attempts | None = None
    while True:
        # Not even a lost race is believed unseen: a client that repeats requests by itself, as PyIceberg's of Glue
        # does, takes the refusal of the repetition for the answer, although the first copy was applied.
        table = load_as_it_is(catalog, identifier, attempts.last_failure if attempts else None, sleep)
        attempts = attempts or _Attempts(CommitMemory(table.metadata.new_snapshot_id()))
        if landed := attempts.landed(table):
            return landed
        try:
            base = validate_replacement(table, replacement, attempts.memory)
            of_run = summary_of_run(replacement.run_id, replacement.run_name)
            snapshot = prepare_snapshot(table, base, replacement, attempts.memory, summary=of_run)
        except CommitConflict as conflict:
            attempts.give_up(table)
            if attempts.unknown is not None and attempts.may_still_land(table):
                raise outcome_unknown(
                    identifier, attempts.unknown, f"the table does not fit any more ({conflict})"
                ) from conflict
            raise
        except BaseException as error:
            attempts.give_up(table)
            if attempts.unknown is not None and isinstance(error, Exception):
                raise outcome_unknown(identifier, attempts.unknown, f"the next attempt failed ({error})") from error
            raise
        if attempts.swap(table, snapshot):
            return snapshot
        if attempts.count > _RETRIES:
            return _last_look(catalog, identifier, attempts, sleep)
        sleep(_wait(attempts.count))


class _Attempts:
    """What was offered to the catalog, always under the same snapshot id, and what is known of its fate."""

    def __init__(self, memory: CommitMemory) -> None:
        self.memory = memory
        self.unknown: Exception | None = None
        self.last_failure: Exception | None = None
        self.count = 0
        self._unknown_on: set[tuple[UUID, int | None]] = set()

    def swap(self, table: Table, snapshot: Snapshot) -> bool:
        self.count += 1
        try:
            swap(table, on_main(table, snapshot))
        except CommitFailedException as error:
            self.last_failure = error
            return False
        except NoSuchTableError:
            raise  # one of `MAY_HAVE_LANDED`
        except PermanentError as error:  # refused, and so certainly not applied
            self.give_up(table)
            if self.unknown is not None:
                raise outcome_unknown(table.name(), self.unknown, f"the next attempt was refused ({error})") from error
            raise
        except Exception as error:
            name = ".".join(table.name())
            logger.warning("a commit's outcome is unknown; looking it up: %s", error, extra={"table": name})
            self.last_failure = self.unknown = error
            self._unknown_on.add((table.metadata.table_uuid, table.metadata.current_snapshot_id))
            return False
        if self.unknown is None:
            self.memory.written.remove_unused(table.io)
        return True

    def landed(self, table: Table) -> Snapshot | None:
        return table.metadata.snapshot_by_id(self.memory.snapshot_id)

    def may_still_land(self, table: Table) -> bool:
        """Whether main is where an attempt of unknown outcome wants it to be: its request may still be on its way.

        Once main has moved on, such a request is refused, however late it arrives. Another table of the same name says
        nothing: the one that was meant may have been renamed, with the commit in it.
        """
        metadata = table.metadata
        is_the_one = any(metadata.table_uuid == table_uuid for table_uuid, _ in self._unknown_on)
        return not is_the_one or (metadata.table_uuid, metadata.current_snapshot_id) in self._unknown_on

    def give_up(self, table: Table) -> None:
        """Removes what was written, unless an attempt may still land."""
        if self.unknown is None:
            self.memory.written.remove(table.io)


def _wait(attempt: int) -> float:
    """Short, growing slowly, and never the same for two that race each other."""
    return min(_FIRST_WAIT * 1.2**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1)  # noqa: S311 - no secret


def _last_look(
    catalog: Catalog, identifier: Identifier, attempts: _Attempts, sleep: Callable[[float], None]
) -> Snapshot:
    table = load_as_it_is(catalog, identifier, attempts.last_failure, sleep)
    if landed := attempts.landed(table):
        return landed
    name = ".".join(identifier)
    if attempts.unknown is not None:
        raise CommitOutcomeUnknown(
            f"table {name}: {attempts.count} attempts to commit ended without a certain outcome ({attempts.unknown}), "
            "and none is in the table yet. Run again with the same run id; no file was removed."
        ) from attempts.last_failure
    attempts.give_up(table)
    raise CommitConflict(
        f"table {name}: lost {attempts.count} races against other writers; try again when it is quieter"
    ) from attempts.last_failure
