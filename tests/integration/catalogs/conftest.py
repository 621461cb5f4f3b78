"""Every catalog of ours on its real server, each test with a namespace, database or table of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import (
    CatalogConfig,
    ConfigMapConfig,
    DynamoDbConfig,
    PyIcebergConfig,
    SqlConfig,
    open_catalog,
)
from tests.conftest import unique
from tests.servers.databases import DatabaseAccess
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess

DATABASES = ("postgresql", "mariadb")
KINDS = ("configMap", "dynamoDB", "sql", "in-memory", *DATABASES)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def configuration(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> CatalogConfig:
    warehouse = f"file://{tmp_path}/warehouse"
    if kind == "configMap":
        kubernetes: KubernetesAccess = request.getfixturevalue("kubernetes")
        namespace: str = request.getfixturevalue("kube_namespace")
        return ConfigMapConfig(
            name="lake", warehouse=warehouse, namespace=namespace, kubeconfig=str(kubernetes.kubeconfig)
        )
    if kind == "dynamoDB":
        dynamodb: DynamoDbAccess = request.getfixturevalue("dynamodb")
        return DynamoDbConfig(
            name="lake",
            warehouse=warehouse,
            table_name=unique("catalog"),
            region=dynamodb.region,
            endpoint=dynamodb.endpoint,
            create_table=True,
            properties={
                "dynamodb.access-key-id": dynamodb.access_key,
                "dynamodb.secret-access-key": dynamodb.secret_key,
            },
        )
    if kind in DATABASES:
        server: DatabaseAccess = request.getfixturevalue(kind)
        url = server.new_database(unique("lake").replace("-", "_"))
        return SqlConfig(name="lake", uri=url.render_as_string(hide_password=False), warehouse=warehouse)
    if kind == "sql":
        return SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)
    return PyIcebergConfig(name="lake", properties={"type": "in-memory", "warehouse": warehouse})


@pytest.fixture
def open_one(configuration: CatalogConfig) -> Iterator[Callable[[], Catalog]]:
    """Opens the test's catalog once more, as another process would; closes what it opened."""
    opened: list[Catalog] = []

    def open_it() -> Catalog:
        opened.append(open_catalog(configuration))
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


@pytest.fixture
def catalog(open_one: Callable[[], Catalog]) -> Catalog:
    """The catalog, with the namespace `db` in it."""
    opened = open_one()
    opened.create_namespace("db")
    return opened
