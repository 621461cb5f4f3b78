"""The catalogs that declarations are applied through."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog


@pytest.fixture(params=["sqlite", "memory"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    warehouse = f"file://{tmp_path}/warehouse"
    if request.param == "sqlite":
        opened: SqlCatalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)
    else:
        opened = InMemoryCatalog("test", warehouse=warehouse)
    yield opened
    opened.close()
