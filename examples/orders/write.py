"""Twelve small commits to the table shop.orders, as a stream would make them."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.catalog import load_catalog

catalog = load_catalog("lake", type="sql", uri="sqlite:///my-tables/.tablewright/catalog.db")
orders = catalog.load_table("shop.orders")
order_id, city, ts = orders.schema().column_names  # a column may have been renamed in the declaration
for batch in range(12):
    ids = range(batch * 100, batch * 100 + 100)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    rows = {order_id: list(ids), city: ["Pune"] * 100, ts: [start + timedelta(minutes=n) for n in ids]}
    orders.append(pa.Table.from_pydict(rows, schema=orders.schema().as_arrow()))
