"""The places that tables have. No two tables may share one: maintenance deletes what it does not know in a place.

When two locations overlap is decided by `tableformat.locations`, as storage sees them and however they are spelled.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.typedef import Identifier

from tableformat.catalogs.locations import places_of
from tableformat.locations import folder_parts, overlap

logger = logging.getLogger(__name__)

Owner = TypeVar("Owner", bound=Hashable)


class TableLocation(NamedTuple):
    """A place that belongs to a table; a table may have several, with its data beside its metadata."""

    identifier: Identifier
    location: str


def first_overlap(locations: Iterable[str], others: Iterable[TableLocation]) -> TableLocation | None:
    """The first of the other tables' places that overlaps any of these."""
    own = tuple(locations)
    return next((other for other in others if any(overlap(location, other.location) for location in own)), None)


class PlaceIndex(Generic[Owner]):
    """Who has which places: an overlap is found by the place's own path, however many others there are."""

    def __init__(self) -> None:
        self._places: dict[Owner, tuple[TableLocation, ...]] = {}
        self._at: defaultdict[tuple[str, ...], dict[Owner, TableLocation]] = defaultdict(dict)
        self._inside: defaultdict[tuple[str, ...], dict[Owner, TableLocation]] = defaultdict(dict)

    def put(self, owner: Owner, identifier: Identifier, places: Iterable[str]) -> None:
        """All places that the owner has, instead of what it had."""
        found = tuple(TableLocation(identifier, place) for place in places)
        if self._places.get(owner) == found:
            return
        self.remove(owner)
        self._places[owner] = found
        for location in found:
            parts = folder_parts(location.location)
            self._at[parts][owner] = location
            for length in range(len(parts)):
                self._inside[parts[:length]][owner] = location

    def remove(self, owner: Owner) -> None:
        for location in self._places.pop(owner, ()):
            parts = folder_parts(location.location)
            _take(self._at, parts, owner)
            for length in range(len(parts)):
                _take(self._inside, parts[:length], owner)

    def overlapping(self, place: str, *, but: Collection[Owner]) -> TableLocation | None:
        """A place that is this one, around it or inside it, of anybody but these."""
        parts = folder_parts(place)
        around = (self._at.get(parts[:length], {}) for length in range(len(parts) + 1))
        for owners in (*around, self._inside.get(parts, {})):
            for owner, location in owners.items():
                if owner not in but:
                    return location
        return None


def _take(places: dict[tuple[str, ...], dict[Owner, TableLocation]], parts: tuple[str, ...], owner: Owner) -> None:
    owners = places.get(parts, {})
    owners.pop(owner, None)
    if not owners:
        places.pop(parts, None)


def overlapping_table(catalog: Catalog, identifier: Identifier, places: Iterable[str]) -> TableLocation | None:
    """A place of another table of the catalog that overlaps any of these."""
    return first_overlap(places, (other for other in table_locations(catalog) if other.identifier != identifier))


def table_locations(catalog: Catalog) -> Iterator[TableLocation]:
    """Where the tables of the catalog are. Loads each of them: the cost of a safe creation in a catalog of others."""
    for identifier in table_identifiers(catalog):
        for place in places_in(catalog, identifier) or ():
            yield TableLocation(identifier, place)


def table_identifiers(catalog: Catalog) -> Iterator[Identifier]:
    for namespace in all_namespaces(catalog):
        try:
            yield from catalog.list_tables(namespace)
        except NoSuchNamespaceError:  # dropped meanwhile
            continue


def places_in(catalog: Catalog, identifier: Identifier) -> tuple[str, ...] | None:
    """The places of one of its tables; None if it is gone or cannot be read."""
    try:
        metadata = catalog.load_table(identifier).metadata
    except NoSuchTableError:  # dropped meanwhile
        return None
    except Exception as error:  # one table that cannot be read must not keep all others from being created
        logger.warning("location of %s not compared, it cannot be loaded: %s", ".".join(identifier), error)
        return None
    return places_of(metadata.location, metadata.properties)


def all_namespaces(catalog: Catalog, parent: Identifier = ()) -> Iterator[Identifier]:
    """Those inside the parent, and those inside them."""
    for namespace in catalog.list_namespaces(parent):
        if namespace != parent:
            yield namespace
            yield from all_namespaces(catalog, namespace)
