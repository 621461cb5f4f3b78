"""The commit of every catalog of ours: the one place where a pointer is swapped, and where it is decided what happened.

The order never changes: check the requirements on freshly loaded metadata, write the new metadata under a name that
nobody else will ever use, swap the pointer on a condition. A write whose outcome is unknown is looked up, history
included, before anything else happens. Repeating a swap is safe because it carries the same condition and the same
new location: whichever copy of the request arrives first wins, and the others fail. The metadata file that was
written is deleted only when it is certain that no pointer leads to it, now or later.
"""

import logging
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn, Protocol
from uuid import UUID

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSnapshotUpdate, AssertCreate, TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier

from tableformat.backoff import Backoff, commit_policy, status_check_policy
from tableformat.catalogs.locations import refuse_shared_location
from tableformat.catalogs.next_in_order import NextInOrder
from tableformat.catalogs.outcomes import (
    CatalogUnavailableError,
    LostRace,
    NotApplied,
    OutcomeUnknown,
    WriteOutcome,
)
from tableformat.errors import PermanentError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pointer:
    """What a catalog holds of a table: where its current metadata is, and the version that a swap is conditional on."""

    location: str
    version: str
    holder: str  # the object that holds it, as an error message names it
    table_uuid: UUID | None = None  # where the catalog keeps the table's identity beside the pointer
    previous: str | None = None  # what it led to before, by which another table is noticed where no identity is kept


@dataclass(frozen=True)
class Current:
    table: Table
    pointer: Pointer


class PointerStore(Protocol):
    """What a catalog brings to the commit.

    Writes end in success or in a `WriteOutcome`. A `CatalogUnavailableError` out of a write comes from what had to be
    read first: the write itself was not sent.
    """

    def read_pointer(self, identifier: Identifier) -> Pointer | None: ...

    def create_pointer(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None: ...

    def swap_pointer(
        self, identifier: Identifier, expected: Pointer, location: str, metadata: TableMetadata
    ) -> None: ...

    def load_current(self, identifier: Identifier) -> Current | None: ...

    def read_metadata(self, location: str) -> TableMetadata: ...

    def stage(
        self,
        current: Table | None,
        identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable: ...


def commit(
    store: PointerStore,
    identifier: Identifier,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    *,
    in_chosen_folder: bool = False,
) -> CommitTableResponse:
    """Applies the updates, or raises. `in_chosen_folder` is said of a new table whose folder the catalog chose.

    `CommitFailedException` promises that nothing was and nothing will be applied; `CommitStateUnknownException` that
    nobody can tell. A lost race is retried only while the requirements hold on what the winner left.
    """
    backoff: Backoff | None = None
    creates = any(isinstance(requirement, AssertCreate) for requirement in requirements)
    while True:
        base = store.load_current(identifier)
        if base is None and not creates:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(identifier)}")
        _check(requirements, updates, base)
        staged = store.stage(base.table if base else None, identifier, requirements, updates)
        if base is not None and staged.metadata == base.table.metadata:
            return CommitTableResponse(metadata=base.table.metadata, metadata_location=base.table.metadata_location)
        backoff = backoff or Backoff(commit_policy((base.table if base else staged).metadata.properties))
        write_metadata(staged, in_chosen_folder=in_chosen_folder and base is None)
        try:
            publish(store, identifier, base, staged, updates=updates, backoff=backoff)
        except LostRace as lost:
            _check(
                requirements, updates, store.load_current(identifier)
            )  # before the wait: there may be nothing to wait for
            if not backoff.wait():
                raise CommitFailedException(
                    f"Table {'.'.join(identifier)}: lost the race to other writers {backoff.attempts} times, the limit "
                    "of its commit.retry properties: commit again, or raise them"
                ) from lost
            logger.info(
                "commit lost a race and is retried: table=%s attempt=%s", ".".join(identifier), backoff.attempts
            )
            continue
        if base is not None:
            _remove_old_metadata(base, staged)
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)


def write_metadata(staged: StagedTable, *, in_chosen_folder: bool = False) -> None:
    try:
        MetastoreCatalog._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        if in_chosen_folder:
            refuse_shared_location(staged)
    except FileExistsError:
        raise  # somebody else's file, under a name that was meant to be ours alone
    except BaseException:
        discard_metadata(staged)  # no pointer can lead to it yet
        raise


def discard_metadata(staged: StagedTable) -> None:
    """Deletes a metadata file that certainly no pointer leads to; what cannot be deleted is left to orphan removal."""
    try:
        staged.io.delete(staged.metadata_location)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("unused metadata file stays behind: location=%s reason=%s", staged.metadata_location, error)


def _remove_old_metadata(base: Current, staged: StagedTable) -> None:
    """Never an error: the commit is done, and whoever is told otherwise would make it again."""
    try:
        MetastoreCatalog._delete_old_metadata(staged.io, base.table.metadata, staged.metadata)
    except Exception as error:  # a property that is no truth value, a file of the log in a storage that is not known
        logger.warning("old metadata files stay behind: table=%s reason=%s", ".".join(staged.name()), error)


def publish(
    store: PointerStore,
    identifier: Identifier,
    base: Current | None,
    staged: StagedTable,
    *,
    updates: tuple[TableUpdate, ...] = (),
    backoff: Backoff,
) -> None:
    """Makes written metadata the table's current one; without a base, only if there is no such table yet.

    `LostRace` says that somebody else was first.
    """
    publication = _Publication(store, identifier, base, staged, updates)
    while True:
        outcome = publication.attempt()
        if outcome is None or publication.landed_all_the_same(outcome):
            return
        if not backoff.wait():
            raise publication.given_up(outcome, backoff.attempts) from outcome


class _Publication:
    """One metadata file on its way to becoming current, and what is known about the requests sent for it."""

    def __init__(
        self,
        store: PointerStore,
        identifier: Identifier,
        base: Current | None,
        staged: StagedTable,
        updates: tuple[TableUpdate, ...],
    ) -> None:
        self._store = store
        self._identifier = identifier
        self._base = base
        self._staged = staged
        self._updates = updates
        self._expected = base.pointer if base else None
        self._doubt: OutcomeUnknown | None = None  # of any request so far: one answer lost is one too many

    def attempt(self) -> WriteOutcome | None:
        location, metadata = self._staged.metadata_location, self._staged.metadata
        try:
            if self._expected is None:
                self._store.create_pointer(self._identifier, location, metadata)
            else:
                self._store.swap_pointer(self._identifier, self._expected, location, metadata)
        except CatalogUnavailableError as error:
            return NotApplied(str(error))
        except WriteOutcome as outcome:
            return outcome
        except Exception as error:
            self._end_with(error)
        return None

    def landed_all_the_same(self, outcome: WriteOutcome) -> bool:
        """Looks the commit up. False: the same request may be sent again. Raises when it can no longer succeed."""
        if isinstance(outcome, NotApplied):
            return False
        if isinstance(outcome, OutcomeUnknown):
            self._doubt = outcome
            logger.warning("commit's outcome is looked up: table=%s reason=%s", ".".join(self._identifier), outcome)
        try:
            finding, pointer = _look_up(self._store, self._identifier, self._base, self._staged, self._updates)
        except Exception as error:
            self._end_with(error)
        if finding is _Finding.LANDED:
            return True
        if finding is _Finding.UNCHANGED:
            self._expected = pointer
            return False
        if finding is _Finding.IN_DOUBT and self._doubt is not None:
            raise self._state_unknown() from self._doubt
        if self._doubt is None or self._base is not None:
            # A creation in doubt may have landed and been renamed away before somebody took the name: its file stays.
            discard_metadata(self._staged)
        raise LostRace(str(outcome)) from outcome

    def given_up(self, outcome: WriteOutcome, attempts: int) -> Exception:
        if self._doubt is not None:
            return self._state_unknown()
        discard_metadata(self._staged)
        return CommitFailedException(
            f"Table {'.'.join(self._identifier)}: the catalog refused the commit {attempts} times, the limit of the "
            f"table's commit.retry properties; nothing was applied: commit again later ({outcome})"
        )

    def _end_with(self, error: Exception) -> NoReturn:
        """No request can follow one that ended so. It says nothing of those before it, which may have been applied."""
        if self._doubt is not None:
            raise self._state_unknown() from error
        if isinstance(error, PermanentError):  # the catalog refused, so it took no effect
            discard_metadata(self._staged)
        raise error

    def _state_unknown(self) -> CommitStateUnknownException:
        return CommitStateUnknownException(
            f"Table {'.'.join(self._identifier)}: whether the commit was applied is unknown. Its files stay. Look "
            f"whether {self._staged.metadata_location} is the table's current metadata or in its log before "
            "committing again"
        )


class _Finding(Enum):
    LANDED = "the new metadata is, or was, the table's current one"
    UNCHANGED = "the pointer is where it was: the same swap may be repeated"
    LOST = "the pointer moved on without the new metadata, so the swap can no longer succeed"
    IN_DOUBT = "the history that would tell is gone or out of reach"


def _look_up(
    store: PointerStore,
    identifier: Identifier,
    base: Current | None,
    staged: StagedTable,
    updates: tuple[TableUpdate, ...],
) -> tuple[_Finding, Pointer | None]:
    checks = Backoff(status_check_policy(staged.metadata.properties))
    while True:
        try:
            pointer = store.read_pointer(identifier)
            return _finding(store, pointer, base, staged, updates), pointer
        except (CatalogUnavailableError, OSError) as error:
            if not checks.wait():
                logger.warning("commit's outcome stays in doubt: table=%s reason=%s", ".".join(identifier), error)
                return _Finding.IN_DOUBT, None


def _finding(
    store: PointerStore,
    pointer: Pointer | None,
    base: Current | None,
    staged: StagedTable,
    updates: tuple[TableUpdate, ...],
) -> _Finding:
    if pointer is None:
        # A table that vanished may have been renamed after the swap, or dropped before it.
        return _Finding.UNCHANGED if base is None else _Finding.IN_DOUBT
    if pointer.location == staged.metadata_location:
        return _Finding.LANDED
    if base is not None and pointer.location == base.pointer.location:
        return _Finding.UNCHANGED
    current = store.read_metadata(pointer.location)
    history = {entry.metadata_file for entry in current.metadata_log}
    if staged.metadata_location in history or _has_our_snapshots(current, updates):
        return _Finding.LANDED
    if base is None:
        return _Finding.LANDED if current.table_uuid == staged.metadata.table_uuid else _Finding.LOST
    # The log is cut at write.metadata.previous-versions-max: it proves an absence only as far as it reaches back.
    return _Finding.LOST if base.pointer.location in history else _Finding.IN_DOUBT


def _has_our_snapshots(current: TableMetadata, updates: tuple[TableUpdate, ...]) -> bool:
    """The snapshots were not in the base, or staging had failed; so if they are there now, our commit brought them."""
    ours = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    return bool(ours) and ours <= {snapshot.snapshot_id for snapshot in current.snapshots}


def _check(
    requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...], current: Current | None
) -> None:
    metadata = current.table.metadata if current else None
    for requirement in requirements:
        requirement.validate(metadata)
    for update in updates:
        if isinstance(update, AddSnapshotUpdate) and metadata is not None:
            NextInOrder.of(update.snapshot).validate(metadata)
