"""What is particular to pointers in DynamoDB: the layout that Java shares, permissions, throttling, edits by hand."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchTableError

from tableformat.catalogs import (
    CatalogAccessError,
    CorruptCatalogEntryError,
    DynamoDbConfig,
    open_catalog,
    open_existing,
)
from tests.conftest import unique
from tests.integration.catalogs.test_tables import SCHEMA, ids, rows
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.proxy import Answer, Break, Fault, FaultProxy, Request


@pytest.fixture
def config(dynamodb: DynamoDbAccess, tmp_path: Path) -> DynamoDbConfig:
    return DynamoDbConfig(
        name="lake",
        warehouse=f"file://{tmp_path}/warehouse",
        table_name=unique("catalog"),
        region=dynamodb.region,
        endpoint=dynamodb.endpoint,
        create_table=True,
        properties={
            "dynamodb.access-key-id": dynamodb.access_key,
            "dynamodb.secret-access-key": dynamodb.secret_key,
        },
    )


@pytest.fixture
def catalog(config: DynamoDbConfig) -> Iterator[Catalog]:
    with open_catalog(config) as opened:
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def item(dynamodb: DynamoDbAccess, config: DynamoDbConfig) -> Iterator[Callable[[], dict[str, Any]]]:
    database = dynamodb.client()

    def read() -> dict[str, Any]:
        key = {"identifier": {"S": "db.t"}, "namespace": {"S": "db"}}
        found: dict[str, Any] = dict(
            database.get_item(TableName=config.table_name, Key=key, ConsistentRead=True)["Item"]
        )
        return found

    yield read
    database.close()


def test_items_are_as_the_java_catalog_writes_them_and_have_the_tables_uuid(
    catalog: Catalog, item: Callable[[], dict[str, Any]]
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    created = item()
    assert set(created) == {
        "identifier", "namespace", "v", "created_at", "updated_at", "p.table_type", "p.metadata_location",
        "p.table-uuid",
    }  # fmt: skip
    assert created["p.table-uuid"] == {"S": str(table.metadata.table_uuid)}
    assert created["p.table_type"] == {"S": "ICEBERG"}
    assert created["created_at"] == created["updated_at"]
    before = table.metadata_location
    table.append(rows(1))
    now = item()
    assert now["p.metadata_location"] == {"S": table.metadata_location}
    assert now["p.previous_metadata_location"] == {"S": before}
    assert now["v"] != created["v"]
    assert now["created_at"] == created["created_at"]
    assert table.location().endswith("/db.db/t")


def test_attributes_that_other_engines_put_there_survive_a_commit_and_a_rename(
    catalog: Catalog, config: DynamoDbConfig, dynamodb: DynamoDbAccess, item: Callable[[], dict[str, Any]]
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    _put(dynamodb, config, {**item(), "p.owner": {"S": "sales"}})
    table.append(rows(1))
    catalog.rename_table("db.t", "db.u")
    catalog.rename_table("db.u", "db.t")
    assert item()["p.owner"] == {"S": "sales"}


def test_a_table_is_created_with_on_demand_billing_only_if_told_to(
    config: DynamoDbConfig, dynamodb: DynamoDbAccess
) -> None:
    missing = config.model_copy(update={"create_table": False})
    with (
        open_catalog(missing) as catalog,
        pytest.raises(CatalogAccessError, match=f"no DynamoDB table {config.table_name}"),
    ):
        catalog.create_namespace("db")
    with open_catalog(config) as catalog:
        catalog.create_namespace("db")
    database = dynamodb.client()
    described = database.describe_table(TableName=config.table_name)["Table"]
    database.close()
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    with open_catalog(missing) as catalog:
        assert catalog.list_namespaces() == [("db",)]


def test_whoever_only_looks_creates_no_table_though_the_catalog_may(
    config: DynamoDbConfig, dynamodb: DynamoDbAccess
) -> None:
    assert open_existing(config) is None
    database = dynamodb.client()
    with pytest.raises(database.exceptions.ResourceNotFoundException):
        database.describe_table(TableName=config.table_name)
    database.close()
    open_catalog(config).close()
    found = open_existing(config)
    assert found is not None
    with found:
        assert found.list_namespaces() == []


def test_names_with_dots_are_refused_because_java_joins_names_by_them(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="may not contain one"):
        catalog.create_table(("db", "a.b"), SCHEMA)
    with pytest.raises(ValueError, match="may not contain one"):
        catalog.create_namespace(("a.b",))
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("db", "a.b"))


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_throttling_is_waited_out(catalog: Catalog, config: DynamoDbConfig, code: str) -> None:
    catalog.create_table("db.t", SCHEMA)
    with FaultProxy(str(config.endpoint)) as proxy:
        for action in ("GetItem", "UpdateItem"):
            proxy.faults.append(Fault(_calls(action), Answer(400, content=_error(code)), times=2))
        with open_catalog(config.model_copy(update={"endpoint": proxy.url})) as throttled:
            throttled.load_table("db.t").append(rows(1))
        assert [fault.struck for fault in proxy.faults] == [2, 2]
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_missing_permission_is_named(catalog: Catalog, config: DynamoDbConfig) -> None:
    before = catalog.create_table("db.t", SCHEMA)
    with FaultProxy(str(config.endpoint)) as proxy:
        proxy.faults.append(
            Fault(_calls("UpdateItem"), Answer(400, content=_error("AccessDeniedException")), times=None)
        )
        with (
            open_catalog(config.model_copy(update={"endpoint": proxy.url})) as forbidden,
            pytest.raises(CatalogAccessError, match=f"dynamodb:UpdateItem on table {config.table_name}"),
        ):
            forbidden.load_table("db.t").append(rows(1))
    assert catalog.load_table("db.t").metadata_location == before.metadata_location


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("AccessDeniedException", "forbids dynamodb:PutItem and dynamodb:DeleteItem on table"),
        ("ExpiredTokenException", "renew or correct them"),
    ],
)
def test_a_refused_rename_says_what_it_takes(catalog: Catalog, config: DynamoDbConfig, code: str, message: str) -> None:
    catalog.create_table("db.t", SCHEMA)
    with FaultProxy(str(config.endpoint)) as proxy:
        proxy.faults.append(Fault(_calls("TransactWriteItems"), Answer(400, content=_error(code))))
        with (
            open_catalog(config.model_copy(update={"endpoint": proxy.url})) as forbidden,
            pytest.raises(CatalogAccessError, match=message),
        ):
            forbidden.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == [("db", "t")]


@pytest.mark.parametrize("action", [Break.CUT_AFTER, Break.CUT_BEFORE, Answer(500), Answer(503, applied=True)], ids=str)
def test_a_rename_survives_a_break(catalog: Catalog, config: DynamoDbConfig, action: Break | Answer) -> None:
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    with FaultProxy(str(config.endpoint)) as proxy:
        proxy.faults.append(Fault(_calls("TransactWriteItems"), action))
        with open_catalog(config.model_copy(update={"endpoint": proxy.url})) as broken:
            broken.rename_table("db.t", "db.u")
        assert proxy.faults[0].struck == 1
    assert catalog.list_tables("db") == [("db", "u")]
    assert ids(catalog.load_table("db.u")) == [1]


def test_a_rename_whose_answer_is_lost_takes_no_other_table_for_its_own(
    catalog: Catalog, config: DynamoDbConfig
) -> None:
    catalog.create_table("db.t", SCHEMA)

    def others_take_both_names(request: Request) -> bool:
        if not _calls("TransactWriteItems")(request):
            return False
        catalog.drop_table("db.t")
        catalog.create_table("db.u", SCHEMA)
        return True

    with FaultProxy(str(config.endpoint)) as proxy:
        proxy.faults.append(Fault(others_take_both_names, Break.CUT_BEFORE))
        with (
            open_catalog(config.model_copy(update={"endpoint": proxy.url})) as broken,
            pytest.raises(NoSuchTableError),
        ):
            broken.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == [("db", "u")]


EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], type[Exception], str]] = {
    "pointer-missing": (
        lambda item: item.pop("p.metadata_location"), CorruptCatalogEntryError, r"no attribute p\.metadata_location",
    ),
    "pointer-a-number": (
        lambda item: item.update({"p.metadata_location": {"N": "1"}}), CorruptCatalogEntryError, "or not as text",
    ),
    "pointer-dangling": (
        lambda item: item.update({"p.metadata_location": {"S": "file:///nowhere.metadata.json"}}),
        CorruptCatalogEntryError,
        "does not exist",
    ),
    "version-missing": (lambda item: item.pop("v"), CorruptCatalogEntryError, "no attribute v"),
    "type-missing": (lambda item: item.pop("p.table_type"), CorruptCatalogEntryError, r"no attribute p\.table_type"),
    "type-of-another": (
        lambda item: item.update({"p.table_type": {"S": "HUDI"}}), NoSuchIcebergTableError, "not an Iceberg table",
    ),
    "uuid-malformed": (
        lambda item: item.update({"p.table-uuid": {"S": "x"}}), CorruptCatalogEntryError, "that is no uuid",
    ),
    "uuid-a-number": (
        lambda item: item.update({"p.table-uuid": {"N": "1"}}), CorruptCatalogEntryError, "that is no uuid",
    ),
    "uuid-of-another": (
        lambda item: item.update({"p.table-uuid": {"S": str(uuid4())}}),
        CorruptCatalogEntryError,
        "is metadata of the table",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "error", "message"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_item_is_named_with_what_is_wrong_and_left_as_it_is(
    catalog: Catalog,
    config: DynamoDbConfig,
    dynamodb: DynamoDbAccess,
    item: Callable[[], dict[str, Any]],
    edit: Callable[[dict[str, Any]], object],
    error: type[Exception],
    message: str,
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    edited = item()
    edit(edited)
    _put(dynamodb, config, edited)
    attempts: list[Callable[[], object]] = [
        lambda: catalog.load_table("db.t"),
        lambda: table.append(rows(2)),
    ]
    for attempt in attempts:
        with pytest.raises(error, match=message) as raised:
            attempt()
        assert f"item identifier='db.t' namespace='db' of DynamoDB table {config.table_name}" in str(raised.value)
    assert item() == edited


@pytest.mark.parametrize("by_java", [False, True])
def test_an_item_that_points_to_another_tables_metadata_is_named_and_left_as_it_is(
    catalog: Catalog,
    config: DynamoDbConfig,
    dynamodb: DynamoDbAccess,
    item: Callable[[], dict[str, Any]],
    by_java: bool,
) -> None:
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    other = catalog.create_table("db.other", SCHEMA)
    other.append(rows(2))
    edited = {**item(), "p.metadata_location": {"S": other.metadata_location}}
    if by_java:  # which keeps no uuid, but what it led to before
        del edited["p.table-uuid"]
    _put(dynamodb, config, edited)
    with pytest.raises(CorruptCatalogEntryError, match="is metadata of the table"):
        catalog.load_table("db.t")
    assert item() == edited
    assert ids(catalog.load_table("db.other")) == [2]


def test_an_item_that_java_made_gets_the_tables_uuid_with_our_first_commit(
    catalog: Catalog, config: DynamoDbConfig, dynamodb: DynamoDbAccess, item: Callable[[], dict[str, Any]]
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    _put(dynamodb, config, {key: value for key, value in item().items() if key != "p.table-uuid"})
    catalog.load_table("db.t").append(rows(1))
    assert item()["p.table-uuid"] == {"S": str(table.metadata.table_uuid)}


def _put(dynamodb: DynamoDbAccess, config: DynamoDbConfig, item: dict[str, Any]) -> None:
    database = dynamodb.client()
    database.put_item(TableName=config.table_name, Item=item)
    database.close()


def _calls(action: str) -> Callable[[Request], bool]:
    return lambda request: request.headers.get("x-amz-target", "").endswith(f".{action}")


def _error(code: str) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}).encode()
