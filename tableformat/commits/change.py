"""Commits that change a table's metadata and write no snapshot: refs set or removed, snapshots removed.

They are level-triggered: what is to be done is computed from the table as it is at each attempt, and nothing is left to
be done once it has been. So a lost race and an unknown outcome have one answer: load the table and look. A request
whose answer was lost may still arrive late; its requirements then decide, as they do for every other.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate, ValidatableTableRequirement
from pyiceberg.typedef import Identifier
from typing_extensions import override

from tableformat.backoff import Backoff, RetryPolicy, commit_policy
from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.commits.errors import MAY_HAVE_LANDED, CommitConflict, CommitOutcomeUnknown, EncryptedTable
from tableformat.commits.lookup import load_as_it_is, outcome_unknown
from tableformat.commits.written import WrittenFiles
from tableformat.errors import PermanentError
from tableformat.properties import is_encrypted

logger = logging.getLogger(__name__)

_RETRIES = 20


@dataclass(frozen=True)
class Change:
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]


class SnapshotsStillThere(ValidatableTableRequirement):
    """An expiry between load and swap may have taken snapshots that the change builds on, and their files with them."""

    type: Literal["tablewright-snapshots-still-there"] = "tablewright-snapshots-still-there"
    snapshots: frozenset[int]

    @override
    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own do
        there = {snapshot.snapshot_id for snapshot in base_metadata.snapshots} if base_metadata else set()
        if gone := self.snapshots - there:
            raise CommitFailedException(f"Requirement failed: snapshots {sorted(gone)} have expired")


def snapshots_still_there(table: Table, *snapshot_ids: int) -> tuple[TableRequirement, ...]:
    """As a requirement. A REST catalog understands Iceberg's own only, which has none for this."""
    if not snapshot_ids or isinstance(table.catalog, RestCatalog):
        return ()
    return (cast("TableRequirement", SnapshotsStillThere(snapshots=frozenset(snapshot_ids))),)


def commit_change(
    catalog: Catalog,
    identifier: Identifier,
    prepare: Callable[[Table], Change | None],
    *,
    sleep: Callable[[float], None] = time.sleep,
    written: WrittenFiles | None = None,
) -> Table:
    """Commit what `prepare` makes of the table, until it makes nothing of it any more; the table as it is then.

    `prepare` may raise what it likes: nothing was committed by that attempt. Raises `CommitConflict` after too many
    lost races, and `CommitOutcomeUnknown` if it cannot be said whether an attempt landed. `written` has the files that
    `prepare` wrote: those that the table does not refer to are removed, unless the outcome is unknown.
    """
    attempts = _Attempts(catalog, identifier, prepare, sleep)
    if written is None:
        return attempts.until_done()
    try:
        table = attempts.until_done()
    except MAY_HAVE_LANDED:
        raise
    except Exception as error:
        if attempts.unknown is not None:
            raise outcome_unknown(identifier, attempts.unknown, f"the next attempt failed ({error})") from error
        if attempts.table is not None:
            written.remove(attempts.table.io)
        raise
    if attempts.swapped and attempts.unknown is None:
        written.remove_unused(table.io)
    return table


class _Attempts:
    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        prepare: Callable[[Table], Change | None],
        sleep: Callable[[float], None],
    ) -> None:
        self.table: Table | None = None
        self.unknown: Exception | None = None
        self.swapped = False
        self._catalog = catalog
        self._identifier = identifier
        self._prepare = prepare
        self._sleep = sleep

    def until_done(self) -> Table:
        backoff: Backoff | None = None
        name = ".".join(self._identifier)
        while True:
            table = self._load(self.unknown)
            change = self._prepare(table)
            if change is None:
                return table
            backoff = backoff or Backoff(_policy(table), sleep=self._sleep)
            try:
                swap(table, change)
                self.swapped = True
                return table
            except (NoSuchTableError, PermanentError, ValueError, NotImplementedError):
                raise  # from before the swap: the table is gone, or the change was refused
            except CommitFailedException as lost:
                failure: Exception = lost
                logger.info("a commit lost its race: %s", lost, extra={"table": name})
            except Exception as error:
                failure = self.unknown = error
                logger.warning("a commit's outcome is unknown; looking it up: %s", error, extra={"table": name})
            if not backoff.wait():
                return self._last_look(failure, backoff.attempts)

    def _last_look(self, failure: Exception, attempts: int) -> Table:
        name = ".".join(self._identifier)
        if self.unknown is not None:
            raise CommitOutcomeUnknown(
                f"table {name}: {attempts} attempts to commit ended without a certain outcome ({self.unknown}), "
                "and the table does not show it yet. Run again; no file was removed."
            ) from failure
        table = self._load(failure)
        if self._prepare(table) is None:  # a client that repeats requests by itself may call a commit lost that landed
            return table
        raise CommitConflict(
            f"table {name}: lost {attempts} races against other writers; try again when it is quieter"
        ) from failure

    def _load(self, failure: Exception | None) -> Table:
        self.table = load_as_it_is(self._catalog, self._identifier, failure, self._sleep)
        return self.table


def swap(table: Table, change: Change) -> None:
    """One attempt, whose failure may be any error of the catalog's."""
    if is_encrypted(table.metadata.properties):
        raise EncryptedTable(".".join(table.name()))
    # PyIceberg writes metadata of version 3 only when told to in the same commit.
    first: tuple[TableUpdate, ...] = (WriteFormatV3Update(),) if table.metadata.format_version >= 3 else ()
    # With the catalog's own clean-up of old metadata files, which no public name offers.
    table._do_commit((*first, *change.updates), change.requirements)


def _policy(table: Table) -> RetryPolicy:
    policy = commit_policy(table.metadata.properties)
    if TableProperties.COMMIT_NUM_RETRIES in table.metadata.properties:
        return policy
    return replace(policy, retries=_RETRIES)
