from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.integration.compaction.tables import sql_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path)
