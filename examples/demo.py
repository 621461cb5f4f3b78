"""`make demo`: two declared tables, a stream of small files, and what Tablewright makes of them.

Everything stays in the folder `demo/` of the checkout, to play with afterwards. No cluster, no container, no root, no
network. The commands that are shown are the ones that run.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table

from tableformat.catalogs import SqlConfig, open_catalog

ROOT = Path(__file__).absolute().parent.parent
DEMO = ROOT / "demo"
COMMAND = f"{Path(sys.executable).parent.relative_to(ROOT)}/tablewright"
FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)
DAYS, BATCHES, ROWS, SINGLE, CORRECTIONS = 8, 80, 60, 25, 3
MERCHANTS = 97


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Two tables, a stream of small files, and what Tablewright makes of them."
    )
    parser.add_argument("--bursts", type=int, default=12, help="of a few hundred files each (default: %(default)s)")
    bursts = parser.parse_args().bursts
    started = time.monotonic()
    if DEMO.exists():
        print(f"error: {DEMO.name}/ is there already, and may be yours: rm -r {DEMO.name}, then again", file=sys.stderr)
        return 2
    shutil.copytree(ROOT / "examples" / "quickstart", DEMO, ignore=shutil.ignore_patterns(".tablewright"))
    _say("1. Two tables are declared in demo/payments.yaml. Create them")
    _run("apply -f demo")
    begun = datetime.now(UTC)

    _say("2. A writer streams payments in small batches; a quarter of them are late, and some are corrected or undone")
    catalog = _catalog()
    _stream(catalog, bursts)
    _leave_junk(catalog)
    _say("3. The health goes bad")
    _run("inspect payments -f demo")
    before = _measure(catalog)

    _say("4. Reconcile: what is past the policy or due by its schedule is compacted, expired and cleaned up")
    _wait_for_the_schedule(begun)
    _run("plan -f demo")
    _run("apply -f demo")
    after = _measure(catalog)
    _say("5. Before and after")
    _compare(before, after)
    if (before.rows, before.checksum) != (after.rows, after.checksum):
        print("error: the rows changed", file=sys.stderr)
        return 1

    _say("6. Evolve the schema: a new column and a rename, in one commit, without a rewrite")
    _edit("- {name: merchant_id, type: string}", "- {name: shop_id, type: string, previousNames: [merchant_id]}")
    _edit("columns: [merchant_id]}", "columns: [shop_id]}")
    _edit("- {name: ts, type: timestamptz}", "- {name: ts, type: timestamptz}\n      - {name: channel, type: string}")
    _run("plan -f demo")
    _run("apply -f demo")

    _say("7. Travel back in time: a mistake is made, looked at, and undone")
    table = catalog.load_table(("sales", "payments"))
    good = table.current_snapshot()
    table.delete("amount_paise > 500000")
    wrong = table.scan().count()
    past = table.scan(snapshot_id=good.snapshot_id).count()
    print(f"   {after.rows - wrong:,} payments are gone by mistake; the snapshot before still has all {past:,}")
    _run(f"diff payments {good.snapshot_id} current -f demo")
    _run(f"rollback payments --to-snapshot {good.snapshot_id} --allow-losing-commits -f demo")
    restored = _measure(catalog)
    if (restored.rows, restored.checksum) != (after.rows, after.checksum):
        print("error: the rollback did not bring the rows back", file=sys.stderr)
        return 1

    _say("8. A bad change is refused, with the field and the remedy, and nothing happens")
    _edit("- {name: txn_id, type: long, required: true", "- {name: txn_id, type: int, required: true")
    _run("plan -f demo", expected=1)
    _edit("- {name: txn_id, type: int, required: true", "- {name: txn_id, type: long, required: true")

    _say("9. The report")
    _run("report -f demo -o demo/report.html")
    print(
        f"\nThat took {time.monotonic() - started:.0f} s. Yours to play with, in the folder demo/; three next commands:"
    )
    print(f"   {COMMAND} history payments -f demo")
    print("   ${EDITOR:-vi} demo/payments.yaml            # add a column, say, and then:")
    print(f"   {COMMAND} plan -f demo           # then apply -f demo, or apply -f demo --watch")
    print(f"The report is file://{DEMO}/report.html")
    return 0


@dataclass(frozen=True)
class Measured:
    """What a reader notices of a table."""

    files: int
    median_bytes: int
    bytes: int
    on_disk: int
    requests: int
    seconds: float
    rows: int
    checksum: int


def _measure(catalog: Catalog) -> Measured:
    table = catalog.load_table(("sales", "payments"))
    sizes = table.inspect.data_files()["file_size_in_bytes"].to_pylist()
    merchant = table.schema().find_field(2).name  # by its id, because it is renamed on the way
    began = time.monotonic()
    scan = table.scan(row_filter=f"{merchant} == 'm7'", selected_fields=("amount_paise",))
    tasks = list(scan.plan_files())
    manifests = len(table.current_snapshot().manifests(table.io))
    scan.to_arrow()
    seconds = time.monotonic() - began
    rows = table.scan(selected_fields=("txn_id", "amount_paise")).to_arrow()
    mixed = pc.bit_wise_xor(pc.multiply(rows["txn_id"], 31), rows["amount_paise"])
    disk = list(Path(table.location().removeprefix("file://")).rglob("*.parquet"))
    return Measured(
        files=len(sizes),
        median_bytes=int(statistics.median(sizes)),
        bytes=sum(sizes),
        on_disk=len(disk),
        requests=1 + manifests + sum(1 + len(task.delete_files) for task in tasks),
        seconds=seconds,
        rows=rows.num_rows,
        checksum=pc.sum(mixed).as_py(),
    )


def _compare(before: Measured, after: Measured) -> None:
    lines = [
        ("data files", f"{before.files:,}", f"{after.files:,}"),
        ("median file", f"{before.median_bytes:,} B", f"{after.median_bytes:,} B"),
        ("live bytes", f"{before.bytes:,}", f"{after.bytes:,}"),
        ("files on disk", f"{before.on_disk:,}", f"{after.on_disk:,}"),
        ("requests for one merchant's sum", f"{before.requests:,}", f"{after.requests:,}"),
        ("time for it", f"{before.seconds:.2f} s", f"{after.seconds:.2f} s"),
        ("rows", f"{before.rows:,}", f"{after.rows:,}"),
        ("checksum of the rows", str(before.checksum), str(after.checksum)),
    ]
    for name, was, now in lines:
        print(f"   {name:<32}{was:>22} -> {now:>22}")


def _stream(catalog: Catalog, bursts: int) -> None:
    """Bursts of many small files in one commit, then single small commits, corrections and deletions."""
    payments, merchants = (catalog.load_table(("sales", name)) for name in ("payments", "merchants"))
    first = 0
    for burst in range(bursts):
        with payments.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for _ in range(BATCHES):
                rows = _payments(payments, first, ROWS, day=burst % DAYS)
                first += ROWS
                for file in _dataframe_to_data_files(payments.metadata, rows, payments.io):
                    append.append_data_file(file)
        print(
            f"   burst {burst + 1} of {bursts}: {first:,} payments",
            end="\r" if sys.stdout.isatty() else "\n",
            flush=True,
        )
    for number in range(SINGLE):
        payments.append(_payments(payments, first, ROWS, day=number % DAYS))
        first += ROWS
        rows = {"merchant_id": [f"m{number}"], "city": ["Pune" if number % 2 else "Kochi"]}
        merchants.append(pa.Table.from_pydict(rows, schema=merchants.schema().as_arrow()))
    for number in range(CORRECTIONS):
        wrong = number * 20 * ROWS
        corrected = _payments(payments, wrong, ROWS, day=number)
        payments.overwrite(corrected, overwrite_filter=f"txn_id >= {wrong} and txn_id < {wrong + ROWS}")
        payments.delete(f"txn_id >= {wrong + ROWS} and txn_id < {wrong + 2 * ROWS}")
    files, changed = len(payments.inspect.data_files()), CORRECTIONS * ROWS
    print(f"   {first:,} payments, {changed} of them corrected and {changed} undone, in {files:,} files")


def _payments(table: Table, first: int, count: int, *, day: int) -> pa.Table:
    ids = range(first, first + count)

    def time_of(n: int) -> datetime:
        late = n % 4 == 0  # of an earlier day, and only now here
        return FIRST_DAY + timedelta(days=max(0, day - 1 - n % 3) if late else day, seconds=n % 86400)

    columns = {
        "txn_id": list(ids),
        "merchant_id": [f"m{n % MERCHANTS}" for n in ids],
        "amount_paise": [(n * 7919) % 1_000_000 for n in ids],
        "ts": [time_of(n) for n in ids],
        "items": [None if n % 5 == 0 else [{"sku": f"sku-{n % 31}", "qty": n % 4}] for n in ids],
    }
    return pa.Table.from_pydict(columns, schema=table.schema().as_arrow())


def _leave_junk(catalog: Catalog) -> None:
    """What a writer leaves that died four days ago: files that no snapshot leads to."""
    folder = Path(catalog.load_table(("sales", "payments")).location().removeprefix("file://")) / "data"
    some = next(iter(folder.rglob("*.parquet")))
    died = time.time() - timedelta(days=4).total_seconds()
    for number in range(5):
        left = folder / f"left-behind-{number}.parquet"
        shutil.copyfile(some, left)
        os.utime(left, (died, died))


def _wait_for_the_schedule(begun: datetime) -> None:
    """The demo's schedules are of every minute, counted from the tables' creation."""
    due = begun.replace(second=0, microsecond=0) + timedelta(minutes=1, seconds=1)
    seconds = (due - datetime.now(UTC)).total_seconds()
    if seconds > 0:
        print(f"   (schedules of every minute: waiting {seconds:.0f} s)", flush=True)
        time.sleep(seconds)


def _run(arguments: str, *, expected: int = 0) -> None:
    print(f"   $ {COMMAND} {arguments}", flush=True)
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "tablewright", *arguments.split()], cwd=ROOT, check=False)
    print(f"   ({time.monotonic() - started:.1f} s)", flush=True)
    if done.returncode != expected:
        raise SystemExit(f"error: {arguments} ended with {done.returncode}, not {expected}")


def _edit(old: str, new: str) -> None:
    file = DEMO / "payments.yaml"
    text = file.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"error: demo/payments.yaml has {old!r} {text.count(old)} times")
    print(f"   demo/payments.yaml: {json.dumps(old)} becomes {json.dumps(new)}")
    file.write_text(text.replace(old, new))


def _catalog() -> Catalog:
    state = DEMO / ".tablewright"
    return open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{state}/catalog.db", warehouse=f"file://{state}/warehouse")
    )


def _say(text: str) -> None:
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
