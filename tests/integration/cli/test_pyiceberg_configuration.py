"""Catalogs of ours that PyIceberg's configuration names: every command opens ours, and none creates its place."""

import json
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog import Catalog

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig, open_catalog
from tests.conftest import unique
from tests.integration.cli.conftest import rows, run_here
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess


def configure(home: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> None:
    (home / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": {"lake": properties}}))
    monkeypatch.setenv("PYICEBERG_HOME", str(home))


def create_events(config: CatalogConfig) -> Catalog:
    catalog = open_catalog(config)
    catalog.create_namespace("sales")
    catalog.create_table("sales.events", rows(0, 1).schema).append(rows(0, 10))
    return catalog


def dynamodb_properties(dynamodb: DynamoDbAccess, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.endpoint)  # PyIceberg has no property for it
    return {
        "type": "dynamodb",
        "table-name": unique("catalog"),
        "dynamodb.region": dynamodb.region,
        "dynamodb.access-key-id": dynamodb.access_key,
        "dynamodb.secret-access-key": dynamodb.secret_key,
    }


def test_a_dynamodb_catalog_of_pyicebergs_configuration_is_ours(
    dynamodb: DynamoDbAccess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = dynamodb_properties(dynamodb, monkeypatch)
    configure(tmp_path, monkeypatch, properties)
    config = DynamoDbConfig(
        name="lake",
        warehouse=f"file://{tmp_path}/warehouse",
        table_name=properties["table-name"],
        create_table=True,
        properties=properties,
    )
    with create_events(config) as catalog:
        for command in (
            ["inspect", "sales.events"],
            ["history", "sales.events"],
            ["hold", "place", "sales.events", "audit", "--until", "2033-09-30T00:00:00Z"],
            ["hold", "list", "sales.events"],
            ["export", "sales.events"],
        ):
            ended = run_here(*command, "--catalog", "lake")
            assert ended.code == 0, ended.err
        assert any("audit" in ref for ref in catalog.load_table("sales.events").metadata.refs)
        assert "dynamoDB:" in ended.out


@pytest.mark.parametrize("creating", [{}, {"dynamodb.create-table": "true"}], ids=["", "even if it may"])
def test_no_command_creates_the_dynamodb_table(
    dynamodb: DynamoDbAccess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, creating: dict[str, str]
) -> None:
    properties = dynamodb_properties(dynamodb, monkeypatch) | creating
    configure(tmp_path, monkeypatch, properties)
    for command in (
        ["inspect", "sales.events"],
        ["hold", "place", "sales.events", "audit", "--until", "2033-09-30T00:00:00Z"],
    ):
        ended = run_here(*command, "--catalog", "lake")
        assert ended.code != 0
        assert "Traceback" not in ended.err
        assert ("is still to be made" if creating else f"no DynamoDB table {properties['table-name']}") in ended.err
    database = dynamodb.client()
    assert properties["table-name"] not in database.list_tables()["TableNames"]
    database.close()


def test_a_configmap_catalog_is_named_by_its_class(
    kubernetes: KubernetesAccess, kube_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = f"file://{tmp_path}/warehouse"
    configure(
        tmp_path,
        monkeypatch,
        {
            "py-catalog-impl": "tableformat.catalogs.configmap.ConfigMapCatalog",
            "warehouse": warehouse,
            "configmap.namespace": kube_namespace,
            "configmap.kubeconfig": str(kubernetes.kubeconfig),
        },
    )
    config = ConfigMapConfig(
        name="lake", warehouse=warehouse, namespace=kube_namespace, kubeconfig=str(kubernetes.kubeconfig)
    )
    create_events(config).close()
    ended = run_here("history", "sales.events", "--catalog", "lake", "-o", "json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)
