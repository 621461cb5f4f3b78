"""The catalog of an exported table, as a TableCatalog: it leads to the table, and holds no secret."""

import pytest
import yaml

from tableformat.catalogs import ConfigMapConfig, PyIcebergConfig
from tablewright.api.admission import admit
from tablewright.api.catalog import TableCatalog
from tablewright.api.export import NotExportableError
from tablewright.api.export_catalog import ExportedCatalog, export_catalog
from tablewright.api.objects import API_VERSION, parse


def exported(location: str = "s3://bucket/lake/sales.db/events", **properties: str) -> ExportedCatalog:
    config = PyIcebergConfig(name="lake", properties=properties)
    return export_catalog(config, location, ("sales", "events"), name="lake", namespace="sales")


@pytest.mark.parametrize(
    ("properties", "spec"),
    [
        (
            {"type": "rest", "uri": "https://host/api", "warehouse": "main", "token": "hush"},
            {"rest": {"uri": "https://host/api", "warehouse": "main"}},
        ),
        ({"type": "rest", "uri": "https://me:hush@host"}, {"rest": {"uri": "https://host"}}),
        (
            {"type": "hive", "uri": "thrift://host:9083", "s3.secret-access-key": "hush", "s3.region": "ap-south-1"},
            {
                "hive": {"uri": "thrift://host:9083"},
                "warehouse": "s3://bucket/lake",
                "storage": {"region": "ap-south-1"},
            },
        ),
        (
            {"type": "glue", "glue.region": "ap-south-1", "glue.secret-access-key": "hush", "warehouse": "s3://w"},
            {"glue": {"region": "ap-south-1"}, "warehouse": "s3://w"},
        ),
        (
            {
                "type": "dynamodb",
                "table-name": "lake",
                "dynamodb.region": "ap-south-1",
                "dynamodb.session-token": "hush",
            },
            {"dynamoDB": {"tableName": "lake", "region": "ap-south-1"}, "warehouse": "s3://bucket/lake"},
        ),
        (
            {"type": "sql", "uri": "postgresql+psycopg2://me:hush@host/db"},
            {"sql": {"uri": "postgresql+psycopg2://me@host/db"}, "warehouse": "s3://bucket/lake"},
        ),
        (
            {"type": "sql", "uri": "postgresql+psycopg2://me@host/db?password=hush&sslmode=require"},
            {"sql": {"uri": "postgresql+psycopg2://me@host/db?sslmode=require"}, "warehouse": "s3://bucket/lake"},
        ),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
def test_a_catalog_is_written_without_its_keys_and_a_note_names_them(
    properties: dict[str, str], spec: dict[str, object]
) -> None:
    found = exported(**properties)
    assert admit(found.manifest) == []
    assert found.manifest["spec"] == spec
    assert "hush" not in yaml.safe_dump(found.manifest)
    [note] = found.notes
    assert "is not written" in note
    assert "hush" not in note


def test_the_warehouse_is_the_folder_around_the_table_where_nothing_says_it() -> None:
    for location, warehouse in (
        ("s3://bucket/lake/sales.db/events", "s3://bucket/lake"),
        ("s3://bucket/lake/sales/events", "s3://bucket/lake"),
        ("s3://bucket/some/where", "s3://bucket/some"),
    ):
        found = exported(location, type="hive", uri="thrift://host:9083")
        assert found.manifest["spec"]["warehouse"] == warehouse


@pytest.mark.parametrize("properties", [{"type": "in-memory"}, {"type": "rest", "uri": "host"}])
def test_catalog_that_no_object_can_stand_for_is_refused_with_the_remedy(properties: dict[str, str]) -> None:
    with pytest.raises(NotExportableError, match="--catalog-ref"):
        exported(**properties)


def test_database_keeps_the_name_that_it_knows_its_tables_by() -> None:
    config = PyIcebergConfig(name="prod_lake", properties={"type": "sql", "uri": "sqlite:////my data/x.db"})
    found = export_catalog(config, "file:///w/t", ("sales", "t"), name="prod-lake", namespace="sales")
    assert admit(found.manifest) == []
    assert found.manifest["spec"]["sql"] == {"uri": "sqlite:////my data/x.db", "catalogName": "prod_lake"}
    opened = parse(TableCatalog, found.manifest).config({})
    assert (opened.name, opened.type) == ("prod_lake", "sql")


def test_configmap_catalog_is_written_in_the_namespace_that_its_tables_are_in() -> None:
    given = {"py-catalog-impl": "tableformat.catalogs.configmap.ConfigMapCatalog", "configmap.namespace": "sales"}
    found = exported(**given)
    assert admit(found.manifest) == []
    assert (found.manifest["spec"], found.notes) == ({"configMap": {}, "warehouse": "s3://bucket/lake"}, ())
    opened = parse(TableCatalog, found.manifest).config({})
    assert isinstance(opened, ConfigMapConfig)
    assert opened.namespace == "sales"
    with pytest.raises(NotExportableError, match="its tables are in the Kubernetes namespace other, not in sales"):
        exported(**(given | {"configmap.namespace": "other"}))


def test_metastore_with_several_addresses_is_written_as_it_is() -> None:
    uri = "thrift://one:9083,thrift://two:9083"
    assert exported(type="hive", uri=uri).manifest["spec"]["hive"] == {"uri": uri}


def test_property_without_a_field_is_named_in_a_note() -> None:
    found = exported(type="rest", uri="https://host", scope="PRINCIPAL")
    assert found.notes == ("scope is not written: a TableCatalog has no field for it",)


@pytest.mark.parametrize(
    ("uri", "takes"),
    [
        ("postgresql+psycopg2://user@host:5432/my db", True),
        ("postgresql+psycopg2://user@host/db?sslmode=require", True),
        ("sqlite:////home/me@work/my lake/catalog.db", True),
        ("postgresql+psycopg2://[::1]:5432/db", True),
        ("mysql://me:secret@host/db", False),
        ("mysql://me:12/34@host/db", False),
        ("mysql://me:se cret@host/db", False),
        ("sqlite:///a\nb", False),
    ],
)
def test_address_of_a_database_may_have_spaces_and_no_password(uri: str, takes: bool) -> None:
    spec = {"sql": {"uri": uri}, "warehouse": "file:///w"}
    problems = admit({"apiVersion": API_VERSION, "kind": "TableCatalog", "metadata": {"name": "lake"}, "spec": spec})
    assert (problems == []) is takes
    assert "secret" not in str(problems)
