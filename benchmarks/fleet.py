"""How long `tablewright apply` takes to compact a folder of small tables.

    .venv/bin/python -m benchmarks.fleet --tables 8

Each table has a dozen files of 1,000 rows, and is past its policy. What is timed is the whole command, as a user runs
it: its start, the passes, Spark, and its end. Java's own start is part of it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from tableformat.catalogs import open_catalog
from tablewright.embedded.catalogs import embedded_catalog

TABLE = """\
apiVersion: tablewright.dev/v1alpha1
kind: ManagedTable
metadata: {{name: t{number}, namespace: fleet}}
spec:
  catalogRef: {{name: lake}}
  schema: {{columns: [{{name: id, type: long}}, {{name: name, type: string}}]}}
  compaction: {{triggers: {{smallFiles: {files}}}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--files", type=int, default=12, help="in each table, of 1,000 rows each (default: 12)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tablewright-fleet-") as folder:
        fill(Path(folder), options.tables, options.files)
        load, began = os.getloadavg()[0], time.monotonic()
        apply(Path(folder))
        seconds = time.monotonic() - began
        cores = len(os.sched_getaffinity(0))
        print(
            f"{options.tables} tables of {options.files} files: {seconds:.1f} s ({cores} cores, load {load:.1f} before)"
        )


def apply(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "tablewright", "apply", "-f", str(folder)], check=True)


def fill(folder: Path, tables: int, files: int) -> None:
    for number in range(tables):
        (folder / f"t{number}.yaml").write_text(TABLE.format(number=number, files=files))
    apply(folder)
    catalog = open_catalog(embedded_catalog("fleet", "lake", folder / ".tablewright").config({}))
    for number in range(tables):
        table = catalog.load_table(("fleet", f"t{number}"))
        for first in range(0, files * 1000, 1000):
            ids = list(range(first, first + 1000))
            table.append(pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{each}" for each in ids]}))


if __name__ == "__main__":
    main()
