"""A driver that is asked to end: it cleans up, however often it is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tableformat.catalogs import SqlConfig
from tableformat.maintenance.compaction import CompactionOptions
from tableformat.maintenance.driver_environment import JOB, TERMINATION_LOG
from tableformat.maintenance.job import CompactWork, MaintenanceJob

# From a terminal, Ctrl-C reaches the command line and its driver alike, and the one then asks the other.
ASKED_AGAIN = """
import os, signal, sys
from tablejobs import __main__ as driver

def carry_out(*_, **__):
    try:
        os.kill(os.getpid(), signal.{first})
    finally:
        os.kill(os.getpid(), signal.{second})
        os.kill(os.getpid(), signal.{first})
        print("cleaned up")

driver.carry_out = carry_out
sys.exit(driver.main())
"""


@pytest.mark.parametrize(("first", "second", "code"), [("SIGINT", "SIGTERM", 130), ("SIGTERM", "SIGINT", 143)])
def test_a_driver_that_is_asked_again_to_end_cleans_up_to_the_end(
    tmp_path: Path, first: str, second: str, code: int
) -> None:
    catalog = SqlConfig(name="test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    options = CompactionOptions(target_file_bytes=2048, min_file_bytes=1024)
    job = MaintenanceJob(run_id="run", catalog=catalog, identifier=("db", "t"), work=CompactWork(options=options))
    environment = {**os.environ, JOB: job.model_dump_json(), TERMINATION_LOG: str(tmp_path / "report")}
    command = [sys.executable, "-c", ASKED_AGAIN.format(first=first, second=second)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (code, "cleaned up\n"), ended.stderr
