"""PyIceberg's DynamoDB catalog, completed in the item layout of Iceberg's own Java `DynamoDbCatalog`.

Every write is conditional on the attribute `v`, which every change renews, as the Java catalog does; so engines on
the JVM and ours can work on the same tables at the same time. Nested namespaces are held as Java holds them, joined
by dots, and so no name may contain a dot.

One attribute is ours alone: the table's uuid. Java carries it along in its commits and renames, and items that Java
made get it with our first commit.
"""

import time
import uuid

import boto3
from botocore.config import Config
from pyiceberg.catalog import (
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    TABLE_TYPE,
    PropertiesUpdateSummary,
)
from pyiceberg.catalog.dynamodb import (
    DYNAMODB_ACCESS_KEY_ID,
    DYNAMODB_COL_CREATED_AT,
    DYNAMODB_COL_IDENTIFIER,
    DYNAMODB_COL_NAMESPACE,
    DYNAMODB_COL_UPDATED_AT,
    DYNAMODB_COL_VERSION,
    DYNAMODB_NAMESPACE,
    DYNAMODB_PROFILE_NAME,
    DYNAMODB_REGION,
    DYNAMODB_SECRET_ACCESS_KEY,
    DYNAMODB_SESSION_TOKEN,
    DYNAMODB_TABLE_NAME,
    DYNAMODB_TABLE_NAME_DEFAULT,
    PROPERTY_KEY_PREFIX,
    DynamoDbCatalog,
)
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import AWS_ACCESS_KEY_ID, AWS_REGION, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.utils.properties import get_first_property_value, property_as_bool
from typing_extensions import override

from tableformat.backoff import SMALL_WRITES, Backoff
from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.config import DYNAMODB_CREATE_TABLE, DYNAMODB_ENDPOINT, WAREHOUSE, required
from tableformat.catalogs.dynamodb_store import Item, ItemStore, text
from tableformat.catalogs.locations import folder_name
from tableformat.catalogs.namespace_properties import as_text
from tableformat.catalogs.outcomes import (
    CorruptCatalogEntryError,
    OutcomeUnknown,
    WriteOutcome,
    wait_or_give_up,
)
from tableformat.catalogs.pointer_catalog import PointerCatalog

TIMEOUT = "dynamodb.request-timeout-seconds"

_POINTER = PROPERTY_KEY_PREFIX + METADATA_LOCATION
_PREVIOUS = PROPERTY_KEY_PREFIX + PREVIOUS_METADATA_LOCATION
_TYPE = PROPERTY_KEY_PREFIX + TABLE_TYPE
_UUID = PROPERTY_KEY_PREFIX + "table-uuid"
_LONGEST_KEY = {DYNAMODB_COL_IDENTIFIER: 2048, DYNAMODB_COL_NAMESPACE: 1024}  # bytes: DynamoDB's own limits
_ICEBERG = "ICEBERG"
_JAVA_DEFAULT_LOCATION = "default_location"


class JavaLayoutDynamoDbCatalog(PointerCatalog, DynamoDbCatalog):
    def __init__(self, name: str, **properties: str) -> None:
        required(name, properties, WAREHOUSE)
        session = boto3.Session(
            profile_name=properties.get(DYNAMODB_PROFILE_NAME),
            region_name=get_first_property_value(properties, DYNAMODB_REGION, AWS_REGION),
            aws_access_key_id=get_first_property_value(properties, DYNAMODB_ACCESS_KEY_ID, AWS_ACCESS_KEY_ID),
            aws_secret_access_key=get_first_property_value(
                properties, DYNAMODB_SECRET_ACCESS_KEY, AWS_SECRET_ACCESS_KEY
            ),
            aws_session_token=get_first_property_value(properties, DYNAMODB_SESSION_TOKEN, AWS_SESSION_TOKEN),
        )
        timeout = float(properties.get(TIMEOUT, "30"))
        client = session.client(
            "dynamodb",
            endpoint_url=properties.get(DYNAMODB_ENDPOINT),
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=min(timeout, 10), read_timeout=timeout),
        )
        self._store = ItemStore(client, properties.get(DYNAMODB_TABLE_NAME, DYNAMODB_TABLE_NAME_DEFAULT))
        self._create_if_missing = property_as_bool(properties, DYNAMODB_CREATE_TABLE, False)
        super().__init__(name, client=client, **properties)

    def table_exists_in_dynamodb(self) -> bool:
        """Whether the DynamoDB table is there that holds the pointers."""
        return self._store.table_exists()

    @override
    def _ensure_catalog_table_exists_or_create(self) -> None:
        """Unlike PyIceberg's, creates nothing unless told to, and needs no permission for looking."""
        if self._create_if_missing:
            self._store.create_table_if_missing()

    @override
    def close(self) -> None:
        self.dynamodb.close()

    @override
    def namespace_identifier(self, namespace: str | Identifier, error: type[Exception] | None = None) -> Identifier:
        parts = super().namespace_identifier(namespace, error)
        _refuse_impossible_names(parts, DYNAMODB_COL_NAMESPACE, error or ValueError)
        return parts

    @override
    def table_identifier(self, identifier: str | Identifier, error: type[Exception] | None = None) -> Identifier:
        parts = super().table_identifier(identifier, error)
        _refuse_impossible_names(parts, DYNAMODB_COL_IDENTIFIER, error or ValueError)
        return parts

    # --- pointers

    @override
    def read_pointer(self, identifier: Identifier) -> Pointer | None:
        item = self._store.get(*_key(identifier))
        if item is None:
            return None
        holder = self._store.describe(*_key(identifier))
        kind, location, version = text(item, _TYPE), text(item, _POINTER), text(item, DYNAMODB_COL_VERSION)
        if kind is not None and kind.upper() != _ICEBERG:
            raise NoSuchIcebergTableError(f"{holder} is not an Iceberg table: its {_TYPE} is {kind!r}")
        for attribute, value in ((_TYPE, kind), (_POINTER, location), (DYNAMODB_COL_VERSION, version)):
            if value is None:
                raise CorruptCatalogEntryError(
                    f"{holder} has no attribute {attribute}, or not as text: put it back. Nothing was changed"
                )
        return Pointer(
            location=str(location),
            version=str(version),
            holder=holder,
            table_uuid=_uuid(holder, item),
            previous=text(item, _PREVIOUS),
        )

    @override
    def create_pointer(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        item: Item = {
            **_new_item(*_key(identifier)),
            _TYPE: {"S": _ICEBERG},
            _POINTER: {"S": location},
            _UUID: {"S": str(metadata.table_uuid)},
        }
        self._store.create(item)

    @override
    def swap_pointer(self, identifier: Identifier, expected: Pointer, location: str, metadata: TableMetadata) -> None:
        changes: Item = {
            _TYPE: {"S": _ICEBERG},
            _POINTER: {"S": location},
            _PREVIOUS: {"S": expected.location},
            _UUID: {"S": str(metadata.table_uuid)},
            **_renewed(),
        }
        self._store.update(*_key(identifier), changes, expected.version)

    @override
    def delete_pointer(self, identifier: Identifier, expected: Pointer) -> None:
        self._store.delete(*_key(identifier), expected.version)

    @override
    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        source, target = self.rename_identifiers(from_identifier, to_identifier)
        backoff, in_doubt, sent = Backoff(SMALL_WRITES), False, None
        while True:
            pointer, item = self.read_pointer(source), self._store.get(*_key(source))
            taken = self.read_pointer(target)
            if pointer is None or item is None:
                if in_doubt and taken is not None and sent is not None and taken.table_uuid == sent.table_uuid:
                    break  # the answer was lost, the rename was not
                raise NoSuchTableError(f"Table does not exist: {'.'.join(source)}")
            if taken is not None:
                raise TableAlreadyExistsError(f"Table {'.'.join(target)} already exists")
            sent = pointer
            identifier, namespace = _key(target)
            moved: Item = {
                **item,
                DYNAMODB_COL_IDENTIFIER: {"S": identifier},
                DYNAMODB_COL_NAMESPACE: {"S": namespace},
                **_renewed(),
            }
            try:
                self._store.move(*_key(source), pointer.version, moved)
                break
            except WriteOutcome as outcome:
                in_doubt = in_doubt or isinstance(outcome, OutcomeUnknown)
                wait_or_give_up(backoff, f"rename {'.'.join(source)} to {'.'.join(target)}", outcome)
        return self.load_table(target)

    @override
    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        self._require_namespace(name)
        return self._tables_in(name)

    def _tables_in(self, namespace: Identifier) -> list[Identifier]:
        keys = self._store.query(DYNAMODB_COL_NAMESPACE, ".".join(namespace))
        found = (str(key[DYNAMODB_COL_IDENTIFIER]["S"]) for key in keys)
        return sorted(tuple(identifier.split(".")) for identifier in found if identifier != DYNAMODB_NAMESPACE)

    @override
    def default_location(self, identifier: Identifier) -> str:
        java = self.load_namespace_properties(identifier[:-1]).get(_JAVA_DEFAULT_LOCATION)
        return f"{java.rstrip('/')}/{folder_name(identifier[-1])}" if java else super().default_location(identifier)

    # --- namespaces

    @override
    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        name, text = self.namespace_identifier(namespace), as_text(properties)
        if name[:-1]:
            self._require_namespace(name[:-1])
        item = {**_new_item(DYNAMODB_NAMESPACE, ".".join(name)), **_as_attributes(text)}
        backoff = Backoff(SMALL_WRITES)
        while True:
            found = self._store.get(DYNAMODB_NAMESPACE, ".".join(name))
            if found is not None:
                if found.get(DYNAMODB_COL_VERSION) == item[DYNAMODB_COL_VERSION]:
                    return  # the answer to an earlier attempt was lost, the namespace was not
                raise NamespaceAlreadyExistsError(f"Namespace {'.'.join(name)} already exists")
            try:
                self._store.create(item)
                return
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"create namespace {'.'.join(name)}", outcome)

    @override
    def drop_namespace(self, namespace: str | Identifier) -> None:
        name = self.namespace_identifier(namespace, NoSuchNamespaceError)
        backoff, in_doubt = Backoff(SMALL_WRITES), False
        while True:
            found = self._store.get(DYNAMODB_NAMESPACE, ".".join(name))
            if found is None:
                if in_doubt:
                    return  # the answer to an earlier attempt was lost, the deletion was not
                raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name)}")
            if self._tables_in(name) or self.list_namespaces(name):
                raise NamespaceNotEmptyError(f"Namespace {'.'.join(name)} is not empty")
            try:
                self._store.delete(DYNAMODB_NAMESPACE, ".".join(name), self._version(name, found))
                return
            except WriteOutcome as outcome:
                in_doubt = in_doubt or isinstance(outcome, OutcomeUnknown)
                wait_or_give_up(backoff, f"drop namespace {'.'.join(name)}", outcome)

    @override
    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        parent: Identifier = ()
        if namespace:
            parent = self.namespace_identifier(namespace, NoSuchNamespaceError)
            self._require_namespace(parent)
        items = self._store.query(DYNAMODB_COL_IDENTIFIER, DYNAMODB_NAMESPACE)
        names = (tuple(str(item[DYNAMODB_COL_NAMESPACE]["S"]).split(".")) for item in items)
        return sorted(name for name in names if name[:-1] == parent)

    @override
    def has_namespace(self, name: Identifier) -> bool:
        return self._store.get(DYNAMODB_NAMESPACE, ".".join(name)) is not None

    @override
    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        return _properties(self._namespace_item(self.namespace_identifier(namespace, NoSuchNamespaceError)))

    @override
    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        name, updates = self.namespace_identifier(namespace, NoSuchNamespaceError), as_text(updates)
        backoff = Backoff(SMALL_WRITES)
        first: PropertiesUpdateSummary | None = None
        while True:
            found = self._namespace_item(name)
            summary, updated = self._get_updated_props_and_update_summary(_properties(found), removals, updates)
            first = first or summary  # a repetition after a lost answer finds its own work done already
            kept = {key: value for key, value in found.items() if not key.startswith(PROPERTY_KEY_PREFIX)}
            try:
                self._store.replace({**kept, **_as_attributes(updated), **_renewed()}, self._version(name, found))
                return first
            except WriteOutcome as outcome:
                wait_or_give_up(backoff, f"change the properties of namespace {'.'.join(name)}", outcome)

    def _namespace_item(self, name: Identifier) -> Item:
        found = self._store.get(DYNAMODB_NAMESPACE, ".".join(name))
        if found is None:
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name)}")
        return found

    def _version(self, name: Identifier, item: Item) -> str:
        version = text(item, DYNAMODB_COL_VERSION)
        if version is None:
            raise CorruptCatalogEntryError(
                f"{self._store.describe(DYNAMODB_NAMESPACE, '.'.join(name))} has no attribute v: give it one, any new "
                "text. Nothing was changed"
            )
        return version


def _refuse_impossible_names(parts: Identifier, key: str, error: type[Exception]) -> None:
    for part in parts:
        if "." in part:
            raise error(f"A DynamoDB catalog joins names by dots, so the name {part!r} may not contain one")
    length, longest = len(".".join(parts).encode(errors="replace")), _LONGEST_KEY[key]
    if length > longest:
        raise error(f"A DynamoDB catalog has room for {longest} bytes of {key}, not for the {length} of {parts!r}")


def _uuid(holder: str, item: Item) -> uuid.UUID | None:
    if _UUID not in item:
        return None  # as Java made it
    try:
        return uuid.UUID(text(item, _UUID))
    except (TypeError, ValueError):
        raise CorruptCatalogEntryError(
            f"{holder} has an attribute {_UUID} that is no uuid: put back the table-uuid that the table's metadata "
            "has, or remove the attribute. Nothing was changed"
        ) from None


def _key(identifier: Identifier) -> tuple[str, str]:
    return ".".join(identifier), ".".join(identifier[:-1])


def _renewed() -> Item:
    return {
        DYNAMODB_COL_VERSION: {"S": str(uuid.uuid4())},
        DYNAMODB_COL_UPDATED_AT: {"N": str(time.time_ns() // 1_000_000)},
    }


def _new_item(identifier: str, namespace: str) -> Item:
    renewed = _renewed()
    return {
        DYNAMODB_COL_IDENTIFIER: {"S": identifier},
        DYNAMODB_COL_NAMESPACE: {"S": namespace},
        **renewed,
        DYNAMODB_COL_CREATED_AT: renewed[DYNAMODB_COL_UPDATED_AT],
    }


def _as_attributes(properties: Properties) -> Item:
    return {PROPERTY_KEY_PREFIX + key: {"S": value} for key, value in properties.items()}


def _properties(item: Item) -> Properties:
    return {
        key.removeprefix(PROPERTY_KEY_PREFIX): str(value.get("S", ""))
        for key, value in item.items()
        if key.startswith(PROPERTY_KEY_PREFIX)
    }
