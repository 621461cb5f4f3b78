"""Where the tables of a catalog are, without loading each of them whenever one is created.

Two tables must never share a place, so a new one is compared with all others. A metadata file never changes: what it
says of places is remembered, and only tables that moved on since are loaded. The pointers of ConfigMap catalogs are
watched anyway; other catalogs are asked for theirs.
"""

import json
import logging
from collections.abc import Iterator

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.metadata import TableMetadata

from tableformat.catalogs.naming import KIND_TABLE, LABEL_CATALOG, labels_of
from tableformat.declaration import TableLocation, table_locations
from tableformat.declaration.locations import places_of
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import KubernetesObject
from tablewright.runtime.store import ObjectStore

POINTER = "ConfigMap"

logger = logging.getLogger(__name__)


class KnownLocations:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._places: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}  # by pointer: metadata file, places

    def learn(self, namespace: str, pointer: str, metadata_location: str, metadata: TableMetadata) -> None:
        self._places[namespace, pointer] = (metadata_location, places_of(metadata.location, metadata.properties))

    def of(self, namespace: str, name: str, catalog: Catalog) -> Iterator[TableLocation]:
        """The places of every table of a TableCatalog."""
        declared = self._store.get(TableCatalog.kind_name, namespace, name)
        if declared is None or (declared.get("spec") or {}).get("configMap") is None:
            yield from table_locations(catalog)
            return
        label = labels_of(name, KIND_TABLE, ())[LABEL_CATALOG]
        for pointer in self._store.list(POINTER, namespace):
            if pointer["metadata"]["labels"].get(LABEL_CATALOG) == label:
                yield from self._of_pointer(namespace, pointer, catalog)

    def _of_pointer(self, namespace: str, pointer: KubernetesObject, catalog: Catalog) -> Iterator[TableLocation]:
        name, data = pointer["metadata"]["name"], pointer["data"]
        try:
            identifier = tuple(json.loads(data["identifier"]))
            known = self._places.get((namespace, name))
            if known is None or known[0] != data.get("metadata_location"):
                loaded = catalog.load_table(identifier)
                self.learn(namespace, name, loaded.metadata_location, loaded.metadata)
        except NoSuchTableError:  # dropped meanwhile
            self._places.pop((namespace, name), None)
            return
        except Exception as error:  # one table that cannot be read must not keep all others from being created
            logger.warning("location of ConfigMap %s/%s not compared, it cannot be loaded: %s", namespace, name, error)
            return
        for place in self._places[namespace, name][1]:
            yield TableLocation(identifier, place)


def pointer_outline(obj: KubernetesObject) -> KubernetesObject:
    """What is remembered of a pointer: whose it is and where it leads."""
    metadata, data = obj["metadata"], obj.get("data") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
    return {
        "metadata": {"labels": metadata.get("labels") or {}, **{key: metadata[key] for key in kept if key in metadata}},
        "data": {key: data[key] for key in ("identifier", "metadata_location") if key in data},
    }
