"""Locations compared as storage sees them: two tables must never share a place, however it is spelled.

`file:/a`, `file:///a` and `/a` are one folder; `s3`, `s3a` and `s3n` are one store. A location overlaps another if
it is the same folder or lies inside it, because maintenance deletes what it does not know inside a table's location.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Identifier

logger = logging.getLogger(__name__)

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasbs": "wasb", "abfss": "abfs", "": "file"}
_PATH_PROPERTIES = (
    TableProperties.WRITE_DATA_PATH,
    TableProperties.WRITE_METADATA_PATH,
    "write.folder-storage.path",
    "write.object-storage.path",
)


class TableLocation(NamedTuple):
    """A place that belongs to a table; a table may have several, with its data beside its metadata."""

    identifier: Identifier
    location: str


def same_location(one: str, other: str) -> bool:
    return _parts(one) == _parts(other)


def overlap(one: str, other: str) -> bool:
    """Whether one is the other, or inside it."""
    shorter, longer = sorted((_parts(one), _parts(other)), key=len)
    return longer[: len(shorter)] == shorter


def first_overlap(locations: Iterable[str], others: Iterable[TableLocation]) -> TableLocation | None:
    """The first of the other tables' places that overlaps any of these."""
    own = tuple(locations)
    return next((other for other in others if any(overlap(location, other.location) for location in own)), None)


def places_of(location: str, properties: dict[str, str]) -> tuple[str, ...]:
    return location, *(properties[key] for key in _PATH_PROPERTIES if key in properties)


def table_locations(catalog: Catalog) -> Iterator[TableLocation]:
    """Where the tables of the catalog are. Loads each of them: the cost of a safe creation in a catalog of others."""
    for namespace in _namespaces(catalog, ()):
        try:
            identifiers = catalog.list_tables(namespace)
        except NoSuchNamespaceError:  # dropped meanwhile
            continue
        for identifier in identifiers:
            try:
                metadata = catalog.load_table(identifier).metadata
            except NoSuchTableError:  # dropped meanwhile
                continue
            except Exception as error:  # one table that cannot be read must not keep all others from being created
                logger.warning("location of %s not compared, it cannot be loaded: %s", ".".join(identifier), error)
                continue
            for place in places_of(metadata.location, metadata.properties):
                yield TableLocation(identifier, place)


def _namespaces(catalog: Catalog, parent: Identifier) -> Iterator[Identifier]:
    for namespace in catalog.list_namespaces(parent):
        if namespace != parent:
            yield namespace
            yield from _namespaces(catalog, namespace)


@lru_cache(maxsize=65536)  # a new table is compared with thousands of others
def _parts(location: str) -> tuple[str, ...]:
    head = location.split("/", 1)[0]
    scheme, rest = (head[:-1], location[len(head) :]) if head.endswith(":") else ("", location)
    store, path = "", rest
    if rest.startswith("//"):
        store, _, path = rest[2:].partition("/")
    scheme = _SAME_STORE.get(scheme.lower(), scheme.lower())
    return (scheme, store, *(part for part in path.split("/") if part not in ("", ".")))
