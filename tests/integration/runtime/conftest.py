"""A namespace with a ConfigMap catalog on a local warehouse, and operators that a test starts in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from pyiceberg.catalog import Catalog

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tests.operators import INSTALL, Namespace, OperatorProcesses, operators
from tests.servers.kubernetes import KubernetesAccess, kubectl

COLUMNS = [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}]


def spec(name: str, **changes: Any) -> dict[str, Any]:
    identifier = {"namespace": "sales", "name": name}
    return {"catalogRef": {"name": "lake"}, "identifier": identifier, "schema": {"columns": COLUMNS}, **changes}


@pytest.fixture
def namespace(crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, tmp_path: Path) -> Namespace:
    objects = Namespace(crds, kube_api, kube_namespace)
    kubectl(crds, "apply", "-n", kube_namespace, "-f", str(INSTALL / "jobs.yaml"))
    objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": f"file://{tmp_path}/warehouse"})
    return objects


@pytest.fixture
def processes(namespace: Namespace, tmp_path: Path) -> Iterator[OperatorProcesses]:
    with operators(namespace.access.kubeconfig, namespace.name, tmp_path / "operator.log") as started:
        yield started


@pytest.fixture
def catalog(namespace: Namespace, tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(
        ConfigMapConfig(
            name="lake",
            warehouse=f"file://{tmp_path}/warehouse",
            namespace=namespace.name,
            kubeconfig=str(namespace.access.kubeconfig),
        )
    )
    yield opened
    opened.close()
