"""The catalog whose pointers live in ConfigMaps: one object a table, one a namespace, swapped by `resourceVersion`.

Every object carries labels, so that a table's commit is a watch event that one label selector catches.
"""

import json
import uuid
from collections.abc import Mapping

from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchNamespaceError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from typing_extensions import override

from tableformat.backoff import SMALL_WRITES, Backoff
from tableformat.catalogs import configmap_records as records
from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.config import (
    CONFIGMAP_CONTEXT,
    CONFIGMAP_KUBECONFIG,
    CONFIGMAP_NAMESPACE,
    WAREHOUSE,
    required,
)
from tableformat.catalogs.configmap_tables import TableObjects
from tableformat.catalogs.kube_store import ConfigMap, ConfigMapStore, connect
from tableformat.catalogs.namespace_properties import as_text
from tableformat.catalogs.naming import KIND_NAMESPACE, labels_of, object_name
from tableformat.catalogs.outcomes import OutcomeUnknown, WriteOutcome, wait_or_give_up
from tableformat.catalogs.pointer_catalog import PointerCatalog

TIMEOUT = "configmap.request-timeout-seconds"


class ConfigMapCatalog(PointerCatalog):
    def __init__(self, name: str, **properties: str) -> None:
        _, namespace = required(name, properties, WAREHOUSE, CONFIGMAP_NAMESPACE)
        super().__init__(name, **properties)
        timeout = float(properties.get(TIMEOUT, "30"))
        api = connect(properties.get(CONFIGMAP_KUBECONFIG), properties.get(CONFIGMAP_CONTEXT))
        self._store = ConfigMapStore(api, namespace, timeout_seconds=timeout)
        self._tables = TableObjects(self._store, name)

    @override
    def close(self) -> None:
        self._store.close()

    # --- pointers

    @override
    def read_pointer(self, identifier: Identifier) -> Pointer | None:
        return self._tables.read(identifier)

    @override
    def listed_pointers(self, namespace: Identifier) -> Mapping[Identifier, Pointer | None]:
        self._require_namespace(namespace)
        return dict(self._tables.list(namespace))

    @override
    def create_pointer(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        self._tables.create(identifier, location, metadata.table_uuid)

    @override
    def swap_pointer(self, identifier: Identifier, expected: Pointer, location: str, metadata: TableMetadata) -> None:
        self._tables.swap(identifier, expected, location, metadata.table_uuid)

    @override
    def delete_pointer(self, identifier: Identifier, expected: Pointer) -> None:
        self._tables.delete(identifier, expected)

    @override
    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        source, target = self.rename_identifiers(from_identifier, to_identifier)
        self._tables.rename(source, target)
        return self.load_table(target)

    @override
    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        return sorted(self.listed_pointers(self.namespace_identifier(namespace, NoSuchNamespaceError)))

    # --- namespaces

    @override
    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        name, text = self.namespace_identifier(namespace), as_text(properties)
        if name[:-1]:
            self._require_namespace(name[:-1])
        creation, backoff = uuid.uuid4().hex, Backoff(SMALL_WRITES)
        wanted = ConfigMap(
            name=object_name(self.name, KIND_NAMESPACE, name),
            labels=labels_of(self.name, KIND_NAMESPACE, name[:-1]),
            data={
                records.IDENTIFIER: json.dumps(list(name), ensure_ascii=False),
                records.PROPERTIES: json.dumps(text, ensure_ascii=False, sort_keys=True),
                records.CREATION: creation,
            },
        )
        while True:
            found = self._find_namespace(name)
            if found is not None:
                if found.data.get(records.CREATION) == creation:
                    return  # the answer to an earlier attempt was lost, the namespace was not
                raise NamespaceAlreadyExistsError(f"Namespace {'.'.join(name)} already exists")
            try:
                self._store.create(wanted)
                return
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"create namespace {'.'.join(name)}", outcome)

    @override
    def drop_namespace(self, namespace: str | Identifier) -> None:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        backoff, in_doubt = Backoff(SMALL_WRITES), False
        while True:
            found = self._find_namespace(name)
            if found is None:
                if in_doubt:
                    return  # the answer to an earlier attempt was lost, the deletion was not
                raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name)}")
            if self._tables.occupied(name) or self._children(name):
                raise NamespaceNotEmptyError(f"Namespace {'.'.join(name)} is not empty")
            try:
                self._store.delete(found)
                return
            except WriteOutcome as outcome:
                in_doubt = in_doubt or isinstance(outcome, OutcomeUnknown)
                wait_or_give_up(backoff, f"drop namespace {'.'.join(name)}", outcome)

    @override
    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        if not namespace:
            found = self._children(())
            if not found:
                self._store.require_namespace()
            return found
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        self._require_namespace(name)
        return self._children(name)

    @override
    def has_namespace(self, name: Identifier) -> bool:
        return self._find_namespace(name) is not None

    @override
    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        found = self._find_namespace(name)
        if found is None:
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name)}")
        return records.parse_properties(self._store.describe(found.name), found.data)

    @override
    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        name, updates = self.namespace_identifier(namespace, NoSuchNamespaceError), as_text(updates)
        backoff = Backoff(SMALL_WRITES)
        first: PropertiesUpdateSummary | None = None
        while True:
            found = self._find_namespace(name)
            if found is None:
                raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name)}")
            current = records.parse_properties(self._store.describe(found.name), found.data)
            summary, updated = self._get_updated_props_and_update_summary(current, removals, updates)
            first = first or summary  # a repetition after a lost answer finds its own work done already
            text = json.dumps(updated, ensure_ascii=False, sort_keys=True)
            try:
                self._store.replace(found, {**found.data, records.PROPERTIES: text})
                return first
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"change the properties of namespace {'.'.join(name)}", outcome)

    def _find_namespace(self, name: Identifier) -> ConfigMap | None:
        found = self._store.get(object_name(self.name, KIND_NAMESPACE, name))
        if found is not None:
            records.parse_identifier(self._store.describe(found.name), found.data, name)
        return found

    def _children(self, parent: Identifier) -> list[Identifier]:
        found = self._store.list(labels_of(self.name, KIND_NAMESPACE, parent))
        return sorted(records.parse_identifier(self._store.describe(item.name), item.data) for item in found)
