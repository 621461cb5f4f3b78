"""Metadata that has grown: a table with 20,000 snapshots is loaded and expired within a gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.histories import long_history
from tests.integration.maintenance.tables import LocalCatalog

SNAPSHOTS, KEPT = 20_000, 10
EXPIRE = f"""
import json, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tests.integration.maintenance.tables import LocalCatalog

catalog = LocalCatalog(Path(sys.argv[1]))
options = ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep={KEPT})
result = expire_snapshots(catalog, ("db", "long"), options, now=datetime.now(UTC))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps([result.snapshots_expired, result.files_deleted, peak]))
"""


def test_twenty_thousand_snapshots_expire_within_a_gigabyte(tmp_path: Path) -> None:
    catalog = LocalCatalog(tmp_path)
    catalog.create_namespace("db")
    root = tmp_path / "warehouse" / "db.db" / "long"
    table = long_history(catalog, ("db", "long"), root, SNAPSHOTS)
    assert table.location() == f"file://{root}"

    answer = subprocess.check_output([sys.executable, "-c", EXPIRE, str(tmp_path)], cwd=Path.cwd())

    expired, deleted, peak_mib = json.loads(answer)
    assert (expired, deleted) == (SNAPSHOTS - KEPT, 3 * (SNAPSHOTS - KEPT))
    assert peak_mib < 1024
    assert len(list((root / "data").iterdir())) == KEPT
    assert len(table.refresh().metadata.snapshots) == KEPT
    catalog.close()
