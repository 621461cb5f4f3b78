"""The folders that belong to a table and to nobody else, and what in them is none of ours.

Whether other tables share them is asked only when there is something to delete. Of each other table of the catalog,
one small file is read then, several at a time, and what a file said is remembered: metadata files never change.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.locations import places_of
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.declaration.locations import table_identifiers
from tableformat.locations import Place, comparable_folder, overlap, within
from tableformat.maintenance.errors import SharedLocation

_PARALLEL = 8
_MOST_KNOWN = 100_000
_known: dict[str, tuple[str, ...]] = {}
_lock = threading.Lock()


def own_folders(table: Table) -> tuple[str, ...]:
    """The table's location and its own paths for data and metadata, each folder once, however it is spelled."""
    name, places = ".".join(table.name()), _own_places(table)
    for place in places:
        if not Place.of(place).comparable_path:
            raise SharedLocation(
                f"table {name}: {place} is a whole bucket or file system, not a folder of the table's own; nothing was "
                "listed. Give the table a folder"
            )
    folders = {(Place.of(place).store, comparable_folder(place)): place for place in reversed(places)}
    return tuple(place for place in reversed(folders.values()) if not any(within(place, other) for other in places))


def require_not_shared(table: Table, catalog: Catalog) -> None:
    """Raises `SharedLocation` if another table of the catalog has files in a folder of this one, or may have."""
    name, own = ".".join(table.name()), _own_places(table)
    for other, places in _neighbours(catalog, table.name()):
        for location in places:
            shared = next((place for place in own if overlap(place, location)), None)
            if shared is not None:
                raise SharedLocation(
                    f"table {name}: its {shared} overlaps {location} of table {'.'.join(other)}, whose files would "
                    "look like orphans; nothing was deleted. Move one of the tables"
                )


def _own_places(table: Table) -> tuple[str, ...]:
    return places_of(table.metadata.location, table.metadata.properties)


def _neighbours(catalog: Catalog, own: Identifier) -> Iterator[tuple[Identifier, tuple[str, ...]]]:
    others = [identifier for identifier in table_identifiers(catalog) if tuple(identifier) != tuple(own)]
    if not isinstance(catalog, PointerCatalog):
        yield from ((identifier, _places(catalog, identifier)) for identifier in others)
        return
    io = catalog._load_file_io(catalog.properties)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        waiting = [
            (identifier, pool.submit(_places_by_pointer, catalog, io, identifier, catalog.read_pointer(identifier)))
            for identifier in others
        ]
        for identifier, places in waiting:
            yield identifier, places.result()


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
        now = catalog.read_pointer(identifier)
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


def hidden_by_name(metadata: TableMetadata) -> Callable[[str], bool]:
    """Whether a path, relative to the table's folder, is hidden: a name on the way begins with `_` or `.`.

    That is Iceberg's rule, and its exception: the folders of partitions by a column of such a name are not hidden.
    """
    partitions = tuple(
        f"{field.name}="
        for spec in metadata.partition_specs
        for field in spec.fields
        if field.name.startswith(("_", "."))
    )

    def hidden(path: str) -> bool:
        if "/_" not in path and "/." not in path and not path.startswith(("_", ".")):
            return False  # as nearly all are
        return any(name.startswith(("_", ".")) and not name.startswith(partitions) for name in path.split("/"))

    return hidden
