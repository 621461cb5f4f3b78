"""The part of a PyIceberg catalog that does not depend on where the pointer lives.

A catalog of ours derives from this and brings four operations on pointers (read, create, swap, delete), its
namespaces and its rename. Everything that touches metadata files is here, so that every catalog treats them alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from uuid import UUID

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.view import View
from typing_extensions import override

from tableformat.backoff import SMALL_WRITES, Backoff, commit_policy
from tableformat.catalogs import purge
from tableformat.catalogs.commit import Current, Pointer, commit, publish, write_metadata
from tableformat.catalogs.locations import (
    InChosenFolder,
    SharedLocationError,
    folder_name,
    free_location,
    places_of,
    refuse_cut_locations,
    unique_location,
)
from tableformat.catalogs.outcomes import (
    CorruptCatalogEntryError,
    LostRace,
    OutcomeUnknown,
    UnreadableMetadataError,
    WriteOutcome,
    wait_or_give_up,
)


class PointerCatalog(MetastoreCatalog, ABC):
    # --- what a catalog brings

    @abstractmethod
    def read_pointer(self, identifier: Identifier) -> Pointer | None:
        """The table's pointer as it is now, never from a cache; None if there is no such table."""

    def listed_pointers(self, namespace: Identifier) -> Mapping[Identifier, Pointer | None]:
        """Its tables, each with its pointer where the listing tells of that too: to read pointers is a request each."""
        return dict.fromkeys(self.list_tables(namespace))

    @abstractmethod
    def create_pointer(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Raises a `WriteOutcome`; `LostRace` if there is such a table."""

    @abstractmethod
    def swap_pointer(self, identifier: Identifier, expected: Pointer, location: str, metadata: TableMetadata) -> None:
        """Raises a `WriteOutcome`; `LostRace` if the pointer's version is not the expected one."""

    @abstractmethod
    def delete_pointer(self, identifier: Identifier, expected: Pointer) -> None:
        """Raises a `WriteOutcome`; `LostRace` if the pointer's version is not the expected one."""

    @abstractmethod
    def has_namespace(self, name: Identifier) -> bool:
        """Whether the namespace exists; the name is one that this catalog can hold."""

    def table_identifier(self, identifier: str | Identifier, error: type[Exception] | None = None) -> Identifier:
        """The identifier as this catalog can hold it: a namespace and a name at least, and no empty part.

        Any other raises `error`. Without one, it raises as PyIceberg's catalogs do: `NoSuchNamespaceError` where the
        namespace is missing or empty, `ValueError` where a name is impossible in this catalog.
        """
        parts = self.identifier_to_tuple(identifier)
        if len(parts) < 2:
            raise (error or NoSuchNamespaceError)(
                f"Not a table's identifier: {identifier!r}. Give a namespace and a name"
            )
        self.namespace_identifier(parts[:-1], error)
        if not _is_name(parts[-1]):
            raise (error or ValueError)(f"Not a table's identifier: {identifier!r}. The table's name is empty")
        return parts

    def namespace_identifier(self, namespace: str | Identifier, error: type[Exception] | None = None) -> Identifier:
        """The namespace as this catalog can hold it; errors as of `table_identifier`."""
        parts = self.identifier_to_tuple(namespace)
        if not parts or not all(map(_is_name, parts)):
            raise (error or NoSuchNamespaceError)(
                f"Not a namespace: {namespace!r}. Give one name at least, none of them empty"
            )
        return parts

    # --- tables

    @override
    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        name = self.table_identifier(identifier)
        self._require_namespace(name[:-1])
        if self.read_pointer(name) is not None:
            raise TableAlreadyExistsError(f"Table {'.'.join(name)} already exists")
        return self.create_staged(
            name,
            location,
            properties,
            lambda at: self._staged(name, schema, at, partition_spec, sort_order, properties),
        )

    def create_staged(
        self, name: Identifier, location: str | None, properties: Properties, stage: Callable[[str], StagedTable]
    ) -> Table:
        """Makes a table of what is staged for it, in a namespace that is there; or `TableAlreadyExistsError`.

        Without a location, in a folder that has no other table's files.
        """
        if location is not None:
            return self._publish_new(stage(location), in_chosen_folder=False)
        try:
            return self._publish_new(stage(self.new_location(name, properties)), in_chosen_folder=True)
        except SharedLocationError:  # another creator has taken it; a unique one cannot be taken
            return self._publish_new(stage(unique_location(self.default_location(name))), in_chosen_folder=False)

    def _publish_new(self, staged: StagedTable, *, in_chosen_folder: bool) -> Table:
        name = staged.name()
        refuse_cut_locations(_places(staged.metadata))
        write_metadata(staged, in_chosen_folder=in_chosen_folder)
        try:
            publish(self, name, None, staged, backoff=Backoff(commit_policy(staged.metadata.properties)))
        except LostRace as lost:
            raise TableAlreadyExistsError(f"Table {'.'.join(name)} already exists") from lost
        return Table(  # as it was published: nothing that the server could tell is not known
            identifier=name,
            metadata=staged.metadata,
            metadata_location=staged.metadata_location,
            io=self._load_file_io(staged.metadata.properties, staged.metadata_location),
            catalog=self,
        )

    @override
    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        name = self.table_identifier(identifier)
        self._require_namespace(name[:-1])
        metadata = self.read_metadata(metadata_location)
        backoff, sent, in_doubt = Backoff(SMALL_WRITES), None, False
        while True:
            pointer = self.read_pointer(name)
            if in_doubt and (pointer and pointer.location) != (sent and sent.location):
                self._require_registered(name, metadata_location, sent, pointer)
                return self.load_table(name)
            if pointer is not None and pointer.location == metadata_location and overwrite:
                return self.load_table(name)  # nothing to do
            if pointer is not None and not overwrite:
                raise TableAlreadyExistsError(f"Table {'.'.join(name)} already exists")
            sent = pointer
            try:
                if pointer is None:
                    self.create_pointer(name, metadata_location, metadata)
                else:
                    self.swap_pointer(name, pointer, metadata_location, metadata)
                return self.load_table(name)
            except WriteOutcome as outcome:
                in_doubt = in_doubt or isinstance(outcome, OutcomeUnknown)
                wait_or_give_up(backoff, f"register table {'.'.join(name)}", outcome)

    def _require_registered(self, name: Identifier, location: str, before: Pointer | None, now: Pointer | None) -> None:
        """After a lost answer, when the pointer has moved: by us, if the history since leads over what we registered.

        To send the registration again would undo the commits that others have made on top of it.
        """
        if now is not None and now.location == location:
            return
        history = [entry.metadata_file for entry in self.read_metadata(now.location).metadata_log] if now else []
        since = history[history.index(before.location) + 1 :] if before and before.location in history else history
        if location not in since:
            raise CommitStateUnknownException(
                f"Table {'.'.join(name)}: whether {location} was registered is unknown, and the table has changed "
                "since. Look at the table before registering again"
            )

    @override
    def load_table(self, identifier: str | Identifier) -> Table:
        name = self.table_identifier(identifier, NoSuchTableError)
        current = self.load_current(name)
        if current is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        return current.table

    @override
    def table_exists(self, identifier: str | Identifier) -> bool:
        try:
            return self.read_pointer(self.table_identifier(identifier, NoSuchTableError)) is not None
        except NoSuchTableError:  # malformed, or an entry that is no Iceberg table
            return False

    @override
    def namespace_exists(self, namespace: str | Identifier) -> bool:
        try:
            name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        except NoSuchNamespaceError:
            return False
        return self.has_namespace(name)

    @override
    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        chosen = isinstance(table, InChosenFolder)
        return commit(self, self.table_identifier(table.name()), requirements, updates, in_chosen_folder=chosen)

    @override
    def drop_table(self, identifier: str | Identifier) -> None:
        name = self.table_identifier(identifier, NoSuchTableError)
        self._drop(name, self.read_pointer(name))

    @override
    def purge_table(self, identifier: str | Identifier) -> None:
        """Drops the table, then deletes its files; of a table whose `gc.enabled` is false, only the metadata."""
        name = self.table_identifier(identifier, NoSuchTableError)
        current = self.load_current(name)
        if current is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        self._drop(name, current.pointer, only_this_version=True)
        purge.delete_files_of(current.table)

    def drop_version(self, table: Table) -> None:
        """Drops the table as it was loaded: what was committed since then is not lost, and the drop is refused."""
        name = self.table_identifier(table.name(), NoSuchTableError)
        pointer = self.read_pointer(name)
        _refuse_unless_still_there(name, table.metadata_location, pointer, in_doubt=False)
        self._drop(name, pointer, only_this_version=True)

    def rename_identifiers(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> tuple[Identifier, Identifier]:
        """Both names, checked as far as one look can tell: the source exists, and so does the target's namespace."""
        source = self.table_identifier(from_identifier, NoSuchTableError)
        target = self.table_identifier(to_identifier)
        if self.read_pointer(source) is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(source)}")
        self._require_namespace(target[:-1])
        if self.read_pointer(target) is not None:
            raise TableAlreadyExistsError(f"Table {'.'.join(target)} already exists")
        return source, target

    def _drop(self, name: Identifier, pointer: Pointer | None, *, only_this_version: bool = False) -> None:
        backoff, in_doubt = Backoff(SMALL_WRITES), False
        while pointer is not None:
            try:
                self.delete_pointer(name, pointer)
                return
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"drop table {'.'.join(name)}", outcome)
                in_doubt = in_doubt or isinstance(outcome, OutcomeUnknown)
                sent, pointer = pointer, self.read_pointer(name)
                if only_this_version:
                    _refuse_unless_still_there(name, sent.location, pointer, in_doubt=in_doubt)
                elif in_doubt and (pointer is None or _is_another_table(name, sent, pointer)):
                    return  # the answer was lost, the deletion was not
        raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")

    # --- views: none of our catalogs holds any

    @override
    def view_exists(self, identifier: str | Identifier) -> bool:
        return False

    @override
    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        return []

    @override
    def load_view(self, identifier: str | Identifier) -> View:
        raise NoSuchViewError(f"View does not exist: {identifier}")

    @override
    def drop_view(self, identifier: str | Identifier) -> None:
        raise NoSuchViewError(f"View does not exist: {identifier}")

    @override
    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        raise NotImplementedError("this catalog holds tables only")

    # --- metadata

    def load_current(self, identifier: Identifier, pointer: Pointer | None = None) -> Current | None:
        """The table with the pointer that it was loaded through; one that was just read need not be read again."""
        pointer = pointer or self.read_pointer(identifier)
        while pointer is not None:
            try:
                metadata = self.read_metadata(pointer.location)
            except FileNotFoundError as gone:
                # Commits made meanwhile may have removed it as an old version: then the pointer has moved.
                again = self.read_pointer(identifier)
                if again is not None and again.location == pointer.location:
                    raise CorruptCatalogEntryError(
                        f"{pointer.holder} of table {'.'.join(identifier)} points to {pointer.location}, which does "
                        "not exist: restore that file, or register an existing metadata file of the table"
                    ) from gone
                pointer = again
                continue
            self._check_identity(identifier, pointer, metadata)
            table = Table(
                identifier=identifier,
                metadata=metadata,
                metadata_location=pointer.location,
                io=self._load_file_io(metadata.properties, pointer.location),
                catalog=self,
            )
            return Current(table, pointer)
        return None

    def _check_identity(self, identifier: Identifier, pointer: Pointer, metadata: TableMetadata) -> None:
        known = pointer.table_uuid or self._identity_before(pointer, metadata)
        if known is not None and known != metadata.table_uuid:
            by = f"says that the table's uuid is {known}" if pointer.table_uuid else f"led to {pointer.previous} before"
            raise CorruptCatalogEntryError(
                f"{pointer.holder} of table {'.'.join(identifier)} {by}, but {pointer.location} is metadata of the "
                f"table {metadata.table_uuid}, not {known}: correct the pointer; nothing was changed"
            )

    def _identity_before(self, pointer: Pointer, metadata: TableMetadata) -> UUID | None:
        """Whose table the pointer led to before; None where that is plain from the history, or nobody can tell."""
        if pointer.previous is None or any(entry.metadata_file == pointer.previous for entry in metadata.metadata_log):
            return None
        try:
            return self.read_metadata(pointer.previous).table_uuid
        except (OSError, ValueError, UnreadableMetadataError):
            return None

    def read_metadata(self, location: str) -> TableMetadata:
        io = load_file_io(self.properties, location)
        try:
            return FromInputFile.table_metadata(io.new_input(location))
        except (ValidationError, UnicodeDecodeError) as error:
            raise UnreadableMetadataError(
                f"{location} cannot be read as the metadata of an Iceberg table: it is damaged, or it uses "
                f"what PyIceberg does not know. Nothing was changed ({error})"
            ) from error

    def stage(
        self,
        current: Table | None,
        identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current is None:
            self._require_namespace(identifier[:-1])
        staged = self._update_and_stage_table(current, identifier, requirements, updates)
        refuse_cut_locations(_places(staged.metadata) - (_places(current.metadata) if current else set()))
        if current is not None:
            staged.metadata = _not_dated_back(staged.metadata, current.metadata)
        return staged

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """PyIceberg's tables ask for this after a commit; ours has done it by then, against its true base."""

    @override
    def _create_staged_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> StagedTable:
        """PyIceberg's knows one level of namespaces only; the location is all that it takes from the identifier."""
        name = self.table_identifier(identifier)
        self._require_namespace(name[:-1])
        at = location or self.new_location(name, properties)
        staged = self._staged(name, schema, at, partition_spec, sort_order, properties)
        refuse_cut_locations(_places(staged.metadata))
        if location:
            return staged
        return InChosenFolder(name, staged.metadata, staged.metadata_location, staged.io, self)

    def _staged(
        self,
        name: Identifier,
        schema: Schema | pa.Schema,
        location: str,
        partition_spec: PartitionSpec,
        sort_order: SortOrder,
        properties: Properties,
    ) -> StagedTable:
        staged = super()._create_staged_table(name[-2:], schema, location, partition_spec, sort_order, properties)
        return StagedTable(
            identifier=name,
            metadata=staged.metadata,
            metadata_location=staged.metadata_location,
            io=staged.io,
            catalog=self,
        )

    def new_location(self, identifier: Identifier, properties: Properties = EMPTY_DICT) -> str:
        """Where a table of this name would be created; raises `NoSuchNamespaceError`."""
        preferred = self.default_location(identifier)
        return free_location(self._load_file_io(properties, preferred), preferred, properties)

    def default_location(self, identifier: Identifier) -> str:
        """Below the namespace's own location if it has one, otherwise below the warehouse."""
        *namespace, name = map(folder_name, identifier)
        own = self.load_namespace_properties(identifier[:-1]).get("location")
        if own:
            return f"{own.rstrip('/')}/{name}"
        return f"{self.properties['warehouse'].rstrip('/')}/{'.'.join(namespace)}.db/{name}"

    def _require_namespace(self, namespace: Identifier) -> None:
        if not self.has_namespace(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(namespace)}")


def _is_name(part: object) -> bool:
    return isinstance(part, str) and bool(part.strip())


def _places(metadata: TableMetadata) -> set[str]:
    return set(places_of(metadata.location, metadata.properties))


def _not_dated_back(metadata: TableMetadata, base: TableMetadata) -> TableMetadata:
    """The metadata, no older than what it is based on, whose writer's clock may be ahead of ours.

    Java refuses to load a table whose history goes back in time by more than a minute.
    """
    least = base.last_updated_ms
    if metadata.last_updated_ms >= least:
        return metadata
    known = {(entry.snapshot_id, entry.timestamp_ms) for entry in base.snapshot_log}
    log = [
        entry
        if (entry.snapshot_id, entry.timestamp_ms) in known
        else entry.model_copy(update={"timestamp_ms": max(entry.timestamp_ms, least)})
        for entry in metadata.snapshot_log
    ]
    return metadata.model_copy(update={"last_updated_ms": least, "snapshot_log": log})


def _refuse_unless_still_there(name: Identifier, location: str, pointer: Pointer | None, *, in_doubt: bool) -> None:
    """Before a purge goes on: only a table that is certainly dropped, by us, may lose its files."""
    is_same = pointer is not None and pointer.location == location
    if in_doubt and not is_same:
        raise CommitStateUnknownException(
            f"Table {'.'.join(name)} is not as it was, but whether this purge dropped it, or others renamed it or "
            "committed to it, is unknown; its files stay. Remove them by hand if no other table has them"
        )
    if pointer is not None and not is_same:
        raise CommitFailedException(
            f"Table {'.'.join(name)} was committed to while it was being purged; nothing was deleted: purge it again"
        )


def _is_another_table(name: Identifier, dropped: Pointer, now: Pointer) -> bool:
    """After a drop whose answer was lost: whether somebody has created a table of that name since, which must stay."""
    if now.location == dropped.location:
        return False
    if dropped.table_uuid is None or now.table_uuid is None:
        raise CommitStateUnknownException(
            f"Table {'.'.join(name)}: whether it was dropped is unknown, and what has its name now is not as it was. "
            "Look at that before dropping it"
        )
    return now.table_uuid != dropped.table_uuid
