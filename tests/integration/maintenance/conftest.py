from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.integration.maintenance.tables import LocalCatalog, create


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[LocalCatalog]:
    opened = LocalCatalog(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: LocalCatalog) -> Table:
    return create(catalog)
