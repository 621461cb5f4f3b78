"""A TableCatalog as what the table library opens, for each kind of catalog."""

from typing import Any

import pytest

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig, PyIcebergConfig, SqlConfig
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import InvalidObjectError, parse

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "ICEBERG_TOKEN": "token", "OTHER": "x"}
IN_S3 = {"s3.access-key-id": "id", "s3.secret-access-key": "secret"}


def catalog(name: str = "lake", **spec: Any) -> TableCatalog:
    return parse(TableCatalog, {"metadata": {"name": name, "namespace": "sales"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        (
            {"configMap": {}},
            ConfigMapConfig(name="lake", warehouse="s3://b/w", namespace="sales", properties=IN_S3),
        ),
        (
            {"dynamoDB": {"tableName": "pointers"}, "storage": {"region": "eu-west-1"}},
            DynamoDbConfig(
                name="lake",
                warehouse="s3://b/w",
                table_name="pointers",
                region="eu-west-1",
                properties={
                    **IN_S3,
                    "s3.region": "eu-west-1",
                    "dynamodb.access-key-id": "id",
                    "dynamodb.secret-access-key": "secret",
                },
            ),
        ),
        (
            {"sql": {"uri": "postgresql+psycopg2://user@host/db"}},
            SqlConfig(name="lake", uri="postgresql+psycopg2://user@host/db", warehouse="s3://b/w", properties=IN_S3),
        ),
        (
            {"hive": {"uri": "thrift://metastore:9083"}},
            PyIcebergConfig(
                name="lake",
                properties={**IN_S3, "type": "hive", "uri": "thrift://metastore:9083", "warehouse": "s3://b/w"},
            ),
        ),
        (
            {"glue": {"catalogId": "42"}, "storage": {"region": "eu-west-1"}},
            PyIcebergConfig(
                name="lake",
                properties={
                    **IN_S3,
                    "s3.region": "eu-west-1",
                    "type": "glue",
                    "warehouse": "s3://b/w",
                    "glue.id": "42",
                    "glue.region": "eu-west-1",
                    "glue.access-key-id": "id",
                    "glue.secret-access-key": "secret",
                },
            ),
        ),
    ],
)
def test_each_kind_of_catalog_is_opened_as_it_is_declared(spec: dict[str, Any], config: CatalogConfig) -> None:
    assert catalog(warehouse="s3://b/w", **spec).config(KEYS) == config


def test_a_rest_catalog_has_its_own_warehouse_and_its_own_credentials() -> None:
    rest = {"uri": "https://catalog:8181", "warehouse": "main", "credentialsSecretRef": {"name": "rest-keys"}}
    declared = catalog(rest=rest)
    assert [reference.name for _, reference in declared.secret_references] == ["rest-keys"]
    assert declared.config(KEYS) == PyIcebergConfig(
        name="lake",
        properties={**IN_S3, "type": "rest", "uri": "https://catalog:8181", "warehouse": "main", "token": "token"},
    )


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"warehouse": "s3://b"}, "exactly one kind of catalog"),
        ({"warehouse": "s3://b", "configMap": {}, "glue": {}}, "exactly one kind of catalog"),
        ({"configMap": {}}, "give warehouse with every kind of catalog but rest"),
        ({"rest": {"uri": "https://c"}, "warehouse": "s3://b"}, "give warehouse with every kind of catalog but rest"),
        ({"sql": {"uri": "postgresql://user:secret@host/db"}, "warehouse": "s3://b"}, "without a password"),
    ],
)
def test_a_catalog_that_could_not_be_opened_is_refused(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidObjectError, match=complaint):
        catalog(**spec)


def test_a_password_does_not_come_back_in_the_refusal() -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        catalog(sql={"uri": "postgresql://user:hunter2@host/db"}, warehouse="s3://b")
    assert "hunter2" not in str(refusal.value)


def test_a_rest_catalog_with_a_dot_in_its_name_is_refused_because_its_jobs_could_not_find_its_credentials() -> None:
    with pytest.raises(InvalidObjectError, match="has no dots"):
        catalog("a.b", rest={"uri": "https://catalog:8181"})
