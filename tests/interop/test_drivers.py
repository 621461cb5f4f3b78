"""A driver as a process, with a Spark of its own: where tasks fail, its report names the file and the reason."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tableformat.catalogs import SqlConfig
from tableformat.maintenance.compaction import CompactionOptions
from tableformat.maintenance.job import CompactWork, JobReport, MaintenanceJob
from tests.integration.compaction.tables import (
    IDENTIFIER,
    assert_near_the_target_and_in_order,
    create,
    data_files,
    plain_rows,
    put_file,
    repeated_cities,
    shuffled_files,
    sql_catalog,
)
from tests.servers import toolchain


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path)


# What every Python of a driver begins with: the process that rewrites a certain partition is killed.
DEADLY = """
import os
from tableformat.maintenance import executor
real = executor.rewrite
def rewrite(task, **options):
    if any("{victim}" in source.path for source in task.sources):
        os.kill(os.getpid(), 9)
    return real(task, **options)
executor.rewrite = rewrite
"""

# A second shuffle of one sort fails.
ONE_SHUFFLE = """
from pyspark import RDD
real = RDD.partitionBy
def once(self, *arguments):
    RDD.partitionBy = None
    return real(self, *arguments)
RDD.partitionBy = once
"""


def compacted_by_a_driver(
    table: Table, folder: Path, *, cores: int = 2, beginning: str | None = None, **changes: Any
) -> tuple[int, JobReport]:
    """Its exit code and its report; the table is in the catalog of the folder."""
    size = sum(file.file_size_in_bytes for file in data_files(table))
    known = {"target_file_bytes": size // 3, "min_file_bytes": size // 3 - 1, "min_input_files": 1}
    options = CompactionOptions.model_validate(known | {"commit_every_tasks": 64} | changes)
    catalog = SqlConfig(name="test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    job = MaintenanceJob(run_id="run", catalog=catalog, identifier=IDENTIFIER, work=CompactWork(options=options))
    report = folder / "termination-log"
    environment = {
        **os.environ,
        "JAVA_HOME": str(Path(toolchain.java()).resolve().parent.parent),
        "TABLEWRIGHT_JOB": job.model_dump_json(),
        "TABLEWRIGHT_TERMINATION_LOG": str(report),
    }
    if beginning is not None:
        (folder / "sitecustomize.py").write_text(beginning)
        environment["PYTHONPATH"] = str(folder)
    ended = subprocess.run(
        [sys.executable, "-m", "tablejobs", "--cores", str(cores)], env=environment, capture_output=True
    )
    assert report.exists(), ended.stderr.decode()
    return ended.returncode, JobReport.model_validate_json(report.read_text())


def test_a_divided_sort_moves_its_rows_once_and_joins_ranges_to_files_near_the_target(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = create(catalog)
    repeated_cities(table)
    target = sum(file.file_size_in_bytes for file in data_files(table)) // 12
    sizes = {"target_file_bytes": target, "min_file_bytes": target - 1}
    order = [{"name": "city"}, {"name": "id"}]

    code, report = compacted_by_a_driver(table, tmp_path, beginning=ONE_SHUFFLE, strategy="sort", order=order, **sizes)

    assert code == 0, report.message
    assert_near_the_target_and_in_order(table.refresh(), target)


def test_storage_that_takes_no_file_is_named_and_tried_again(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = create(catalog, properties={"write.data.path": "file:///dev/full/data"})
    shuffled_files(table)

    code, report = compacted_by_a_driver(table, tmp_path)

    assert (code, report.reason) == (1, "UnwritableDataFile")
    assert "file:///dev/full/data/" in report.message
    assert "Not a directory" in report.message


def test_a_task_whose_process_is_killed_each_time_keeps_no_other_from_being_done(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    paths = {}
    for city in (f"city {number}" for number in range(5)):
        paths[city] = [put_file(table, plain_rows(number, 1), partition=Record(city)) for number in range(5)]

    deadly = DEADLY.format(victim=paths["city 0"][0])
    code, report = compacted_by_a_driver(table, tmp_path, cores=1, beginning=deadly)

    assert (code, report.reason) == (1, "TaskFailed"), report.message
    assert "begun 4 times, and each time its process was gone" in report.message
    assert report.compaction is not None
    assert (report.compaction.files_rewritten, report.compaction.files_added) == (20, 4), "what was done is told"
    by_city = Counter(file.partition[0] for file in data_files(table.refresh()))
    assert by_city == {"city 0": 5, "city 1": 1, "city 2": 1, "city 3": 1, "city 4": 1}


def test_a_truncated_file_of_a_divided_sort_is_named_and_nothing_that_was_written_stays(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = create(catalog)
    broken = Path(shuffled_files(table)[4].removeprefix("file://"))
    broken.write_bytes(broken.read_bytes()[:-1])
    before = set(broken.parent.iterdir())

    code, report = compacted_by_a_driver(table, tmp_path, strategy="sort", order=[{"name": "id"}])

    assert (code, report.reason) == (2, "UnreadableDataFile")
    assert broken.name in report.message
    assert "bytes, and its manifest says" in report.message
    assert set(broken.parent.iterdir()) == before
