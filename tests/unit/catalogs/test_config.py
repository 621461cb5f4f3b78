"""A catalog's configuration as a value that travels."""

import pytest
from pydantic import TypeAdapter, ValidationError

from tableformat.catalogs import (
    CatalogConfig,
    ConfigMapConfig,
    DynamoDbConfig,
    PyIcebergConfig,
    SqlConfig,
    open_catalog,
)
from tableformat.maintenance.job import MaintenanceJob

ADAPTER: TypeAdapter[CatalogConfig] = TypeAdapter(CatalogConfig)
SECRET = {"s3.secret-access-key": "hush"}
CONFIGS: list[CatalogConfig] = [
    ConfigMapConfig(name="lake", warehouse="s3://bucket/w", namespace="sales", context="prod", properties=SECRET),
    DynamoDbConfig(name="lake", warehouse="s3://bucket/w", table_name="tables", region="eu-west-1", properties=SECRET),
    SqlConfig(name="lake", uri="postgresql://user:hush@host/db", warehouse="s3://bucket/w", properties=SECRET),
    PyIcebergConfig(name="lake", properties={"type": "rest", "uri": "https://host", "token": "hush"}),
]
KINDS = [config.type for config in CONFIGS]


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
def test_a_configuration_survives_a_round_trip_through_json(config: CatalogConfig) -> None:
    assert ADAPTER.validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
def test_no_representation_shows_a_secret(config: CatalogConfig) -> None:
    assert "hush" not in repr(config)
    assert "hush" not in str(config)


def test_an_unknown_field_or_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="wharehouse"):
        ADAPTER.validate_python({"type": "sql", "name": "lake", "uri": "sqlite://", "wharehouse": "x"})
    with pytest.raises(ValidationError, match="type"):
        ADAPTER.validate_python({"type": "nosuch", "name": "lake"})


def test_no_error_shows_a_secret() -> None:
    address = "postgresql://user:hush@host/db"
    with pytest.raises(ValidationError, match="warehouse") as of_a_catalog:
        SqlConfig.model_validate({"name": "lake", "uri": address, "url": address})
    with pytest.raises(ValidationError, match="catalog") as of_a_job:
        MaintenanceJob.model_validate({"catalog": {"type": "sqll", "name": "lake", "uri": address}})
    assert "hush" not in str(of_a_catalog.value) + str(of_a_job.value)


@pytest.mark.parametrize(
    ("properties", "missing"),
    [
        ({"type": "sql", "warehouse": "file:///w"}, "needs the property uri"),
        ({"type": "sql", "uri": "sqlite:///c.db"}, "needs the property warehouse"),
        ({"type": "sql"}, "needs the property uri and warehouse"),
        ({"type": "in-memory"}, "needs the property warehouse"),
        ({"type": "DynamoDB"}, "needs the property warehouse"),
        ({"type": "rest"}, "needs the property uri"),
        (
            {"py-catalog-impl": "tableformat.catalogs.configmap.ConfigMapCatalog"},
            "needs the property warehouse and configmap.namespace",
        ),
    ],
)
def test_a_property_without_which_a_catalog_cannot_be_opened_is_named(properties: dict[str, str], missing: str) -> None:
    with pytest.raises(ValueError, match=f"catalog lake {missing}$"):
        open_catalog(PyIcebergConfig(name="lake", properties=properties))


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        CONFIGS[0].name = "pond"  # type: ignore[misc]
