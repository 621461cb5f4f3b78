"""Our expiry, orphan scan and manifest rewrite beside Iceberg Java's, in one run, each on a table of its own.

Each side has a process of its own, which does a small piece of the same work first, so that both are warm. Seconds are
by the clock, and by the processor: on a busy machine the second is the fairer one. Memory is the peak of the process
that works: ours, or Java's with the heap that Spark has here by default (2 GB at most). The last lines are a table of
ratios for docs/performance.md; both sides must have found the same work to do, or there is none.

    python -m benchmarks.maintenance
    python -m benchmarks.maintenance --works manifests --entries 10000
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from benchmarks.histories import long_history, many_files
from benchmarks.planning import Generator
from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tests.servers import binaries
from tests.servers.s3 import REGION, S3Access, S3Server

if TYPE_CHECKING:
    from tests.servers.spark import LocalSpark

WORKS = ("expiry", "orphans", "manifests")
DAY_MS = 24 * 3600 * 1000
BUCKET, ORPHAN_PERCENT, FOLDERS = "lake", 5, 100
FILES_PER_MANIFEST = 100
LINKS = 10_000  # to one file; file systems have limits
NAMES = ("warm", "large")


@dataclass(frozen=True)
class Lake:
    """A catalog in a folder: its tables are local, or on the S3 server whose buckets are in that folder."""

    folder: Path
    s3: S3Access | None = None

    @property
    def warehouse(self) -> str:
        return f"file://{self.folder / 'warehouse'}" if self.s3 is None else f"s3://{BUCKET}/warehouse"

    def open(self) -> Catalog:
        properties = self.s3.file_io_properties() if self.s3 else {}
        uri = f"sqlite:///{self.folder / 'catalog.db'}"
        catalog = open_catalog(SqlConfig(name="bench", uri=uri, warehouse=self.warehouse, properties=properties))
        catalog.create_namespace_if_not_exists("db")
        return catalog

    def root(self, name: str) -> Path:
        base = self.folder if self.s3 is None else self.folder / "s3" / "buckets" / BUCKET
        return base / "warehouse" / "db.db" / name

    def show_to(self, spark: "LocalSpark") -> None:
        spark.use_sqlite_catalog("bench", self.folder / "catalog.db", self.folder / "warehouse")
        if self.s3 is None:
            return
        options = {
            "warehouse": self.warehouse,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.s3.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": self.s3.access_key,
            "s3.secret-access-key": self.s3.secret_key,
            "client.region": REGION,
        }
        for key, value in options.items():
            spark.session.conf.set(f"spark.sql.catalog.bench.{key}", value)


def make(lake: Lake, work: str, size: int) -> None:
    """The table of the work, and a small one to warm up with."""
    small = 20 * FILES_PER_MANIFEST if work == "manifests" else 100  # one manifest would not be rewritten
    for name, count in zip(NAMES, (min(size, small), size), strict=True):
        if work == "expiry":
            long_history(lake.open(), ("db", name), lake.root(name), count)
        elif work == "orphans":
            make_objects(lake, name, count)
        else:
            Generator(lake.folder, count, deletes=False, files_per_manifest=FILES_PER_MANIFEST, name=name)


def make_objects(lake: Lake, name: str, objects: int) -> None:
    root, old = lake.root(name), time.time() - 10 * 24 * 3600
    names = [f"{number % FOLDERS:02d}/{number:08d}.parquet" for number in range(objects)]
    for folder in range(FOLDERS):
        (root / "data" / f"{folder:02d}").mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(names):
        if number % LINKS == 0:
            example = str(root / "data" / each)
            Path(example).touch()
            os.utime(example, (old, old))
        else:
            os.link(example, root / "data" / each)  # many times as fast as a file of its own
    many_files(lake.open(), ("db", name), root, names[objects * ORPHAN_PERCENT // 100 :])


def ours(lake: Lake, work: str, name: str) -> int:
    catalog, identifier, now = lake.open(), ("db", name), datetime.now(UTC)
    if work == "expiry":
        options = ExpiryOptions(max_snapshot_age_ms=_age_ms(catalog, name, now), min_snapshots_to_keep=1)
        return expire_snapshots(catalog, identifier, options, now=now).files_deleted
    if work == "orphans":
        options_ = OrphanOptions(action=OrphanAction.REPORT, min_age_ms=3 * DAY_MS)
        return remove_orphans(catalog, identifier, options_, now=now).orphans
    return rewrite_manifests(catalog, identifier, ManifestOptions(), run_id=f"run-{name}").manifests_replaced


def _age_ms(catalog: Catalog, name: str, now: datetime) -> int:
    """So that the older half of the snapshots goes."""
    snapshots = catalog.load_table(("db", name)).metadata.snapshots
    return int(now.timestamp() * 1000) - snapshots[len(snapshots) // 2].timestamp_ms


def java(lake: Lake, spark: "LocalSpark", work: str, name: str) -> int:
    if work == "expiry":
        now = datetime.now(UTC)
        limit = now - timedelta(milliseconds=_age_ms(lake.open(), name, now))
        call = f"expire_snapshots(table => 'db.{name}', older_than => TIMESTAMP '{limit:%Y-%m-%d %H:%M:%S.%f}')"
        (row,) = spark.session.sql(f"CALL bench.system.{call}").collect()
        return sum(row)
    if work == "orphans":
        call = f"remove_orphan_files(table => 'db.{name}', dry_run => true, prefix_listing => true)"
        return len(spark.session.sql(f"CALL bench.system.{call}").collect())
    (row,) = spark.session.sql(f"CALL bench.system.rewrite_manifests(table => 'db.{name}')").collect()
    return int(row[0])


def measure(side: str, work: str, lake: Lake) -> dict[str, float]:
    """In this process, which is the side's own."""
    if side == "ours":
        run: Callable[[str], int] = lambda name: ours(lake, work, name)  # noqa: E731
        return _measured(run, os.getpid())
    from tests.servers.spark import LocalSpark  # the other side shall not have it in its memory

    spark = LocalSpark(lake.folder / "spark", extra_jars=(binaries.iceberg_aws_bundle(),) if lake.s3 else ())
    try:
        lake.show_to(spark)
        return _measured(lambda name: java(lake, spark, work, name), _jvm(spark))
    finally:
        spark.stop()


def _measured(run: Callable[[str], int], process: int) -> dict[str, float]:
    run(NAMES[0])
    started, busy = time.perf_counter(), _processor_seconds(process)
    count = run(NAMES[1])
    return {
        "count": count,
        "seconds": time.perf_counter() - started,
        "cpu": _processor_seconds(process) - busy,
        "peak_mib": _peak_mib(process),
    }


def _jvm(spark: "LocalSpark") -> int:
    handle = spark.session.sparkContext._jvm.java.lang.ProcessHandle  # type: ignore[union-attr]
    return int(handle.current().pid())


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(process: int) -> float:
    if process == os.getpid():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def compare(work: str, size: int) -> dict[str, dict[str, float]]:
    """Both sides on tables of their own; a scan changes nothing, and has one for both."""
    found: dict[str, dict[str, float]] = {}
    for sides in [["ours", "java"]] if work == "orphans" else [["ours"], ["java"]]:
        folder = Path(tempfile.mkdtemp(prefix=f"maintenance-{work}-"))
        server = S3Server(folder / "s3") if work == "orphans" else None
        try:
            lake = Lake(folder, server.access if server else None)
            if lake.s3 is not None:
                lake.s3.client().create_bucket(Bucket=BUCKET)
            _say(f"{work}: making a table of {size}")
            make(lake, work, size)
            for side in sides:
                _say(f"{work}: {side}")
                place = [str(folder), lake.s3.endpoint if lake.s3 else ""]
                command = [sys.executable, "-m", "benchmarks.maintenance", "--measure", side, work, *place]
                found[side] = json.loads(subprocess.check_output(command).splitlines()[-1])
                _say(f"{work}: {side} { ({key: round(value, 2) for key, value in found[side].items()}) }")
        finally:
            if server is not None:
                server.stop()
            shutil.rmtree(folder)
    return found


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def line(work: str, size: int, found: dict[str, dict[str, float]]) -> str:
    java_, ours_ = found["java"], found["ours"]
    if java_["count"] != ours_["count"]:
        return (
            f"| {work} of {size:,} | not compared: Java counts {java_['count']:.0f} and we {ours_['count']:.0f} | | |"
        )
    ratios = [f"{java_[key] / max(ours_[key], 1e-9):.1f}" for key in ("seconds", "cpu")]
    memory = f"{java_['peak_mib']:.0f} MiB, {ours_['peak_mib']:.0f} MiB"
    return f"| {work} of {size:,} | {' | '.join(ratios)} | {memory} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--measure", nargs=4, metavar=("SIDE", "WORK", "FOLDER", "ENDPOINT"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        side, work, folder, endpoint = options.measure
        lake = Lake(Path(folder), S3Access(endpoint) if endpoint else None)
        print(json.dumps(measure(side, work, lake)))
        return
    sizes = {"expiry": options.snapshots, "orphans": options.objects, "manifests": options.entries}
    lines = [line(work, sizes[work], compare(work, sizes[work])) for work in options.works]
    print("| work | times as fast, by the clock | by the processor | peak memory, Java and ours |")
    print("| --- | --- | --- | --- |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
