"""The operator with catalogs that tell nobody of commits, and are polled: DynamoDB, its keys in a Secret, and SQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kubernetes import client
from pyiceberg.catalog import Catalog

from tableformat.catalogs import CatalogConfig, DynamoDbConfig, SqlConfig, open_catalog
from tests.conftest import unique
from tests.integration.runtime.conftest import COLUMNS, spec
from tests.operators import Namespace, OperatorProcesses
from tests.servers.dynamodb import DynamoDbAccess
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")


class Place:
    """A catalog's declaration, which the operator gets, and the same catalog for the test itself."""

    def __init__(self, declared: dict[str, Any], config: CatalogConfig) -> None:
        self.declared, self._config = declared, config

    def open(self) -> Catalog:
        return open_catalog(self._config)


@pytest.fixture(params=["dynamoDB", "sql"])
def place(
    request: pytest.FixtureRequest, namespace: Namespace, kube_api: client.ApiClient, tmp_path: Path
) -> Iterator[Place]:
    warehouse = f"file://{tmp_path}/polled"
    if request.param == "sql":
        uri = f"sqlite:///{tmp_path}/catalog.db"
        yield Place(
            {"sql": {"uri": uri}, "warehouse": warehouse}, SqlConfig(name="polled", uri=uri, warehouse=warehouse)
        )
        return
    server: DynamoDbAccess = request.getfixturevalue("dynamodb")
    keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    secret = {"metadata": {"name": "keys"}, "stringData": keys}
    client.CoreV1Api(kube_api).create_namespaced_secret(namespace.name, secret)
    table = unique("catalog")
    dynamo = {"tableName": table, "region": server.region, "endpoint": server.endpoint, "createTable": True}
    storage = {"credentialsSecretRef": {"name": "keys"}}
    config = DynamoDbConfig(
        name="polled",
        warehouse=warehouse,
        table_name=table,
        region=server.region,
        endpoint=server.endpoint,
        create_table=True,
        properties={"dynamodb.access-key-id": server.access_key, "dynamodb.secret-access-key": server.secret_key},
    )
    yield Place({"dynamoDB": dynamo, "warehouse": warehouse, "storage": storage}, config)


def ready(namespace: Namespace, name: str) -> dict[str, Any]:
    eventually(lambda: namespace.conditions(name), lambda c: c.get("InSync") == "True/AsDeclared", seconds=180)
    return namespace.status(name)


def test_a_table_is_created_evolved_watched_and_purged_in_a_catalog_that_is_polled(
    namespace: Namespace, processes: OperatorProcesses, place: Place
) -> None:
    namespace.apply("TableCatalog", "polled", place.declared)
    processes.start("--poll-seconds", "3")
    whole = spec("events", catalogRef={"name": "polled"}, deletionPolicy="Purge")
    namespace.apply("ManagedTable", "events", whole)
    ready(namespace, "events")
    catalog = place.open()
    table = catalog.load_table(("sales", "events"))
    namespace.apply("ManagedTable", "events", whole | {"schema": {"columns": [*COLUMNS, {"name": "n", "type": "int"}]}})
    eventually(lambda: table.refresh().schema().column_names, lambda names: names == ["id", "city", "n"])
    table.append(pa.table({"id": [1], "city": ["Pune"], "n": pa.array([None], pa.int32())}))
    health = eventually(lambda: namespace.status("events")["health"], lambda h: h["records"] == 1, seconds=45)
    assert health["dataFiles"] == 1, "nobody told of the commit; the pointer was looked at"
    folder = Path(table.location().removeprefix("file://"))
    namespace.delete("managedtable", "events")
    eventually(lambda: namespace.table("events"), lambda obj: obj is None, seconds=180)
    assert not catalog.table_exists(("sales", "events"))
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    catalog.close()


@pytest.mark.parametrize("place", ["dynamoDB"], indirect=True)  # in SQL the catalog's name is part of a table's
def test_one_table_that_two_catalogs_lead_to_is_the_older_objects_and_survives_the_younger(
    namespace: Namespace, processes: OperatorProcesses, place: Place
) -> None:
    """The younger would evolve it to a declaration of its own, and purge it when it is deleted."""
    namespace.apply("TableCatalog", "polled", place.declared)
    namespace.apply("TableCatalog", "alias", place.declared)
    processes.start()
    namespace.apply("ManagedTable", "first", spec("shared", catalogRef={"name": "polled"}))
    uuid = ready(namespace, "first")["identity"]["uuid"]
    columns = [*COLUMNS, {"name": "usurped", "type": "int"}]
    usurper = spec("shared", catalogRef={"name": "alias"}, deletionPolicy="Purge", schema={"columns": columns})
    namespace.apply("ManagedTable", "second", usurper)
    eventually(
        lambda: namespace.conditions("second"), lambda c: c.get("Ready") == "False/ClaimedByAnother", seconds=180
    )
    assert namespace.conditions("first")["InSync"] == "True/AsDeclared"
    namespace.delete("managedtable", "second")
    eventually(lambda: namespace.table("second"), lambda obj: obj is None, seconds=180)
    catalog = place.open()
    table = catalog.load_table(("sales", "shared"))
    assert str(table.metadata.table_uuid) == uuid
    assert table.schema().column_names == ["id", "city"]
    catalog.close()


def test_two_that_are_declared_at_once_for_one_place_are_never_both_created(
    namespace: Namespace, processes: OperatorProcesses, place: Place, tmp_path: Path
) -> None:
    namespace.apply("TableCatalog", "polled", place.declared)
    names = [f"t{number}" for number in range(6)]
    for number, name in enumerate(names):
        location = f"file://{tmp_path}/one/place" + ("/inside" if number % 2 else "")
        catalog = "polled" if number % 3 else "lake"  # of different catalogs, too
        namespace.apply("ManagedTable", name, spec(name, catalogRef={"name": catalog}, location=location))
    processes.start("--concurrency", "6")
    said = eventually(
        lambda: [namespace.conditions(name).get("InSync") for name in names],
        lambda found: None not in found,
        seconds=60,
    )
    assert sorted(map(str, said)) == ["False/Refused"] * 5 + ["True/AsDeclared"]
    [winner] = [name for name, condition in zip(names, said, strict=True) if condition == "True/AsDeclared"]
    assert namespace.conditions(winner)["Ready"] == "True/Available"
    [loser] = [name for name in names if name != winner][:1]
    assert "overlaps" in str(namespace.status(loser)["conditions"])
