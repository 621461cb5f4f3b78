"""From a watched object to the keys of the work that it may change. Nothing is decided here."""

import threading
from collections import defaultdict

from tableformat.catalogs.naming import KIND_TABLE, object_name
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import InvalidObjectError, KubernetesObject, parse
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.runtime.reconciler import Key
from tablewright.runtime.store import ObjectStore


class EventRouter:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._tables_by_pointer: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        self._lock = threading.Lock()

    def keys_of(self, kind: str, obj: KubernetesObject) -> list[Key]:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if kind == ManagedTable.kind_name:
            key = Key(kind, namespace, name)
            self._remember_pointer(key, obj)
            return [key]
        if kind == TableCatalog.kind_name:
            tables = self._store.list(ManagedTable.kind_name, namespace)
            return [Key(ManagedTable.kind_name, namespace, table["metadata"]["name"]) for table in tables]
        if kind == MaintenanceRun.kind_name:
            table = Key(ManagedTable.kind_name, namespace, obj["spec"]["tableRef"]["name"])
            return [Key(kind, namespace, name), table]
        if kind == "Job":  # named as its run
            return [Key(MaintenanceRun.kind_name, namespace, name)]
        with self._lock:  # a ConfigMap: somebody committed to a table
            return list(self._tables_by_pointer.get((namespace, name), ()))

    def _remember_pointer(self, key: Key, obj: KubernetesObject) -> None:
        """In which ConfigMap the table's pointer would be; its name is a function of the table's."""
        try:
            table = parse(ManagedTable, obj)
        except InvalidObjectError:
            return  # its pass says so
        pointer = object_name(table.spec.catalog_ref.name, KIND_TABLE, table.identifier)
        with self._lock:
            self._tables_by_pointer[key.namespace, pointer].add(key)
