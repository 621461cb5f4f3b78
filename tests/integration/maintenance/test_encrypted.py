"""An encrypted table is left alone: PyIceberg's metadata has no place for its keys, so a commit would lose them."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tableformat.errors import PermanentError
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog, append, create, later


def _compact(catalog: Catalog, now: datetime) -> None:
    options = CompactionOptions(min_input_files=2)
    compact(catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id="r", now=now)


def _expire(catalog: Catalog, now: datetime) -> None:
    expire_snapshots(catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=now)


def _rewrite(catalog: Catalog, now: datetime) -> None:
    rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="r")


@pytest.mark.parametrize("operation", [_compact, _expire, _rewrite])
def test_no_operation_commits_to_an_encrypted_table(
    tmp_path: Path, operation: Callable[[Catalog, datetime], None]
) -> None:
    catalog = LocalCatalog(tmp_path)
    table = create(catalog, {"encryption.key-id": "k1"})
    append(table, 3)
    with pytest.raises(PermanentError, match="is encrypted"):
        operation(catalog, later(table, days=20))
    after = catalog.load_table(IDENTIFIER)
    assert after.metadata_location == table.metadata_location
    assert after.scan().to_arrow().num_rows == 9
