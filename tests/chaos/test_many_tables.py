"""Ten thousand tables in one namespace."""

import resource
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs.pointer_catalog import PointerCatalog
from tests.integration.catalogs.test_tables import SCHEMA

pytestmark = pytest.mark.timeout(1800)

TABLES = 10_000


@pytest.mark.parametrize("kind", ["configMap"], indirect=True)
def test_ten_thousand_tables_are_listed_in_bounded_memory(catalog: Catalog) -> None:
    assert isinstance(catalog, PointerCatalog)
    table = catalog.create_table("db.t00000", SCHEMA)
    names = [("db", f"t{number:05d}") for number in range(TABLES)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(
            lambda name: catalog.create_pointer(name, table.metadata_location, table.metadata), names[1:]
        ):
            pass
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    assert catalog.list_tables("db") == names
    seconds, kilobytes = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"listed {TABLES} tables in {seconds:.1f} s, {kilobytes / 1024:.0f} MiB more")
    assert seconds < 60
    assert kilobytes < 100 * 1024
