"""Whole catalogs: their tables are listed, and exported into a folder that changes nothing when it is applied."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType

from tableformat.catalogs import CatalogConfig, ConfigMapConfig, DynamoDbConfig, SqlConfig, open_catalog
from tests.conftest import unique
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_here

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=False))
TABLE_NAMES = ["hr.events", "sales.Big_Table", "sales.events", "sales.old"]


def fill(catalog: Catalog) -> None:
    for namespace in ("hr", "sales", "empty"):
        catalog.create_namespace(namespace)
    catalog.create_table("hr.events", SCHEMA).append(rows(0, 3))
    table = catalog.create_table(
        "sales.events",
        SCHEMA,
        partition_spec=PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket")),
        properties={"write.target-file-size-bytes": str(64 << 20), "owner": "sales"},
    )
    table.append(rows(0, 10))
    catalog.create_table("sales.Big_Table", SCHEMA)
    catalog.create_table("sales.old", SCHEMA, properties={"format-version": "1"}).append(rows(0, 2))


@pytest.fixture
def config(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogConfig:
    """A catalog that is named `lake` in PyIceberg's configuration, with the keys in the environment."""
    warehouse, properties = f"file://{tmp_path}/warehouse", {}
    found: CatalogConfig
    match request.param:
        case "sql":
            properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
            found = SqlConfig(name="lake", uri=properties["uri"], warehouse=warehouse)
        case "dynamodb":
            access = request.getfixturevalue("dynamodb")
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", access.access_key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", access.secret_key)
            name = unique("catalog")
            properties = {"type": "dynamodb", "table-name": name, "dynamodb.region": access.region}
            properties["dynamodb.endpoint"] = access.endpoint
            found = DynamoDbConfig(
                name="lake",
                warehouse=warehouse,
                table_name=name,
                region=access.region,
                endpoint=access.endpoint,
                create_table=True,
            )
        case _:
            kubeconfig = request.getfixturevalue("kubernetes").kubeconfig
            # As KUBECONFIG, which the client reads once, when it is imported.
            monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
            namespace = request.getfixturevalue("kube_namespace")
            impl = "tableformat.catalogs.configmap.ConfigMapCatalog"
            properties = {"py-catalog-impl": impl, "configmap.namespace": namespace}
            found = ConfigMapConfig(name="lake", warehouse=warehouse, namespace=namespace, kubeconfig=str(kubeconfig))
    home = tmp_path / "home"
    home.mkdir()
    content = {"catalog": {"lake": {**properties, "warehouse": warehouse}}}
    (home / ".pyiceberg.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    return found


@pytest.fixture
def catalog(config: CatalogConfig) -> Iterator[Catalog]:
    with open_catalog(config) as opened:
        fill(opened)
        yield opened


every_catalog = pytest.mark.parametrize("config", ["sql", "dynamodb", "configmap"], indirect=True)
sql = pytest.mark.parametrize("config", ["sql"], indirect=True)
LAKE = ("--catalog", "lake")


def files_of(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(folder.glob("*.yaml"))}


def require_unchanged(folder: Path, catalog: Catalog, names: list[str]) -> None:
    """As its users would find out: nothing is wrong, nothing is to change, and applied nothing is changed."""
    before = {name: catalog.load_table(name).metadata_location for name in names}
    valid = run_here("validate", "-f", folder, "--strict")
    assert valid.code == 0, valid.err
    planned = json.loads(run_here("plan", "-f", folder, "-o", "json").out)["tables"]
    assert len(planned) == len(names)
    assert [table for table in planned if table.get("changes") or table.get("refusals") or table.get("problem")] == []
    shown = run_here("plan", "-f", folder).out
    assert shown.count("The table is as declared.") == len(names), shown
    apply_here(folder)
    assert {name: catalog.load_table(name).metadata_location for name in names} == before


@every_catalog
def test_a_catalog_is_listed_and_exported_and_adopted_without_a_change(catalog: Catalog, tmp_path: Path) -> None:
    listed = run_here("list", *LAKE, "-o", "name")
    assert (listed.code, listed.out.split()) == (0, TABLE_NAMES), listed.err
    assert run_here("list", "sales", *LAKE, "-o", "name").out.split() == TABLE_NAMES[1:]
    folder = tmp_path / "adopted"
    done = run_here("export", *LAKE, "--to", folder)
    assert (done.code, done.out, done.err) == (0, "", f"exported 4 tables to {folder}\n")
    names = ["catalog-lake", "table-hr-events", "table-sales-big-table", "table-sales-events", "table-sales-old"]
    assert list(files_of(folder)) == [f"{name}.yaml" for name in names]
    assert "testsecret" not in "".join(files_of(folder).values())
    require_unchanged(folder, catalog, TABLE_NAMES)

    again = run_here("export", *LAKE, "--to", tmp_path / "again")
    assert again.code == 0
    assert files_of(tmp_path / "again") == files_of(folder), "the same files every time"


@sql
def test_a_namespace_is_exported_under_its_own_name(catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    assert run_here("export", "sales", *LAKE, "--to", folder).code == 0
    objects = [yaml.safe_load(text) for text in files_of(folder).values()]
    assert {each["metadata"]["namespace"] for each in objects} == {"sales"}
    assert [each["metadata"]["name"] for each in objects] == ["lake", "big-table", "events", "old"]
    require_unchanged(folder, catalog, TABLE_NAMES[1:])
    printed = run_here("export", "sales", *LAKE)
    assert printed.code == 0
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(printed.out)] == [
        "lake",
        "big-table",
        "events",
        "old",
    ]


@sql
def test_names_that_kubernetes_would_mix_up_are_told_apart(catalog: Catalog, tmp_path: Path) -> None:
    for name in ("a_b", "A-B", "a.b"):
        catalog.create_table(("hr", name), SCHEMA)
    folder = tmp_path / "hr"
    ended = run_here("export", "hr", *LAKE, "--to", folder)
    names = [name for name in files_of(folder) if name.startswith("table-")]
    assert names[-1] == "table-events.yaml"
    assert len(names) == len({*names}) == 3 + (ended.code == 0), ended
    assert all(name.startswith("table-a-b-") for name in names[:-1])
    assert run_here("validate", "-f", folder).code == 0


@sql
def test_tables_that_cannot_be_exported_are_named_and_the_others_are_written(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace("deep")
    catalog.create_namespace(("deep", "er"))
    catalog.create_table(("deep", "er", "t"), SCHEMA)
    gone = Path(catalog.load_table("sales.old").metadata_location.removeprefix("file://"))
    gone.unlink()
    folder = tmp_path / "adopted"
    ended = run_here("export", *LAKE, "--to", folder)
    assert ended.code == 1, ended
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert [line.split()[1] for line in errors] == ["sales.old", "deep.er.t"]
    assert "has more" in errors[1]
    assert f"exported 3 tables to {folder}" in ended.err
    require_unchanged(folder, catalog, ["hr.events", "sales.Big_Table", "sales.events"])
    alone = run_here("export", "deep.er.t", *LAKE, "--to", tmp_path / "alone")
    assert (alone.code, (tmp_path / "alone").exists()) == (2, False), alone


@sql
def test_files_are_not_overwritten_unasked(catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "adopted"
    assert run_here("export", "sales", *LAKE, "--to", folder).code == 0
    assert run_here("export", "sales", *LAKE, "--to", folder).code == 0, "nothing differs"
    edited = folder / "table-events.yaml"
    original, changed = edited.read_text(), edited.read_text() + "# mine\n"
    edited.write_text(changed)
    catalog.create_table("sales.new", SCHEMA)
    refused = run_here("export", "sales", *LAKE, "--to", folder)
    assert (refused.code, refused.out) == (2, "")
    assert f"{folder} has table-events.yaml already" in refused.err
    assert "--overwrite" in refused.err
    assert (edited.read_text(), (folder / "table-new.yaml").exists()) == (changed, False), "nothing was written"
    assert run_here("export", "sales", *LAKE, "--to", folder, "--overwrite").code == 0
    assert edited.read_text() == original
    assert run_here("export", "sales", *LAKE, "--to", edited).code == 2
    assert run_here("export", "sales", *LAKE, "--overwrite").code == 2


@sql
def test_a_catalog_without_a_warehouse_gets_the_one_that_most_tables_are_in(catalog: Catalog, tmp_path: Path) -> None:
    elsewhere = f"file://{tmp_path}/elsewhere/t"
    catalog.create_table("hr.aside", SCHEMA, location=elsewhere)
    exported = run_here("export", "--catalog-uri", f"sqlite:///{tmp_path}/catalog.db")
    assert exported.code == 0, exported.err
    assert next(yaml.safe_load_all(exported.out))["spec"]["warehouse"] == f"file://{tmp_path}/warehouse"


@sql
def test_names_that_are_not_there_get_the_nearest_ones(catalog: Catalog, tmp_path: Path) -> None:
    for words, hint in (
        (("list", "slaes"), 'did you mean "sales"?'),
        (("export", "slaes"), 'did you mean "sales"?'),
        (("export", "sales.evnts"), 'did you mean "events"?'),
        (("export", "empty"), "no tables to export"),
    ):
        ended = run_here(*words, *LAKE)
        assert (ended.code, hint in ended.err, ended.out) == (2, True, ""), ended
    nothing = run_here("list", "empty", *LAKE)
    assert (nothing.code, nothing.err, nothing.out) == (0, "no tables found\n", "")


def test_a_folder_lists_what_its_catalogs_have_and_exports_what_it_does_not_declare(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "events.yaml").write_text(TABLES)
    assert run_here("list", "-f", folder).code == 2, "nothing is there yet"
    apply_here(folder)
    catalog = embedded_catalog(folder)
    catalog.create_table("sales.more", SCHEMA)
    [declared, more] = json.loads(run_here("list", "-f", folder, "-o", "json").out)["tables"]
    assert declared == {
        "catalog": "sales/lake",
        "namespace": "sales",
        "name": "events",
        "declaredBy": "sales/events",
    }
    assert (more["name"], "declaredBy" in more) == ("more", False)
    assert run_here("export", "sales.events", "-f", folder).code == 2, "it is declared already"

    elsewhere = tmp_path / "elsewhere"
    assert run_here("export", "-f", folder, "--to", elsewhere).code == 0
    assert list(files_of(elsewhere)) == ["catalog-lake.yaml", "table-more.yaml"]
    require_unchanged(elsewhere, catalog, ["sales.more"])
    assert run_here("export", "-f", folder, "--to", folder / "adopted").code == 0
    assert list(files_of(folder / "adopted")) == ["table-more.yaml"], "the folder's own catalog has it"
    require_unchanged(folder, catalog, ["sales.events", "sales.more"])
    every = run_here("export", "-f", folder)
    assert (every.code, "all are declared" in every.err) == (2, True)


def test_of_several_catalogs_of_a_folder_one_is_named(tmp_path: Path) -> None:
    for name in ("lake", "pond"):
        config = SqlConfig(name=name, uri=f"sqlite:///{tmp_path}/{name}.db", warehouse=f"file://{tmp_path}/{name}")
        with open_catalog(config) as catalog:
            catalog.create_namespace("sales")
            catalog.create_table(f"sales.of_{name}", SCHEMA)
    folder = tmp_path / "folder"
    folder.mkdir()
    spec = (
        "apiVersion: tablewright.dev/v1alpha1\nkind: TableCatalog\nmetadata: {{name: {0}, namespace: sales}}\nspec:\n"
    )
    spec += "  sql: {{uri: 'sqlite:///{1}/{0}.db'}}\n  warehouse: file://{1}/{0}\n"
    (folder / "catalogs.yaml").write_text("---\n".join(spec.format(name, tmp_path) for name in ("lake", "pond")))
    listed = run_here("list", "-f", folder)
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
        ["sales/lake", "sales", "of_lake"],
        ["sales/pond", "sales", "of_pond"],
    ]
    refused = run_here("export", "-f", folder)
    assert (refused.code, "--catalog-ref: name one TableCatalog" in refused.err) == (2, True), refused
    assert run_here("export", "-f", folder, "--catalog-ref", "pond", "--to", folder / "tables").code == 0
    [text] = files_of(folder / "tables").values()
    assert yaml.safe_load(text)["spec"]["catalogRef"] == {"name": "pond"}
    assert run_here("plan", "-f", folder).out.count("The table is as declared.") == 1
