"""A pytest plugin for PyIceberg's own tests: their catalogs become one of ours, and nothing else of them changes.

PyIceberg defines a catalog in its conftest.py and in some test modules. A fixture of a plugin would give way to those,
so they are replaced where they are defined, after the import and before pytest reads them. The identifiers of nested
namespaces come with their parents created, which our catalogs require and PyIceberg's do not.

This module is imported beside PyIceberg's `tests`, and so without ours.
"""

import importlib
import json
import os
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pytest_lazy_fixtures import lf

CONFIG: dict[str, str] = json.loads(os.environ["OUR_CATALOG"])
DIFFERENCES = Path(__file__).with_name("expected_differences.toml")
OTHERS = ("memory_catalog", "sqlite_catalog_memory", "sqlite_catalog_file", "rest_catalog", "hive_catalog")

_moto = ModuleType("moto")  # imported by PyIceberg's conftest.py for tests of S3 and Glue, which are not run
_moto.mock_aws = None  # type: ignore[attr-defined]
sys.modules["moto"] = _moto
_bigquery = ModuleType("pyiceberg.catalog.bigquery_metastore")  # needs Google's library; asked about by its class alone
_bigquery.BigQueryMetastoreCatalog = type("BigQueryMetastoreCatalog", (), {})  # type: ignore[attr-defined]
sys.modules["pyiceberg.catalog.bigquery_metastore"] = _bigquery


def _open(folder: Path) -> Catalog:
    """A new and empty catalog. Those of one kind share a server, and keep apart by names."""
    properties = {**CONFIG, "warehouse": f"file://{folder}"}
    module, _, name = properties.pop("py-catalog-impl").rpartition(".")
    if name == "JavaLayoutDynamoDbCatalog":
        properties["table-name"] = f"catalog-{uuid.uuid4().hex}"
    if name == "SharedSqlCatalog":
        properties["uri"] = f"sqlite:///{folder}/catalog-{uuid.uuid4().hex}.db"
    catalog: Catalog = getattr(importlib.import_module(module), name)(f"test_{uuid.uuid4().hex}", **properties)
    return catalog


@pytest.fixture(name="catalog")
def of_conftest(tmp_path: Path) -> Iterator[Catalog]:
    with _open(tmp_path) as catalog:
        yield catalog


@pytest.fixture(name="catalog_with_warehouse")
def of_conftest_with_warehouse(warehouse: Path) -> Iterator[Catalog]:
    with _open(warehouse) as catalog:
        yield catalog


@pytest.fixture(name="catalog")
def with_a_namespace(tmp_path: Path) -> Iterator[Catalog]:
    with _open(tmp_path) as catalog:
        catalog.create_namespace("default")
        yield catalog


@pytest.fixture(name="catalog")
def of_the_command_line(mocker: Any, tmp_path: Path) -> Iterator[Catalog]:
    with _open(tmp_path) as catalog:
        catalog.properties["test.key"] = "test.value"
        mocker.patch("pyiceberg.cli.console.load_catalog", return_value=catalog)
        yield catalog


@pytest.fixture(name="rest_test_catalog")
def of_integration_tests(tmp_path: Path) -> Iterator[Catalog]:
    with _open(tmp_path) as catalog:
        yield catalog


def _with_parents(request: pytest.FixtureRequest, namespace: tuple[str, ...]) -> None:
    for name in ("catalog", "catalog_with_warehouse"):
        if name in request.fixturenames:
            for length in range(1, len(namespace)):
                request.getfixturevalue(name).create_namespace_if_not_exists(namespace[:length])


@pytest.fixture(
    name="test_table_identifier",
    params=[lf("fixed_test_table_identifier"), lf("random_table_identifier"), lf("random_hierarchical_identifier")],
)
def table_identifier(request: pytest.FixtureRequest) -> Any:
    _with_parents(request, request.param[:-1])
    return request.param


@pytest.fixture(
    name="another_table_identifier",
    params=[
        lf("another_fixed_test_table_identifier"),
        lf("another_random_table_identifier"),
        lf("another_random_hierarchical_identifier"),
    ],
)
def other_table_identifier(request: pytest.FixtureRequest) -> Any:
    _with_parents(request, request.param[:-1])
    return request.param


@pytest.fixture(
    name="test_namespace",
    params=[lf("database_name"), lf("hierarchical_namespace_name"), lf("fixed_test_table_namespace")],
)
def namespace(request: pytest.FixtureRequest) -> Any:
    name = Catalog.identifier_to_tuple(request.param)
    _with_parents(request, name)
    return name


REPLACED: dict[str, dict[str, object]] = {
    "tests/conftest.py": {
        "catalog": of_conftest,
        "catalog_with_warehouse": of_conftest_with_warehouse,
        "test_table_identifier": table_identifier,
        "another_table_identifier": other_table_identifier,
        "test_namespace": namespace,
    },
    "tests/table/test_upsert.py": {"catalog": with_a_namespace},
    "tests/table/test_inspect.py": {"catalog": with_a_namespace},
    "tests/cli/test_console.py": {"fixture_catalog": of_the_command_line},
    "tests/integration/test_catalog.py": {"rest_test_catalog": of_integration_tests},
}


def _replace(module: ModuleType, root: Path) -> None:
    where = Path(module.__file__ or "")
    for name, fixture in REPLACED.get(str(where.relative_to(root)) if where.is_relative_to(root) else "", {}).items():
        assert hasattr(module, name), f"{where} has no fixture {name}: PyIceberg has changed, and this plugin must too"
        setattr(module, name, fixture)


class _Module(pytest.Module):
    def _getobj(self) -> ModuleType:
        module: ModuleType = super()._getobj()  # type: ignore[no-untyped-call]
        _replace(module, self.config.rootpath)
        return module


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    made: pytest.Module = _Module.from_parent(parent, path=module_path)
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    if isinstance(plugin, ModuleType) and plugin.__name__ == "tests.conftest":
        _replace(plugin, Path.cwd())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = [item for item in items if any(name in item.nodeid or name in item.fixturenames for name in OTHERS)]  # type: ignore[attr-defined]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
    listed = tomllib.loads(DIFFERENCES.read_text())
    expected = listed["all"] | listed.get(CONFIG["py-catalog-impl"].rpartition(".")[2], {})
    unused = dict(expected)
    for item in items:
        for key in (item.nodeid, item.nodeid.partition("[")[0]):
            if key in expected:
                unused.pop(key, None)
                item.add_marker(pytest.mark.xfail(reason=expected[key], strict=True))
    if unused:
        raise pytest.UsageError(f"{DIFFERENCES.name} names tests that PyIceberg does not have: {sorted(unused)}")
