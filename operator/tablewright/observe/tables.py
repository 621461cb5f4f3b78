"""Looks at one table: the pointer, the metadata behind it, and the figures of its files.

Metadata files never change, so metadata and figures are remembered by the metadata's location: where we can read the
pointer by itself, a table that nobody wrote to costs one look at it.
"""

import random
import threading
from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID

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
MOST_SNAPSHOTS = 60_000  # some 2 KiB each, with what else metadata holds: see `_weight`


class CatalogFailedError(TransientError):
    """A catalog answered with an error of its own client's; it may be another one the next time."""


class _MetadataWithin:
    """Metadata by its location, up to a weight, and of each table the latest that came. What has to make room is drawn
    by lot: tables are looked at in turns, and where more of them are than fit, the one that was used longest ago is the
    one that is wanted next.
    """

    def __init__(self, most: int, draw: Callable[[int], int]) -> None:
        self._most, self._weight, self._draw = most, 0, draw
        self._kept: dict[str, TableMetadata] = {}
        self._of_table: dict[UUID, str] = {}
        self._order: list[str] = []  # the locations of what is kept, so that one can be drawn at once
        self._place: dict[str, int] = {}  # of each location in that order

    def at(self, location: str) -> TableMetadata | None:
        return self._kept.get(location)

    def keep(self, location: str, metadata: TableMetadata) -> None:
        if location in self._kept or _weight(metadata) > self._most / 10:
            return  # one table with a long history must not cost many others their place
        if (superseded := self._of_table.get(metadata.table_uuid)) is not None:
            self._forget(superseded)
        while self._weight + _weight(metadata) > self._most:
            self._forget(self._order[self._draw(len(self._order))])
        self._kept[location] = metadata
        self._of_table[metadata.table_uuid] = location
        self._place[location] = len(self._order)
        self._order.append(location)
        self._weight += _weight(metadata)

    def _forget(self, location: str) -> None:
        place, last = self._place.pop(location), self._order.pop()
        if location != last:
            self._order[place], self._place[last] = last, place
        forgotten = self._kept.pop(location)
        del self._of_table[forgotten.table_uuid]
        self._weight -= _weight(forgotten)


class HealthMemory:
    """Metadata and figures by metadata location; metadata within a number of snapshots."""

    def __init__(
        self,
        capacity: int = 10_000,
        snapshots: int = MOST_SNAPSHOTS,
        *,
        most_files: int = MOST_FILES,
        draw: Callable[[int], int] = random.randrange,
    ) -> None:
        """Of a table with more than `most_files` the manifests are not read: its figures are estimates then. `draw`
        chooses one of so many metadata files, which is forgotten for another."""
        self._most_files = most_files
        self._capacity = capacity
        self._figures: OrderedDict[tuple[str, int], HealthFigures] = OrderedDict()
        self._metadata = _MetadataWithin(snapshots, draw)
        self._places: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, location: str) -> TableMetadata | None:
        with self._lock:
            return self._metadata.at(location)

    def places_at(self, location: str) -> tuple[str, ...] | None:
        """The places that belong to the table, as this metadata file has them."""
        with self._lock:
            return self._places.get(location)

    def keep(self, location: str, metadata: TableMetadata) -> None:
        with self._lock:
            self._places[location] = places_of(metadata.location, metadata.properties)
            while len(self._places) > self._capacity:
                self._places.popitem(last=False)
            self._metadata.keep(location, metadata)

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
