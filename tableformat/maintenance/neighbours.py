"""Whether a table's files are its own: asked by whatever deletes, and only when there is something to delete.

Files that nothing of a table leads to may be another table's that shares its folder. Files that an expiry leaves behind
may be needed by the same table under another name, as a catalog has it after `register_table`. To look for folders, one
small file of each other table of the catalog is read, several at a time, and what a file said is remembered: metadata
files never change. To look for other names, the pointers are enough, of which some catalogs tell in their listing.
"""

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ServerError, ServiceUnavailableError
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier
from requests.exceptions import RequestException

from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.locations import places_of
from tableformat.catalogs.outcomes import CatalogUnavailableError, CorruptCatalogEntryError
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.declaration.locations import all_namespaces
from tableformat.errors import TransientError
from tableformat.locations import folder_parts, overlap
from tableformat.maintenance.errors import SharedLocation

logger = logging.getLogger(__name__)

_PARALLEL = 8
_MOST_KNOWN = 100_000
_NOT_NOW = (TransientError, ServerError, ServiceUnavailableError, RequestException, ConnectionError, TimeoutError)
"""What a catalog's server raises when it does not answer: of the table itself this says nothing."""
_known: dict[str, tuple[str, ...]] = {}
_lock = threading.Lock()


def own_places(table: Table) -> tuple[str, ...]:
    return places_of(table.metadata.location, table.metadata.properties)


def require_not_shared(table: Table, catalog: Catalog) -> None:
    """Raises `SharedLocation` if another table of the catalog has files in a folder of this one, or may have."""
    name, own = ".".join(table.name()), own_places(table)
    for other, places in _neighbours(catalog, table.name()):
        for location in places:
            shared = next((place for place in own if overlap(place, location)), None)
            if shared is not None:
                raise SharedLocation(
                    f"table {name}: its {shared} overlaps {location} of table {'.'.join(other)}, whose files would "
                    "look like orphans; nothing was deleted. Move one of the tables"
                )


def require_no_other_name(table: Table, catalog: Catalog) -> None:
    """Raises `SharedLocation` if another table of the catalog has its metadata where this one has it."""
    other = other_name(catalog, table.name(), table.metadata_location, table.metadata)
    if other is not None:
        raise SharedLocation(
            f"table {'.'.join(table.name())}: table {'.'.join(other.identifier)} has its metadata in the same folder "
            f"({other.location}), as one table under two names has, and may need the same files; nothing was deleted. "
            "Drop one of the names without its files, or move one of the tables"
        )


class OtherName(NamedTuple):
    identifier: Identifier
    location: str
    """Of its metadata."""


def other_name(catalog: Catalog, own: Identifier, metadata_location: str, metadata: TableMetadata) -> OtherName | None:
    """A table of the catalog with another name that has its metadata where this one has it, or had it."""
    folders = {_folder(metadata_location), *(_folder(entry.metadata_file) for entry in metadata.metadata_log)}
    for other, listed in _others(catalog, own):
        location = _metadata_location(catalog, other) if listed is None else listed.location
        if location is not None and _folder(location) in folders:
            return OtherName(other, location)
    return None


def _folder(location: str) -> tuple[str, ...]:
    return folder_parts(location.rpartition("/")[0])


def _metadata_location(catalog: Catalog, identifier: Identifier) -> str | None:
    """None for a table that is gone meanwhile, or that is damaged or cannot be loaded by PyIceberg: this one can."""
    try:
        if isinstance(catalog, PointerCatalog):
            pointer = _pointer(catalog, identifier)
            return None if pointer is None else pointer.location
        return catalog.load_table(identifier).metadata_location
    except NoSuchTableError:
        return None
    except _NOT_NOW as error:
        raise CatalogUnavailableError(
            f"table {'.'.join(identifier)} cannot be looked at now ({error}), so nobody can say whether it is the same "
            "table under another name; nothing was deleted. Run again"
        ) from error
    except Exception as error:  # whatever a catalog, its storage or PyIceberg's parser raises
        if isinstance(catalog, PointerCatalog) and not isinstance(error, CorruptCatalogEntryError):
            raise  # no more than the pointer was asked for
        logger.warning("not compared, it cannot be loaded: %s", error, extra={"table": ".".join(identifier)})
        return None


def _others(catalog: Catalog, own: Identifier) -> Iterator[tuple[Identifier, Pointer | None]]:
    """Each with its pointer where the listing told of it."""
    for namespace in all_namespaces(catalog):
        try:
            listed = _listed(catalog, namespace)
        except NoSuchNamespaceError:  # dropped meanwhile
            continue
        yield from ((identifier, pointer) for identifier, pointer in listed.items() if tuple(identifier) != tuple(own))


def _listed(catalog: Catalog, namespace: Identifier) -> Mapping[Identifier, Pointer | None]:
    if isinstance(catalog, PointerCatalog):
        return catalog.listed_pointers(namespace)
    return dict.fromkeys(catalog.list_tables(namespace))


def _neighbours(catalog: Catalog, own: Identifier) -> Iterator[tuple[Identifier, tuple[str, ...]]]:
    others = list(_others(catalog, own))
    if not isinstance(catalog, PointerCatalog):
        yield from ((identifier, _places(catalog, identifier)) for identifier, _ in others)
        return
    io = catalog._load_file_io(catalog.properties)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        waiting = [
            (
                identifier,
                pool.submit(_places_by_pointer, catalog, io, identifier, listed or _pointer(catalog, identifier)),
            )
            for identifier, listed in others
        ]
        for identifier, places in waiting:
            yield identifier, places.result()


def _pointer(catalog: PointerCatalog, identifier: Identifier) -> Pointer | None:
    """None for what is gone meanwhile, or is there and is no table of Iceberg's."""
    try:
        return catalog.read_pointer(identifier)
    except NoSuchTableError:
        return None


def _places(catalog: Catalog, identifier: Identifier) -> tuple[str, ...]:
    try:
        metadata = catalog.load_table(identifier).metadata
    except NoSuchTableError:  # dropped meanwhile
        return ()
    except Exception as error:
        raise _unknown(identifier, error) from error
    return places_of(metadata.location, metadata.properties)


def _places_by_pointer(
    catalog: PointerCatalog, io: FileIO, identifier: Identifier, pointer: Pointer | None
) -> tuple[str, ...]:
    """From the metadata file itself: tables that PyIceberg cannot load have files all the same."""
    if pointer is None:  # dropped meanwhile
        return ()
    try:
        return _places_by_metadata(io, pointer.location)
    except FileNotFoundError as error:  # it may have become an old version since, and be gone
        now = _pointer(catalog, identifier)
        if now is not None and now.location == pointer.location:
            raise _unknown(identifier, error) from error
        return _places_by_pointer(catalog, io, identifier, now)
    except Exception as error:
        raise _unknown(identifier, error) from error


def _places_by_metadata(io: FileIO, metadata_location: str) -> tuple[str, ...]:
    with _lock:
        known = _known.get(metadata_location)
    if known is not None:
        return known
    with io.new_input(metadata_location).open() as stream:
        content = json.load(Compressor.get_compressor(metadata_location).stream_decompressor(stream))
    places = places_of(str(content["location"]), dict(content.get("properties") or {}))
    with _lock:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[metadata_location] = places
    return places


def _unknown(identifier: Identifier, error: Exception) -> SharedLocation:
    return SharedLocation(
        f"table {'.'.join(identifier)} cannot be read ({error}), so nobody can say whether it shares a folder; nothing "
        "was deleted. Mend it, or drop it"
    )
