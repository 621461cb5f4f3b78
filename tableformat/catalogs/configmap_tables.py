"""The tables of a ConfigMap catalog: one object each, and the renames that are under way between them.

Reading a table is one GET by its name, which is a digest (see `naming`); listing goes by labels. A rename touches two
objects and must survive a crash between any two of its steps, so both ends carry marks that name each other:

1. the new name is reserved, with a mark of where the table will come from;
2. the old object gets the mark of where it went: from here on the table has its new name and the old object is dead;
3. the new object takes the pointer over;
4. the old object is deleted, then the mark on the new one.

A mark counts only if the other end carries the same move's id. So whoever meets a half-done rename reads the same
truth from it, and the next write finishes or ignores it. A commit that slips in before step 2 makes step 2 start anew.
"""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.typedef import Identifier

from tableformat.backoff import SMALL_WRITES, Backoff
from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.configmap_records import Move, TableRecord, parse_table
from tableformat.catalogs.kube_store import ConfigMap, ConfigMapStore
from tableformat.catalogs.naming import KIND_TABLE, labels_of, object_name
from tableformat.catalogs.outcomes import (
    CorruptCatalogEntryError,
    DeletionPendingError,
    LostRace,
    NotApplied,
    WriteOutcome,
    wait_or_give_up,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Entry:
    """An object as the server has it, and what it says."""

    object: ConfigMap
    record: TableRecord


class TableObjects:
    def __init__(self, store: ConfigMapStore, catalog: str) -> None:
        self._store = store
        self._catalog = catalog

    # --- pointers

    def read(self, identifier: Identifier) -> Pointer | None:
        entry = self._find(identifier)
        return self._pointer(entry) if entry else None

    def create(self, identifier: Identifier, location: str, table_uuid: uuid.UUID) -> None:
        self._put(TableRecord(identifier, table_uuid, location))

    def swap(self, identifier: Identifier, expected: Pointer, location: str, table_uuid: uuid.UUID) -> None:
        entry = self._at_version(identifier, expected)
        record = entry.record.pointing_to(location, previous=expected.location, table_uuid=table_uuid)
        if not entry.record.reserved and self._forget_origin(entry):
            record = replace(record, moved_from=None)
        self._store.replace(entry.object, record.to_data())

    def delete(self, identifier: Identifier, expected: Pointer) -> None:
        entry = self._at_version(identifier, expected)
        if entry.record.moved_from is not None:
            # The old end of a rename must go first: with this end gone, its mark would no longer count.
            self._settle(identifier)
            raise LostRace(f"{expected.holder}: a rename had to be finished first")
        self._store.delete(entry.object)

    def list(self, namespace: Identifier) -> Iterator[tuple[Identifier, Pointer]]:
        for found in self._store.list(labels_of(self._catalog, KIND_TABLE, namespace)):
            try:
                record = parse_table(self._store.describe(found.name), found.data)
            except CorruptCatalogEntryError as error:
                logger.warning("entry is left out of the list: %s", error)
                continue
            if found.name != self._name(record.identifier):
                logger.warning(
                    "entry is left out of the list: %s is a copy of the entry of %s",
                    self._store.describe(found.name),
                    ".".join(record.identifier),
                )
            elif (pointer := self._pointer(_Entry(found, record))) is not None:
                yield record.identifier, pointer

    def occupied(self, namespace: Identifier) -> bool:
        """Whether there is any table's object, even one that cannot be read."""
        for found in self._store.list(labels_of(self._catalog, KIND_TABLE, namespace)):
            try:
                record = parse_table(self._store.describe(found.name), found.data)
            except CorruptCatalogEntryError:
                return True
            if self._pointer(_Entry(found, record)) is not None:
                return True
        return False

    # --- renames

    def rename(self, source: Identifier, target: Identifier) -> None:
        self._settle(source)
        entry = self._find(source)
        if entry is None or self._pointer(entry) is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(source)}")
        move, table_uuid = uuid.uuid4().hex, entry.record.table_uuid
        self._reserve(source, target, move)
        self._mark_moved(source, target, move, table_uuid)
        try:
            self._settle(target)
        except DeletionPendingError as pending:  # the table has its new name all the same
            logger.warning("the old object of a renamed table stays for now: %s", pending)
        self._take_back_if_target_was_taken(source, target, move, table_uuid)

    def _reserve(self, source: Identifier, target: Identifier, move: str) -> None:
        backoff = Backoff(SMALL_WRITES)
        while True:
            found = self._find(target)
            if found and found.record.reserved and found.record.moved_from == Move(source, move):
                return
            if found and self._pointer(found) is not None:
                raise TableAlreadyExistsError(f"Table {'.'.join(target)} already exists")
            origin = self._find(source)
            if origin is None:
                raise NoSuchTableError(f"Table does not exist: {'.'.join(source)}")
            try:
                self._put(TableRecord(target, origin.record.table_uuid, moved_from=Move(source, move)))
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"reserve the name {'.'.join(target)}", outcome)

    def _mark_moved(self, source: Identifier, target: Identifier, move: str, table_uuid: uuid.UUID) -> None:
        backoff = Backoff(SMALL_WRITES)
        while True:
            entry = self._find(source)
            if entry and entry.record.moved_to == Move(target, move):
                return
            if entry is None or self._pointer(entry) is None:
                if self._is_at(target, table_uuid):
                    return  # the mark was set though no answer said so, and somebody finished the rename
                self._release(target, move)
                raise NoSuchTableError(f"Table does not exist: {'.'.join(source)}")
            if entry.record.moved_from is not None:
                # Another rename brought the table here meanwhile. Its old end counts on the mark of this one, so it
                # must go before this end does, or the table would be there again under its first name.
                self._settle(source)
                continue
            try:
                self._store.replace(entry.object, replace(entry.record, moved_to=Move(target, move)).to_data())
                return
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"rename {'.'.join(source)} to {'.'.join(target)}", outcome)

    def _take_back_if_target_was_taken(
        self, source: Identifier, target: Identifier, move: str, table_uuid: uuid.UUID
    ) -> None:
        """Between reserving a name and moving to it, a creator that saw no move yet may have taken the name."""
        backoff = Backoff(SMALL_WRITES)
        while True:
            entry = self._find(source)
            if entry is None or self._pointer(entry) is None:
                return  # moved; at most the old object is still to be deleted, which the next write does
            if entry.record.moved_to == Move(target, move):
                try:
                    self._store.replace(entry.object, replace(entry.record, moved_to=None).to_data())
                except WriteOutcome as outcome:
                    wait_or_give_up(backoff, f"take back the rename of {'.'.join(source)}", outcome)
                    continue
            elif entry.record.table_uuid != table_uuid or self.read(target) is None:
                return  # moved, and the old name has another table by now, or the table went back to it
            # else a commit, to which the mark meant nothing, has taken it away
            raise TableAlreadyExistsError(f"Table {'.'.join(target)} already exists")

    def _is_at(self, identifier: Identifier, table_uuid: uuid.UUID) -> bool:
        pointer = self.read(identifier)
        return pointer is not None and pointer.table_uuid == table_uuid

    def _release(self, target: Identifier, move: str) -> None:
        """A reservation that stays behind is harmless, so one attempt is enough."""
        entry = self._find(target)
        if entry and entry.record.reserved and entry.record.moved_from and entry.record.moved_from.id == move:
            try:
                self._store.delete(entry.object)
            except WriteOutcome as outcome:
                logger.info("reservation stays behind: %s reason=%s", self._store.describe(entry.object.name), outcome)

    def _settle(self, identifier: Identifier) -> None:
        """Does what is left of a rename that leads to this name."""
        backoff = Backoff(SMALL_WRITES)
        while True:
            entry = self._find(identifier)
            if entry is None or entry.record.moved_from is None:
                return
            origin = self._origin(entry)
            try:
                if entry.record.reserved:
                    if origin is None:
                        return  # the rename did not happen
                    taken = replace(
                        entry.record,
                        table_uuid=origin.record.table_uuid,
                        location=origin.record.location,
                        previous_location=origin.record.previous_location,
                    )
                    self._store.replace(entry.object, taken.to_data())
                elif origin is not None:
                    self._store.delete(origin.object)
                else:
                    self._store.replace(entry.object, replace(entry.record, moved_from=None).to_data())
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"finish the rename to {'.'.join(identifier)}", outcome)

    def _forget_origin(self, entry: _Entry) -> bool:
        """Whether nothing of the rename is left at its old name, after an attempt to see to that."""
        origin = self._origin(entry)
        if origin is None:
            return True
        try:
            self._store.delete(origin.object)
        except (WriteOutcome, DeletionPendingError):
            return False  # the mark stays, and the next write tries again
        return True

    # --- objects

    def _pointer(self, entry: _Entry) -> Pointer | None:
        """Where the table of this name is; None if the object is only a trace of a rename."""
        record = entry.record
        if record.moved_to is not None and not record.reserved and self._arrived(record.moved_to):
            return None
        origin = self._origin(entry) if record.reserved else None
        if record.moved_to is not None or (record.reserved and origin is None):
            # The other end says nothing of the move. It was looked at later, when the move may have been finished.
            now = self._find(record.identifier)
            if now is None:
                return None
            if now.object.version != entry.object.version:
                return self._pointer(now)
            if record.reserved and origin is None:
                return None
        held = origin.record if origin else record
        return Pointer(
            location=held.location,
            version=entry.object.version,
            holder=self._store.describe(entry.object.name),
            table_uuid=held.table_uuid,
        )

    def _arrived(self, move: Move) -> bool:
        target = self._find(move.other)
        return bool(target and target.record.moved_from and target.record.moved_from.id == move.id)

    def _origin(self, entry: _Entry) -> _Entry | None:
        """The old end of the rename that leads here, if it is there and says so itself."""
        if entry.record.moved_from is None:
            return None
        origin = self._find(entry.record.moved_from.other)
        if origin and origin.record.moved_to and origin.record.moved_to.id == entry.record.moved_from.id:
            return origin
        return None

    def _put(self, record: TableRecord) -> None:
        """Creates the object; what a rename left behind under its name gives way."""
        found = self._find(record.identifier)
        if found is None:
            name, namespace = self._name(record.identifier), record.identifier[:-1]
            self._store.create(ConfigMap(name, record.to_data(), labels_of(self._catalog, KIND_TABLE, namespace)))
        elif self._pointer(found) is not None:
            raise LostRace(f"{self._store.describe(found.object.name)} exists")
        elif found.record.reserved:
            self._store.replace(found.object, record.to_data())
        else:
            # The old end of a rename. Its table must stand by itself before this object may say something else.
            if found.record.moved_to is not None:
                self._settle(found.record.moved_to.other)
            raise NotApplied(f"{self._store.describe(found.object.name)}: a rename had to be finished first")

    def _at_version(self, identifier: Identifier, expected: Pointer) -> _Entry:
        entry = self._find(identifier)
        if entry is None or entry.object.version != expected.version:
            raise LostRace(f"{expected.holder} has changed")
        return entry

    def _find(self, identifier: Identifier) -> _Entry | None:
        found = self._store.get(self._name(identifier))
        if found is None:
            return None
        return _Entry(found, parse_table(self._store.describe(found.name), found.data, identifier))

    def _name(self, identifier: Identifier) -> str:
        return object_name(self._catalog, KIND_TABLE, identifier)
