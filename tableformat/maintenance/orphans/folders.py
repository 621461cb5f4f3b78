"""The folders that belong to a table and to nobody else, and what in them is none of ours."""

from collections.abc import Callable, Iterator

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.declaration.locations import overlap, places_of
from tableformat.maintenance.errors import SharedLocation
from tableformat.maintenance.storage import Place, within


def own_folders(table: Table, catalog: Catalog) -> tuple[str, ...]:
    """The table's location and its own paths for data and metadata. Raises `SharedLocation` if others are there."""
    name = ".".join(table.name())
    places = places_of(table.metadata.location, table.metadata.properties)
    for place in places:
        if not Place.of(place).comparable_path:
            raise SharedLocation(
                f"table {name}: {place} is a whole bucket or file system, not a folder of the table's own; nothing was "
                "listed. Give the table a folder"
            )
    for other, location in _neighbours(catalog, table.name()):
        for place in places:
            if overlap(place, location):
                raise SharedLocation(
                    f"table {name}: its {place} overlaps {location} of table {'.'.join(other)}, whose files would look "
                    "like orphans; nothing was deleted. Move one of the tables"
                )
    return tuple(place for place in dict.fromkeys(places) if not any(within(place, other) for other in places))


def _neighbours(catalog: Catalog, own: Identifier) -> Iterator[tuple[Identifier, str]]:
    for namespace in _namespaces(catalog, ()):
        try:
            identifiers = catalog.list_tables(namespace)
        except NoSuchNamespaceError:  # dropped meanwhile
            continue
        for identifier in identifiers:
            if tuple(identifier) != tuple(own):
                for place in _places(catalog, identifier):
                    yield identifier, place


def _places(catalog: Catalog, identifier: Identifier) -> tuple[str, ...]:
    try:
        metadata = catalog.load_table(identifier).metadata
    except NoSuchTableError:  # dropped meanwhile
        return ()
    except Exception as error:
        # A table that PyIceberg cannot read has files all the same. Its pointer tells where they are.
        pointer = catalog.read_pointer(identifier) if isinstance(catalog, PointerCatalog) else None
        if pointer is None:
            raise SharedLocation(
                f"table {'.'.join(identifier)} cannot be loaded ({error}), so nobody can say whether it shares a "
                "folder; nothing was deleted. Mend it, or drop it"
            ) from error
        return (pointer.location,)
    return places_of(metadata.location, metadata.properties)


def _namespaces(catalog: Catalog, parent: Identifier) -> Iterator[Identifier]:
    for namespace in catalog.list_namespaces(parent):
        if namespace != parent:
            yield namespace
            yield from _namespaces(catalog, namespace)


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
        return any(name.startswith(("_", ".")) and not name.startswith(partitions) for name in path.split("/"))

    return hidden
