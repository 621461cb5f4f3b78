"""Which objects claim which table, by the name that the table's pointer has in a ConfigMap catalog.

That name is a function of catalog and identifier, whatever kind of catalog it is, so it serves as the table's key.
"""

import threading
from collections import defaultdict

from tableformat.catalogs.naming import KIND_TABLE, object_name
from tablewright.api.objects import KubernetesObject
from tablewright.api.outline import table_outline
from tablewright.api.table import ManagedTable


class Claims:
    def __init__(self) -> None:
        self._claimants: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._claims: dict[tuple[str, str], tuple[str, str]] = {}
        self._lock = threading.Lock()

    def put(self, obj: KubernetesObject) -> None:
        table = table_outline(obj)
        if table is None:
            return  # its pass says so
        claim = (table.metadata.namespace, pointer_name(table))
        with self._lock:
            self._forget(table.key)
            self._claims[table.key] = claim
            self._claimants[claim].add(table.metadata.name)

    def remove(self, obj: KubernetesObject) -> None:
        with self._lock:
            self._forget((obj["metadata"]["namespace"], obj["metadata"]["name"]))

    def claimants(self, namespace: str, pointer: str) -> list[str]:
        """The names of the objects that claim the table with this pointer."""
        with self._lock:
            return sorted(self._claimants.get((namespace, pointer), ()))

    def _forget(self, key: tuple[str, str]) -> None:
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._claimants[claim].discard(key[1])
            if not self._claimants[claim]:
                del self._claimants[claim]


def pointer_name(table: ManagedTable) -> str:
    return object_name(table.spec.catalog_ref.name, KIND_TABLE, table.identifier)
