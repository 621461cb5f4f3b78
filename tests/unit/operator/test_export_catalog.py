"""The catalog of an exported table, as a TableCatalog: it leads to the table, and holds no secret."""

import pytest
import yaml

from tableformat.catalogs import PyIcebergConfig
from tablewright.api.admission import admit
from tablewright.api.export_catalog import ExportedCatalog, export_catalog, name_of_catalog


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
            {"type": "sql", "uri": "postgresql+psycopg2://me:hush@host/db"},
            {"sql": {"uri": "postgresql+psycopg2://me@host/db"}, "warehouse": "s3://bucket/lake"},
        ),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
def test_a_catalog_is_written_without_its_keys_and_a_note_names_them(
    properties: dict[str, str], spec: dict[str, object]
) -> None:
    found = exported(**properties)
    assert found.manifest is not None
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
        assert found.manifest is not None
        assert found.manifest["spec"]["warehouse"] == warehouse


@pytest.mark.parametrize("properties", [{"type": "in-memory"}, {"type": "rest", "uri": "host"}])
def test_a_catalog_that_no_object_can_stand_for_is_left_out_and_named(properties: dict[str, str]) -> None:
    found = exported(**properties)
    assert found.manifest is None
    [note] = found.notes
    assert note.endswith(": declare one")
    assert "hush" not in note


@pytest.mark.parametrize("kind", ["rest", "hive", "glue"])
def test_a_catalog_whose_name_is_none_to_kubernetes_gets_one(kind: str) -> None:
    config = PyIcebergConfig(name="My_Lake", properties={"type": kind, "uri": "https://host"})
    assert name_of_catalog(config) == "my-lake"
    assert name_of_catalog(config.model_copy(update={"name": "my.lake"})) == "my.lake"


def test_a_database_that_knows_its_tables_by_such_a_name_is_said_to() -> None:
    config = PyIcebergConfig(name="my_lake", properties={"type": "sql", "uri": "sqlite:///x.db"})
    assert name_of_catalog(config) == "my_lake"
    exported = export_catalog(config, "file:///w/t", ("sales", "t"), name=name_of_catalog(config), namespace="sales")
    assert exported.manifest is None
    assert "the database has the table under the catalog 'my_lake'" in exported.notes[0]
