"""Our catalogs by their classes, as PyIceberg's `py-catalog-impl` names them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pyiceberg.catalog import load_catalog
from pyiceberg.cli import console

from tableformat.catalogs import CatalogConfig, PyIcebergConfig, open_catalog
from tableformat.catalogs.pyiceberg_cli import load_configured
from tests.integration.catalogs.test_tables import SCHEMA, ids, rows

CLASSES = {
    "configMap": "tableformat.catalogs.configmap.ConfigMapCatalog",
    "dynamoDB": "tableformat.catalogs.dynamodb.JavaLayoutDynamoDbCatalog",
    "sql": "tableformat.catalogs.sql.SharedSqlCatalog",
}


@pytest.fixture(params=CLASSES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def properties(kind: str, configuration: CatalogConfig) -> dict[str, str]:
    assert not isinstance(configuration, PyIcebergConfig)
    return {"py-catalog-impl": CLASSES[kind], **configuration.as_properties()}


def test_pyiceberg_loads_our_catalogs_by_their_classes(
    properties: dict[str, str], configuration: CatalogConfig
) -> None:
    with load_catalog("lake", **properties) as theirs:
        theirs.create_namespace("db")
        theirs.create_table("db.t", SCHEMA).append(rows(1, 2))
    with open_catalog(configuration) as ours:
        assert type(ours) is type(theirs)
        assert ids(ours.load_table("db.t")) == [1, 2]


def test_pyicebergs_command_line_lists_and_describes_our_tables(
    properties: dict[str, str], configuration: CatalogConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_catalog(configuration) as ours:
        ours.create_namespace("db")
        table = ours.create_table("db.t", SCHEMA)
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": {"lake": properties}}))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr(console, "load_catalog", load_configured)
    for command, said in (
        (["list"], "db"),
        (["list", "db"], "db.t"),
        (["uuid", "db.t"], str(table.metadata.table_uuid)),
    ):
        ended = CliRunner().invoke(console.run, ["--catalog", "lake", *command])
        assert (ended.exit_code, ended.output.strip()) == (0, said)


@pytest.mark.parametrize("kind", ["sql"])
def test_the_command_line_runs_as_a_module(properties: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": {"lake": properties}}))
    done = subprocess.run(
        [sys.executable, "-m", "tableformat.catalogs.pyiceberg_cli", "--catalog", "lake", "create", "namespace", "db"],
        env={**os.environ, "PYICEBERG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "Created namespace: db"), done.stderr
