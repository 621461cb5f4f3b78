"""Which engine should be the kernel: pyarrow, DataFusion and DuckDB at the same rewrites of the same files.

Each measurement runs in a process of its own, so that peak memory is its own; the engines take turns, so that other
load on the machine meets them alike. What each does to types that are hard to keep is checked as well, because an
engine that changes a value is out of the question at any speed.

    python -m benchmarks.kernels --rows 6000000 --files 300
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

ENGINES = ("pyarrow", "datafusion", "duckdb")
WORK = ("binpack", "sort")
MEMORY = 1024**3


def generate(folder: Path, rows: int, files: int) -> None:
    import random

    random.seed(7)
    cities = [f"city-{number:04d}" for number in range(1000)]
    each = rows // files
    for number in range(files):
        start = number * each
        table = pa.table(
            {
                "id": pa.array(range(start, start + each), pa.int64()),
                "key": [f"{random.getrandbits(64):016x}" for _ in range(each)],
                "city": random.choices(cities, k=each),
                "amount": pa.array([random.randrange(10_000_000) for _ in range(each)], pa.int64()),
                "ts": pa.array(
                    [1_700_000_000_000_000 + i * 1000 for i in range(start, start + each)], pa.timestamp("us", "UTC")
                ),
            }
        )
        pq.write_table(table, folder / f"{number:05d}.parquet", compression="zstd")


def run_pyarrow(work: str, source: Path, target: Path) -> None:
    files = sorted(source.glob("*.parquet"))
    if work == "binpack":
        schema = pq.read_schema(files[0])
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            pending: list[pa.RecordBatch] = []
            for file in files:
                pending += pq.ParquetFile(file).iter_batches()
                if sum(batch.num_rows for batch in pending) >= 1024 * 1024:
                    writer.write_table(pa.Table.from_batches(pending))
                    pending = []
            if pending:
                writer.write_table(pa.Table.from_batches(pending))
    else:
        table = ds.dataset(files).to_table()
        pq.write_table(table.take(pc.sort_indices(table, [("key", "ascending")])), target, compression="zstd")


def run_datafusion(work: str, source: Path, target: Path) -> None:
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

    runtime = RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(MEMORY)
    context = SessionContext(SessionConfig().with_target_partitions(2), runtime)
    context.register_parquet("t", str(source))
    order = "order by key" if work == "sort" else ""
    context.sql(
        f"copy (select * from t {order}) to '{target}' stored as parquet options ('format.compression' 'zstd(3)')"
    ).collect()


def run_duckdb(work: str, source: Path, target: Path) -> None:
    import duckdb

    connection = duckdb.connect(config={"threads": 2, "memory_limit": f"{MEMORY}B", "temp_directory": f"{target}.tmp"})
    order = "order by key" if work == "sort" else ""
    connection.sql(
        f"copy (select * from '{source}/*.parquet' {order}) to '{target}' (format parquet, compression zstd)"
    )


def odd_types() -> pa.Table:
    import decimal
    import uuid

    def ids(field: pa.Field, number: int) -> pa.Field:
        return field.with_metadata({"PARQUET:field_id": str(number)})

    fields = [
        ids(pa.field("fixed", pa.binary(4)), 1),
        ids(pa.field("uuid", pa.uuid()), 2),
        ids(pa.field("decimal", pa.decimal128(38, 10)), 3),
        ids(pa.field("timestamp", pa.timestamp("us")), 4),
        ids(pa.field("timestamptz", pa.timestamp("us", "UTC")), 5),
        ids(pa.field("time", pa.time64("us")), 6),
        ids(pa.field("binary", pa.binary()), 7),
        ids(pa.field("required", pa.int32(), nullable=False), 8),
        ids(
            pa.field("lists", pa.list_(ids(pa.field("element", pa.struct([ids(pa.field("x", pa.int32()), 11)])), 10))),
            9,
        ),
        ids(
            pa.field(
                "map", pa.map_(ids(pa.field("key", pa.string(), False), 13), ids(pa.field("value", pa.int64()), 14))
            ),
            12,
        ),
    ]
    row = {
        "fixed": b"\xff\x00ab",
        "uuid": uuid.UUID(int=7).bytes,
        "decimal": decimal.Decimal("-1234567890123456789012345678.0123456789"),
        "timestamp": -62_135_596_800_000_000,
        "timestamptz": 253_402_300_799_999_999,
        "time": 86_399_999_999,
        "binary": b"\xff\x00",
        "required": 1,
        "lists": [{"x": 1}, None],
        "map": [("k", None)],
    }
    return pa.Table.from_pylist(
        [row, {"required": 2}, {"required": 3, "lists": [], "map": []}], schema=pa.schema(fields)
    )


def fidelity(engine: str, folder: Path) -> list[str]:
    """The columns whose values, stored type, nullability or field ids are not what they were."""
    source = folder / "odd"
    source.mkdir(exist_ok=True)
    pq.write_table(odd_types(), source / "0.parquet", store_schema=False)
    target = folder / f"odd-{engine}.parquet"
    try:
        RUN[engine]("binpack", source, target)
    except Exception as error:
        return [f"fails: {str(error).splitlines()[0]}"]
    before, after = pq.ParquetFile(source / "0.parquet"), pq.ParquetFile(target)
    old, new = before.read(), after.read()
    changed = []
    for field in old.schema:
        other = new.schema.field(field.name)
        if field.type != other.type:
            changed.append(f"{field.name}: {field.type} became {other.type}")
        elif old[field.name].to_pylist() != new[field.name].to_pylist():
            changed.append(f"{field.name}: other values")
        elif field.nullable != other.nullable:
            changed.append(f"{field.name}: nullability")
    if "field_id=1 " not in str(after.schema):
        changed.append("field ids are gone")
    return changed


RUN = {"pyarrow": run_pyarrow, "datafusion": run_datafusion, "duckdb": run_duckdb}


def one(engine: str, work: str, folder: Path) -> None:
    target = folder / f"out-{engine}-{work}.parquet"
    started = time.perf_counter()
    RUN[engine](work, folder / "in", target)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "out_mib": target.stat().st_size // 2**20}))
    target.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "WORK", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one[0], arguments.one[1], Path(arguments.one[2]))
        return
    folder = Path(tempfile.mkdtemp(prefix="kernels-"))
    try:
        (folder / "in").mkdir()
        generate(folder / "in", arguments.rows, arguments.files)
        size = sum(file.stat().st_size for file in (folder / "in").iterdir()) // 2**20
        print(f"{arguments.rows} rows, {arguments.files} files, {size} MiB; median of {arguments.repeat}")
        measured: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(arguments.repeat):
            for work in WORK:
                for engine in ENGINES:
                    command = [sys.executable, __file__, "--one", engine, work, str(folder)]
                    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    measured.setdefault((work, engine), []).append(json.loads(output))
        for (work, engine), found in measured.items():
            seconds = statistics.median(run["seconds"] for run in found)
            peak = max(run["peak_mib"] for run in found)
            print(f"{work:8} {engine:11} {seconds:6.2f} s  peak {peak:6.0f} MiB  output {found[0]['out_mib']:.0f} MiB")
        for engine in ENGINES:
            print(f"{engine:11} changes: {'; '.join(fidelity(engine, folder)) or 'nothing'}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
