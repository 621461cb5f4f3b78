"""Looks at one table: the pointer, the metadata behind it, and the figures of its files.

Metadata files never change, so metadata and figures are remembered by the metadata's location: where we can read the
pointer by itself, a table that nobody wrote to costs one look at it.
"""

import threading
from collections import OrderedDict

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.locations import places_of
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.errors import PermanentError, TablewrightError, TransientError
from tableformat.inspection import (
    TableHealth,
    estimated_health,
    has_more_files_than,
    own_target_bytes,
    small_below,
    table_health,
)
from tablewright.api.quantities import readable_size
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.state import CatalogUnusable, TableAbsent, TableObservation, TablePresent, TableUnreadable

MOST_FILES = 100_000  # some 100 MB while they are looked at, for each worker


class CatalogFailedError(TransientError):
    """A catalog answered with an error of its own client's; it may be another one the next time."""


class HealthMemory:
    """Metadata and figures by metadata location, the most recently used ones; metadata within a number of snapshots."""

    def __init__(self, capacity: int = 10_000, snapshots: int = 20_000, *, most_files: int = MOST_FILES) -> None:
        """Of a table with more than `most_files` the manifests are not read: its figures are estimates then."""
        self._most_files = most_files
        self._capacity = capacity
        self._most_snapshots, self._snapshots = snapshots, 0
        self._figures: OrderedDict[tuple[str, int], HealthFigures] = OrderedDict()
        self._metadata: OrderedDict[str, TableMetadata] = OrderedDict()
        self._places: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, location: str) -> TableMetadata | None:
        with self._lock:
            if location in self._metadata:
                self._metadata.move_to_end(location)
            return self._metadata.get(location)

    def places_at(self, location: str) -> tuple[str, ...] | None:
        """The places that belong to the table, as this metadata file has them."""
        with self._lock:
            return self._places.get(location)

    def keep(self, location: str, metadata: TableMetadata) -> None:
        with self._lock:
            self._places[location] = places_of(metadata.location, metadata.properties)
            while len(self._places) > self._capacity:
                self._places.popitem(last=False)
            if location not in self._metadata:
                self._metadata[location] = metadata
                self._snapshots += _weight(metadata)
            while self._snapshots > self._most_snapshots:
                _, forgotten = self._metadata.popitem(last=False)
                self._snapshots -= _weight(forgotten)

    def known(self, location: str, target_bytes: int) -> HealthFigures | None:
        with self._lock:
            return self._figures.get((location, target_bytes))

    def of(self, table: Table, target_bytes: int) -> HealthFigures:
        key = (table.metadata_location, target_bytes)
        with self._lock:
            if key in self._figures:
                self._figures.move_to_end(key)
                return self._figures[key]
        # Below three quarters of the target a file counts as small, as in Iceberg's own procedures.
        is_large, small_bytes = has_more_files_than(table, self._most_files), small_below(target_bytes)
        look = estimated_health if is_large else table_health
        figures = _figures(look(table, small_file_bytes=small_bytes), target_bytes, estimated=is_large)
        with self._lock:
            self._figures[key] = figures
            while len(self._figures) > self._capacity:
                self._figures.popitem(last=False)
        return figures


def observe_table(
    catalog: Catalog, table: ManagedTable, policy: EffectivePolicy, memory: HealthMemory
) -> TableObservation:
    try:
        pointer = catalog.read_pointer(table.identifier) if isinstance(catalog, PointerCatalog) else None
        remembered = None if pointer is None else _at_its_pointer(pointer, policy, memory)
        if remembered is not None:
            return remembered
        loaded = _load(catalog, table.identifier, pointer)
        health = memory.of(loaded, target_file_bytes(policy, loaded.metadata))
        memory.keep(loaded.metadata_location, loaded.metadata)
    except (NoSuchTableError, NoSuchNamespaceError):
        return TableAbsent()
    except TransientError as error:
        return CatalogUnusable("CatalogUnreachable", str(error))
    except PermanentError as error:
        return TableUnreadable(str(error))
    except FileNotFoundError as error:  # storage answers, and has it not: no waiting brings it back
        return TableUnreadable(f"a file that the table needs is not there: {error}")
    except OSError as error:
        return CatalogUnusable("StorageUnreachable", str(error))
    return TablePresent(loaded.metadata, loaded.metadata_location, health)


def _load(catalog: Catalog, identifier: tuple[str, str], pointer: Pointer | None) -> Table:
    try:
        if not isinstance(catalog, PointerCatalog):
            return catalog.load_table(identifier)
        current = None if pointer is None else catalog.load_current(identifier, pointer)
        if current is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(identifier)}")
        return current.table
    except (NoSuchTableError, NoSuchNamespaceError, TablewrightError, OSError):
        raise
    except Exception as error:  # PyIceberg's own catalogs raise what their clients do
        raise CatalogFailedError(f"the catalog failed ({type(error).__name__}): {error}") from error


def _at_its_pointer(pointer: Pointer, policy: EffectivePolicy, memory: HealthMemory) -> TablePresent | None:
    """The table as it is remembered, if its pointer has not moved since."""
    metadata = memory.at(pointer.location)
    if metadata is None:
        return None
    health = memory.known(pointer.location, target_file_bytes(policy, metadata))
    return None if health is None else TablePresent(metadata, pointer.location, health)


def remember(loaded: Table, policy: EffectivePolicy, memory: HealthMemory) -> None:
    """A table that was just created or changed: the next look at it finds its pointer there, and nothing to load."""
    memory.of(loaded, target_file_bytes(policy, loaded.metadata))
    memory.keep(loaded.metadata_location, loaded.metadata)


def _weight(metadata: TableMetadata) -> int:
    return len(metadata.snapshots) + len(metadata.snapshot_log) + 10


def target_file_bytes(policy: EffectivePolicy, metadata: TableMetadata) -> int:
    """As the policy says; otherwise as the table's own property says; otherwise Iceberg's default."""
    if policy.target_file_bytes is not None:
        return policy.target_file_bytes
    return own_target_bytes(metadata.properties)


def _figures(health: TableHealth, target_bytes: int, *, estimated: bool) -> HealthFigures:
    return HealthFigures(
        target_file_bytes=target_bytes,
        estimated=estimated,
        data_files=health.data_files,
        small_files=health.small_files,
        delete_files=health.delete_files,
        delete_records=health.delete_records,
        data_bytes=health.data_bytes,
        size=readable_size(health.data_bytes),
        records=health.records,
        median_file_bytes=health.median_file_bytes,
        manifests=health.manifests,
        old_spec_files=health.old_spec_files,
        manifest_bytes=health.manifest_bytes,
        snapshots=health.snapshots,
    )
