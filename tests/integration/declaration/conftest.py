"""Every catalog that declarations are applied through, on its real server, with a place of the test's own."""

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
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess

REACHABLE_BY_OTHERS = ["configMap", "dynamoDB", "sql"]
"""The catalogs in which somebody else can be at work; one in memory belongs to one thread."""


@pytest.fixture(params=[*REACHABLE_BY_OTHERS, "in-memory"])
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogConfig:
    warehouse = f"file://{tmp_path}/warehouse"
    match request.param:
        case "configMap":
            kubernetes: KubernetesAccess = request.getfixturevalue("kubernetes")
            namespace: str = request.getfixturevalue("kube_namespace")
            return ConfigMapConfig(
                name="lake", warehouse=warehouse, namespace=namespace, kubeconfig=str(kubernetes.kubeconfig)
            )
        case "dynamoDB":
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
        case "sql":
            return SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)
    return PyIcebergConfig(name="lake", properties={"type": "in-memory", "warehouse": warehouse})


@pytest.fixture
def open_another(configuration: CatalogConfig) -> Iterator[Callable[[], Catalog]]:
    """Opens the same catalog once more, as another process would. One in memory has no other."""
    opened: list[Catalog] = []

    def open_it() -> Catalog:
        if not opened or configuration.type != "pyiceberg":
            opened.append(open_catalog(configuration))
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


@pytest.fixture
def catalog(open_another: Callable[[], Catalog]) -> Catalog:
    return open_another()
