"""Our compaction beside Iceberg Java's `rewrite_data_files`, in one run on the same files and cores.

Each side gets the same table again for every measurement, and they take turns, so that other load meets both. Java runs
in one Spark session with two cores: its first run is cold, the others are warm. Ours runs the library in one process of
its own on the same cores, which is warm after its first run too; what Spark adds around it in a job is measured by the
jobs' own tests. Memory is the peak of each side's process so far, Java's heap having Spark's default limit.

    python -m benchmarks.compaction --rows 6000000 --files 300
"""

import argparse
import multiprocessing
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.servers.spark import LocalSpark

TARGET = 512 * 1024 * 1024
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "key", StringType(), required=False),
    NestedField(3, "city", StringType(), required=False),
    NestedField(4, "amount", LongType(), required=False),
    NestedField(5, "ts", TimestamptzType(), required=False),
)
OURS: dict[str, dict[str, object]] = {
    "bin-pack": {},
    "sort by a string": {"strategy": "sort", "order": [{"name": "key"}]},
    "z-order of two": {"strategy": "zorder", "order": [{"name": "city"}, {"name": "amount"}]},
}
JAVA = {
    "bin-pack": "strategy => 'binpack'",
    "sort by a string": "strategy => 'sort', sort_order => 'key'",
    "z-order of two": "strategy => 'sort', sort_order => 'zorder(city, amount)'",
}
DELETES, EQUALITY_DELETES = " with deletes", " with equality deletes"
LINES = [*product(OURS, ("", DELETES)), ("bin-pack", EQUALITY_DELETES)]


class Bench:
    def __init__(self, folder: Path, rows: int, files: int) -> None:
        self.name = "bench"
        self.database, self.warehouse = folder / "catalog.db", folder / "warehouse"
        self.config = SqlConfig(name=self.name, uri=f"sqlite:///{self.database}", warehouse=f"file://{self.warehouse}")
        self.catalog: Catalog = open_catalog(self.config)
        self.catalog.create_namespace("db")
        table = self.catalog.create_table(("db", "source"), SCHEMA, properties={"format-version": "2"})
        random, each = np.random.default_rng(7), rows // files
        cities = np.array([f"city-{number:04d}" for number in range(1000)])
        for number in range(files):
            ids = np.arange(number * each, (number + 1) * each)
            table.append(
                pa.table(
                    {
                        "id": ids,
                        "key": [f"{value:016x}" for value in random.integers(0, 2**63, each)],
                        "city": cities[random.integers(0, 1000, each)],
                        "amount": random.integers(0, 10_000_000, each),
                        "ts": pa.array(1_700_000_000_000_000 + ids * 1000, pa.timestamp("us", "UTC")),
                    }
                )
            )
        plain = table.refresh().metadata_location
        paths = [task.file.file_path for task in table.scan().plan_files()]
        deleted = range(0, each, 20)
        for start in range(0, files, 10):  # one row of twenty, as merge-on-read writers leave them
            delete_positions(table, dict.fromkeys(paths[start : start + 10], deleted))
        upserted = self.catalog.register_table(("db", "upserted"), plain)
        delete_equal(upserted, ["id"], [{"id": number} for number in range(0, rows, 20)])  # as Flink's upserts do
        self.states = {
            "": plain,
            DELETES: table.refresh().metadata_location,
            EQUALITY_DELETES: upserted.refresh().metadata_location,
        }

    def fresh(self, state: str) -> str:
        """A table of its own with the original files; rewriting it leaves those as they are."""
        name = f"t_{uuid.uuid4().hex[:8]}"
        self.catalog.register_table(("db", name), self.states[state])
        return name

    def data_files(self, name: str) -> int:
        table = self.catalog.load_table(("db", name))
        files = table.inspect.files()
        return sum(content == DataFileContent.DATA for content in files["content"].to_pylist())


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compact_once(config: SqlConfig, name: str, work: str) -> tuple[float, int]:
    """In the process of our side: the seconds of one compaction, and the peak of memory up to now."""
    options = CompactionOptions.model_validate({"target_file_bytes": TARGET, **OURS[work]})
    with open_catalog(config) as catalog:
        seconds = timed(
            lambda: compact(
                catalog,
                ("db", name),
                options,
                executor=InProcessExecutor(),
                run_id=uuid.uuid4().hex,
                now=datetime.now(UTC),
            )
        )
    return seconds, peak_mib("self")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the first of Java's is its cold one")
    parser.add_argument("--only", nargs="*", metavar="WORK", help="these lines only, such as 'sort by a string'")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="compaction-"))
    spark = LocalSpark(folder / "spark")
    our_side = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        bench = Bench(folder, arguments.rows, arguments.files)
        spark.use_sqlite_catalog(bench.name, bench.database, bench.warehouse)

        def java(work: str, state: str) -> float:
            name = bench.fresh(state)
            call = (
                f"CALL {bench.name}.system.rewrite_data_files(table => 'db.{name}', {JAVA[work]}, options => "
                f"map('target-file-size-bytes', '{TARGET}', 'rewrite-all', 'true'))"
            )
            seconds = timed(lambda: spark.session.sql(call).collect())
            require_one_file(bench, name)
            return seconds

        def ours(work: str, state: str) -> tuple[float, int]:
            name = bench.fresh(state)
            found = our_side.submit(compact_once, bench.config, name, work).result()
            require_one_file(bench, name)
            return found

        print(f"{arguments.rows} rows in {arguments.files} files; warm: the median of {arguments.repeat - 1} runs")
        for work, state in LINES:
            line = work + state
            if arguments.only and line not in arguments.only:
                continue
            runs = [(java(work, state), *ours(work, state)) for _ in range(arguments.repeat)]
            (java_cold, ours_cold, _), warm = runs[0], runs[1:]
            java_warm, ours_warm = (statistics.median(run[side] for run in warm) for side in (0, 1))
            print(
                f"{line:30} first {java_cold:6.2f} s and {ours_cold:6.2f} s ({java_cold / ours_cold:.1f}x)   "
                f"warm {java_warm:6.2f} s and {ours_warm:6.2f} s ({java_warm / ours_warm:.1f}x)   "
                f"peak {peak_mib(jvm_pid(spark))} MiB and {runs[-1][2]} MiB",
                flush=True,
            )
    finally:
        our_side.shutdown()
        spark.stop()
        shutil.rmtree(folder)


def require_one_file(bench: Bench, name: str) -> None:
    if (count := bench.data_files(name)) != 1:
        raise SystemExit(f"db.{name} has {count} data files, not one: the two sides did not do the same work")


def jvm_pid(spark: LocalSpark) -> str:
    gateway = spark.session.sparkContext._gateway
    return str(gateway.jvm.java.lang.ProcessHandle.current().pid()) if gateway is not None else "self"


def peak_mib(pid: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
