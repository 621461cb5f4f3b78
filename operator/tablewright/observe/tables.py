"""Looks at one table: the pointer, the metadata behind it, and the figures of its files.

Metadata files never change, so the figures are remembered by the metadata's location: a table that nobody wrote to
costs one look at its pointer.
"""

import threading
from collections import OrderedDict

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tableformat.errors import PermanentError, TransientError
from tableformat.inspection import TableHealth, table_health
from tablewright.api.declaration import TARGET_FILE_SIZE
from tablewright.api.policy import DEFAULT_TARGET_FILE_BYTES
from tablewright.api.table import HealthFigures, ManagedTable
from tablewright.decide.policy import EffectivePolicy
from tablewright.decide.state import CatalogUnusable, TableAbsent, TableObservation, TablePresent, TableUnreadable


class HealthMemory:
    """Figures by metadata location, the most recently used ones."""

    def __init__(self, capacity: int = 10_000) -> None:
        self._capacity = capacity
        self._figures: OrderedDict[tuple[str, int], HealthFigures] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, table: Table, target_bytes: int) -> HealthFigures:
        key = (table.metadata_location, target_bytes)
        with self._lock:
            if key in self._figures:
                self._figures.move_to_end(key)
                return self._figures[key]
        # Below three quarters of the target a file counts as small, as in Iceberg's own procedures.
        figures = _figures(table_health(table, small_file_bytes=target_bytes * 3 // 4), target_bytes)
        with self._lock:
            self._figures[key] = figures
            while len(self._figures) > self._capacity:
                self._figures.popitem(last=False)
        return figures


def observe_table(
    catalog: Catalog, table: ManagedTable, policy: EffectivePolicy, memory: HealthMemory
) -> TableObservation:
    try:
        loaded = catalog.load_table(table.identifier)
        health = memory.of(loaded, target_file_bytes(policy, loaded.metadata))
    except (NoSuchTableError, NoSuchNamespaceError):
        return TableAbsent()
    except TransientError as error:
        return CatalogUnusable("CatalogUnreachable", str(error))
    except PermanentError as error:
        return TableUnreadable(str(error))
    except OSError as error:
        return CatalogUnusable("StorageUnreachable", str(error))
    return TablePresent(loaded.metadata, loaded.metadata_location, health)


def target_file_bytes(policy: EffectivePolicy, metadata: TableMetadata) -> int:
    """As the policy says; otherwise as the table's own property says; otherwise Iceberg's default."""
    if policy.target_file_bytes is not None:
        return policy.target_file_bytes
    own = metadata.properties.get(TARGET_FILE_SIZE, "")
    return int(own) if own.isdecimal() and int(own) > 0 else DEFAULT_TARGET_FILE_BYTES


def _figures(health: TableHealth, target_bytes: int) -> HealthFigures:
    return HealthFigures(
        target_file_bytes=target_bytes,
        data_files=health.data_files,
        small_files=health.small_files,
        delete_files=health.delete_files,
        data_bytes=health.data_bytes,
        records=health.records,
        median_file_bytes=health.median_file_bytes,
        manifests=health.manifests,
        snapshots=health.snapshots,
    )
