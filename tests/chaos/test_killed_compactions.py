"""A compaction killed at any moment, and started again, ends as if nothing had happened."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.compaction.tables import append_many, create, data_files, scanned_rows, sql_catalog

_RUN = """
import sys
from pathlib import Path
from tableformat.maintenance.compaction import CompactionOptions
from tests.integration.compaction.tables import compacted, sql_catalog
options = CompactionOptions(target_file_bytes=4096, max_bytes_per_task=4096, commit_every_tasks=eval(sys.argv[3]))
print("ready", flush=True)
compacted(sql_catalog(Path(sys.argv[1])), options, run_id=sys.argv[2])
"""


@pytest.mark.parametrize("commit_every", [None, 1])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_run_is_finished_by_the_next(tmp_path: Path, commit_every: int | None, seed: int) -> None:
    catalog, source = sql_catalog(tmp_path), random.Random(seed)
    table = create(catalog)
    append_many(table, 12, rows=50)
    before = scanned_rows(table)
    command = [sys.executable, "-c", _RUN, str(tmp_path), "the run", repr(commit_every)]

    for _ in range(4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(source.uniform(0, 0.6))
            process.kill()
        assert scanned_rows(table.refresh()) == before  # whole at every moment
    subprocess.run(command, check=True, capture_output=True, timeout=120)

    assert scanned_rows(table.refresh()) == before
    assert len(data_files(table)) < 12
    replaced = [s for s in table.metadata.snapshots if s.summary and s.summary.operation.value == "replace"]
    assert replaced
    if commit_every is None:
        assert len(replaced) == 1
    catalog.close()
