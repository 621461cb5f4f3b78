"""`make demo`: two declared tables, a stream of small files, and what the operator's core makes of them.

Everything stays in the folder `demo/` of the checkout, to play with afterwards. No cluster, no container, no root.
"""

import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog

from tableformat.catalogs import SqlConfig, open_catalog

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"
FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)
DAYS, APPENDS, ROWS = 3, 40, 200


def main() -> int:
    shutil.rmtree(DEMO, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "quickstart", DEMO, ignore=shutil.ignore_patterns(".tablewright"))
    _say("1. Declare two tables (demo/payments.yaml) and apply them")
    _apply()
    state = DEMO / ".tablewright"
    catalog = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{state}/catalog.db", warehouse=f"file://{state}/warehouse")
    )
    _say(f"2. A writer streams {APPENDS} small commits to {DAYS} days of payments")
    _write(catalog)
    before = _figures(catalog)
    _say("3. Apply again: the tables are past their policy, so they are compacted with Spark")
    _apply()
    after = _figures(catalog)
    _say(
        "4. The old snapshots still hold the old files. Their retention (1 second, in this demo) is applied by schedule"
    )
    _wait_for_the_next_minute()
    _apply()
    last = _figures(catalog)
    _say("5. Before, compacted, expired")
    names = ("live files", "live bytes", "rows", "checksum", "files on disk")
    for name, *values in zip(names, before, after, last, strict=True):
        print(f"   {name:<14}" + " -> ".join(f"{value:>20,}" for value in values))
    if not before[2:4] == after[2:4] == last[2:4]:
        print("error: the rows changed", file=sys.stderr)
        return 1
    print("\nYours to play with:")
    print(f"   {_command()} apply -f demo   # does nothing but what is due")
    print("   $EDITOR demo/payments.yaml            # add a column, then apply again; try `type: int` for txn_id, too")
    return 0


def _wait_for_the_next_minute() -> None:
    seconds = 61 - datetime.now(UTC).second
    print(f"   (schedule: every minute; waiting {seconds} s)", flush=True)
    time.sleep(seconds)


def _apply() -> None:
    print(f"   $ {_command()} apply -f demo", flush=True)
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "tablewright", "apply", "-f", str(DEMO)], check=True)
    print(f"   ({time.monotonic() - started:.1f} s)")


def _command() -> str:
    return f"{Path(sys.executable).parent.relative_to(ROOT)}/tablewright"


def _write(catalog: Catalog) -> None:
    payments = catalog.load_table(("sales", "payments"))
    merchants = catalog.load_table(("sales", "merchants"))
    payments_schema, merchants_schema = payments.schema().as_arrow(), merchants.schema().as_arrow()
    for number in range(APPENDS):
        ids = range(number * ROWS, (number + 1) * ROWS)
        columns = {
            "txn_id": list(ids),
            "merchant_id": [f"m{n % 97}" for n in ids],
            "amount_paise": [(n * 7919) % 1_000_000 for n in ids],
            "ts": [FIRST_DAY + timedelta(days=n % DAYS, seconds=n % 86400) for n in ids],
            "items": [None if n % 5 == 0 else [{"sku": f"sku-{n % 31}", "qty": n % 4}] for n in ids],
        }
        payments.append(pa.Table.from_pydict(columns, schema=payments_schema))
        rows = {"merchant_id": [f"m{number}"], "city": ["Pune" if number % 2 else "Kochi"]}
        merchants.append(pa.Table.from_pydict(rows, schema=merchants_schema))


def _figures(catalog: Catalog) -> tuple[int, int, int, int, int]:
    """Live files and bytes, rows and a checksum that does not depend on their order, and data files on disk."""
    table = catalog.load_table(("sales", "payments"))
    files = table.inspect.data_files()
    rows = table.scan(selected_fields=("txn_id", "amount_paise")).to_arrow()
    checksum = sum(hash(pair) for pair in zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
    size = sum(files["file_size_in_bytes"].to_pylist())
    on_disk = len(list(Path(table.location().removeprefix("file://")).rglob("*.parquet")))
    return files.num_rows, size, rows.num_rows, checksum % (1 << 61), on_disk


def _say(text: str) -> None:
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
