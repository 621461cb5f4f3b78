"""What is particular to SQL catalogs in a database server: PostgreSQL and MariaDB, by the drivers of our extras."""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from tableformat.catalogs import CatalogConfig, CatalogUnavailableError, SqlConfig, open_catalog, open_existing
from tests.integration.catalogs.conftest import DATABASES
from tests.integration.catalogs.test_sql import open_and_create
from tests.integration.catalogs.test_tables import SCHEMA, ids, rows
from tests.servers.databases import PASSWORD, MariaDbServer, PostgresServer

pytestmark = pytest.mark.parametrize("kind", DATABASES, indirect=True)
SERVERS: dict[str, type[PostgresServer | MariaDbServer]] = {"postgresql": PostgresServer, "mariadb": MariaDbServer}


def test_processes_that_open_a_new_database_at_once_agree_on_it(configuration: CatalogConfig) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        created = pool.starmap(open_and_create, [(configuration, number) for number in range(4)], chunksize=1)
    assert created.count(True) == 1
    with open_catalog(configuration) as catalog:
        assert catalog.list_namespaces() == [("sales",)]


def test_who_only_looks_creates_no_tables_in_a_new_database(configuration: CatalogConfig) -> None:
    assert open_existing(configuration) is None
    open_catalog(configuration).close()
    opened = open_existing(configuration)
    assert opened is not None
    opened.close()


def test_names_that_differ_only_in_case_are_two_tables(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    assert not catalog.table_exists("db.T")
    catalog.create_table("db.T", SCHEMA).append(rows(2))
    assert (ids(catalog.load_table("db.t")), ids(catalog.load_table("db.T"))) == ([1], [2])
    catalog.drop_table("db.T")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.T")
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_name_outside_of_latin_is_kept(open_one: Callable[[], Catalog], catalog: Catalog) -> None:
    catalog.create_table(("db", "bücher_本_🚀"), SCHEMA)
    assert open_one().list_tables("db") == [("db", "bücher_本_🚀")]


def test_a_wrong_password_is_an_error_that_does_not_show_it(configuration: CatalogConfig) -> None:
    assert isinstance(configuration, SqlConfig)
    wrong = make_url(configuration.uri).set(password="not-the-password").render_as_string(hide_password=False)
    with pytest.raises(OperationalError) as refused:
        open_catalog(configuration.model_copy(update={"uri": wrong}))
    assert "not-the-password" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.fixture
def server(kind: str) -> Iterator[PostgresServer | MariaDbServer]:
    """One of the test's own, outside of pytest's folders, which only root may enter."""
    with tempfile.TemporaryDirectory(prefix="tablewright-database-") as folder:
        started = SERVERS[kind](Path(folder) / kind)
        yield started
        started.stop()


def test_a_commit_survives_a_restart_of_the_server(server: PostgresServer | MariaDbServer, tmp_path: Path) -> None:
    url = server.access.new_database("lake")
    config = SqlConfig(
        name="lake", uri=url.render_as_string(hide_password=False), warehouse=f"file://{tmp_path}/warehouse"
    )
    with open_catalog(config) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        table.append(rows(1))
        server.restart()
        table.append(rows(2))
        assert ids(catalog.load_table("db.t")) == [1, 2]
        server.stop()
        with pytest.raises(CatalogUnavailableError, match="does not answer"):
            catalog.load_table("db.t")
