"""Where tables are, without loading each of them whenever one is created: two tables must never share a place.

A new table is compared with every table of its catalog, with what the objects of other catalogs say of theirs, and with
those that are being created at this very moment, whose pointers nobody has seen yet. A metadata file never changes, so
what it says of places is remembered, and only what moved on is looked at again. The pointers of ConfigMap catalogs are
watched anyway; other catalogs are asked for the names of their tables.
"""

import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyiceberg.catalog import Catalog
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from tableformat.catalogs.locations import places_of
from tableformat.catalogs.naming import KIND_TABLE, LABEL_CATALOG, labels_of
from tableformat.declaration import TableLocation
from tableformat.declaration.locations import PlaceIndex, places_in, table_identifiers
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import KubernetesObject
from tablewright.api.table import ManagedTable
from tablewright.runtime.claims import pointer_name
from tablewright.runtime.logs import brief
from tablewright.runtime.store import ObjectStore

POINTER = "ConfigMap"
LISTED_SECONDS = 3600.0  # of a catalog that nobody watches: others may move a table, which is rare

OpenCatalog = Callable[[str, str], Catalog]  # by the namespace and the name of its TableCatalog

logger = logging.getLogger(__name__)


class _Owner(NamedTuple):
    """Who says that a place is taken: a pointer, an object, a creation that is under way, or a catalog's own list."""

    source: str
    namespace: str
    name: str
    identifier: Identifier = ()


@dataclass
class _Listed:
    """Of a catalog that nobody watches: when its tables were all read, and which of them are known since."""

    since: float = float("-inf")
    known: set[Identifier] = field(default_factory=set)


class KnownLocations:
    """`remembered` has the places that a metadata file names, where it was read already."""

    def __init__(self, store: ObjectStore, remembered: Callable[[str], tuple[str, ...] | None]) -> None:
        self._store, self._remembered = store, remembered
        self._index: PlaceIndex[_Owner] = PlaceIndex()
        self._moved: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # pointers, by namespace and catalog
        self._read: dict[tuple[str, str], str] = {}  # by pointer: the metadata file that its places are from
        self._listed: dict[tuple[str, str], _Listed] = {}
        self._following: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)  # by catalog
        self._lock = threading.Lock()

    def notice(self, kind: str, obj: KubernetesObject, *, deleted: bool) -> None:
        """Told of pointers and of tables' objects, as they were seen or written."""
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if kind == POINTER:
            catalog = (namespace, (obj["metadata"].get("labels") or {}).get(LABEL_CATALOG, ""))
            with self._lock:
                self._moved[catalog].discard(name)
                if deleted:
                    self._read.pop((namespace, name), None)
                    self._index.remove(_Owner("pointer", namespace, name))
                else:
                    self._moved[catalog].add(name)
        elif kind == ManagedTable.kind_name:
            location = ((obj.get("status") or {}).get("identity") or {}).get("location")
            with self._lock:
                if deleted or location is None:
                    self._index.remove(_Owner("object", namespace, name))
                else:
                    self._index.put(_Owner("object", namespace, name), (namespace, name), (location,))

    def learn(self, table: ManagedTable, metadata_location: str, metadata: TableMetadata) -> None:
        """Where a table is that was just created or changed; its pointer may not have been seen yet."""
        namespace, name, pointer = table.metadata.namespace, table.spec.catalog_ref.name, pointer_name(table)
        places = places_of(metadata.location, metadata.properties)
        with self._lock:
            if self._is_watched(namespace, name):
                self._read[namespace, pointer] = metadata_location
                self._index.put(_Owner("pointer", namespace, pointer), table.identifier, places)
            else:
                self._listed.setdefault((namespace, name), _Listed()).known.add(table.identifier)
                self._index.put(_Owner("list", namespace, name, table.identifier), table.identifier, places)

    def take(
        self, table: ManagedTable, catalog: Catalog, places: Sequence[str], open_other: OpenCatalog
    ) -> TableLocation | None:
        """Another table's place that overlaps one of these; if there is none, they are the table's until `release`.

        What the list of another catalog says is asked of that one again: it is as old as the last creation there, and
        where two catalogs lead to one store it may be this very table that it lists, from before it was purged.
        """
        namespace, name = table.metadata.namespace, table.spec.catalog_ref.name
        with self._following[namespace, name]:  # whoever comes second must not compare with half of it
            if self._is_watched(namespace, name):
                self._follow_pointers(namespace, name, catalog)
            else:
                self._follow_list(namespace, name, catalog)
        asked = set[_Owner]()
        while True:
            taken = self._take(table, places)
            doubtful = set() if taken is None else self._listed_elsewhere(taken.identifier, (namespace, name)) - asked
            if not doubtful:
                return taken
            for owner in doubtful:
                self._ask_again(owner, open_other)
            asked |= doubtful

    def _take(self, table: ManagedTable, places: Sequence[str]) -> TableLocation | None:
        own = _owners(table)
        with self._lock:  # found to be free and taken in one step: another may be created at the same time
            for place in places:
                taken = self._index.overlapping(place, but=own)
                if taken is not None:
                    return taken
            self._index.put(_creation(table), table.identifier, places)
        return None

    def release(self, table: ManagedTable) -> None:
        """The pass over the table is over: it was created, and then its pointer has the places, or it was not."""
        with self._lock:
            self._index.remove(_creation(table))
        self._forget_if_gone(table.metadata.namespace, table.spec.catalog_ref.name)

    def forget_catalog(self, namespace: str, name: str) -> None:
        """What its list said. The tables that objects declare in it have their places by their objects."""
        with self._lock:
            for identifier in self._listed.pop((namespace, name), _Listed()).known:
                self._index.remove(_Owner("list", namespace, name, identifier))
            self._following.pop((namespace, name), None)

    def _forget_if_gone(self, namespace: str, name: str) -> None:
        """Of a catalog that was deleted while a pass listed it: the event that lets it go may be past."""
        if self._store.get(TableCatalog.kind_name, namespace, name) is None:
            self.forget_catalog(namespace, name)

    def _listed_elsewhere(self, identifier: Identifier, catalog: tuple[str, str]) -> set[_Owner]:
        """The entries of a table in the lists of all catalogs but this."""
        with self._lock:
            found = [place for place, listed in self._listed.items() if place != catalog and identifier in listed.known]
        return {_Owner("list", *place, identifier) for place in found}

    def _ask_again(self, owner: _Owner, open_other: OpenCatalog) -> None:
        """Lists a catalog anew, and reads where this table of its is; what cannot be asked stays as it was seen.

        The whole list, not the one table: it may have been renamed, and then is where it was.
        """
        catalog = owner.namespace, owner.name
        try:
            opened = open_other(*catalog)
            with self._following[catalog]:
                self._follow_list(*catalog, opened, again=owner.identifier)
        except Exception as error:  # its credentials, its server: they may come back, and the table with them
            logger.warning("catalog %s/%s was not asked again for its tables: %s", *catalog, brief(error))
        self._forget_if_gone(*catalog)

    def _is_watched(self, namespace: str, name: str) -> bool:
        declared = self._store.get(TableCatalog.kind_name, namespace, name)
        return declared is not None and (declared.get("spec") or {}).get("configMap") is not None

    def _follow_pointers(self, namespace: str, name: str, catalog: Catalog) -> None:
        place = (namespace, labels_of(name, KIND_TABLE, ())[LABEL_CATALOG])
        with self._lock:
            moved = self._moved.pop(place, set())
        for pointer in moved:
            obj = self._store.get(POINTER, namespace, pointer)
            if obj is None:
                continue
            location = obj["data"].get("metadata_location")
            if location is None or self._read.get((namespace, pointer)) == location:
                continue
            identifier = tuple(json.loads(obj["data"]["identifier"]))
            places = self._remembered(location) or places_in(catalog, identifier)
            with self._lock:
                if places is None:
                    self._moved[place].add(pointer)  # gone, as an event will say, or to be tried again
                    continue
                self._read[namespace, pointer] = location
                self._index.put(_Owner("pointer", namespace, pointer), identifier, places)

    def _follow_list(self, namespace: str, name: str, catalog: Catalog, *, again: Identifier | None = None) -> None:
        """Reads what is new in the list; now and then all of it, unless it is asked for the sake of one table."""
        found = {tuple(identifier) for identifier in table_identifiers(catalog)}
        with self._lock:
            listed = self._listed.setdefault((namespace, name), _Listed())
            for identifier in listed.known - found:
                self._index.remove(_Owner("list", namespace, name, identifier))
            listed.known &= found
            unread = {identifier for identifier in found if identifier not in listed.known or identifier == again}
            if again is None and time.monotonic() - listed.since > LISTED_SECONDS:
                listed.since, unread = time.monotonic(), found
        for identifier in unread:
            places = places_in(catalog, identifier)
            with self._lock:
                if places is not None:  # the catalog may have been forgotten meanwhile: what is in the index is listed
                    self._listed.setdefault((namespace, name), _Listed()).known.add(identifier)
                    self._index.put(_Owner("list", namespace, name, identifier), identifier, places)


def _creation(table: ManagedTable) -> _Owner:
    return _Owner("creation", table.metadata.namespace, pointer_name(table))


def _owners(table: ManagedTable) -> Collection[_Owner]:
    """What says of the table itself where it is."""
    namespace = table.metadata.namespace
    return (
        _creation(table),
        _Owner("pointer", namespace, pointer_name(table)),
        _Owner("object", *table.key),
        _Owner("list", namespace, table.spec.catalog_ref.name, table.identifier),
    )


def pointer_outline(obj: KubernetesObject) -> KubernetesObject:
    """What is remembered of a pointer: whose it is and where it leads."""
    metadata, data = obj["metadata"], obj.get("data") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
    return {
        "metadata": {"labels": metadata.get("labels") or {}, **{key: metadata[key] for key in kept if key in metadata}},
        "data": {key: data[key] for key in ("identifier", "metadata_location") if key in data},
    }
