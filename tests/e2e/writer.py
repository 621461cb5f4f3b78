"""A writer as anybody has one: appends to a table by PyIceberg, commit after commit. Runs in a pod, by its text."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
from pydantic import TypeAdapter

from tableformat.catalogs import open_catalog
from tableformat.catalogs.config import CatalogConfig

CITIES = ("Delhi", "Kochi", "Pune", "Surat")


def rows(first: int, count: int, payload: int = 0) -> pa.Table:
    """With a column of so many bytes a row, if any: nothing on disk, and much in memory."""
    numbers = range(first, first + count)
    table = pa.table(
        {
            "txn_id": pa.array(numbers, pa.int64()),
            "city": pa.array([CITIES[number % len(CITIES)] for number in numbers], pa.string()),
            "amount": pa.array([number % 100 for number in numbers], pa.int32()),
        },
        schema=pa.schema(
            [
                pa.field("txn_id", pa.int64(), nullable=False),
                pa.field("city", pa.string()),
                pa.field("amount", pa.int32()),
            ]
        ),
    )
    return table.append_column("payload", pa.array([bytes(payload)] * count, pa.binary())) if payload else table


def main() -> None:
    work = json.loads(os.environ["WORK"])
    catalog = open_catalog(TypeAdapter(CatalogConfig).validate_json(os.environ["CATALOG"]))
    number = work["first"]
    table = catalog.load_table(tuple(work["identifier"]))
    left = work["commits"]
    while left:
        table.refresh()
        table.append(rows(number, work["rows"]))
        number += work["rows"]
        if not work["after"] or work["after"] in table.schema().column_names:
            left -= 1
        time.sleep(work["pause"])
    Path("/dev/termination-log").write_text(json.dumps([work["first"], number]))


if __name__ == "__main__":
    main()
