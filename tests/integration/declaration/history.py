"""A table's life in a dozen evolutions, with rows written before, between and after them, and what a reader must see.

Each step has the next declaration, how rows that are there must look from then on, and the rows that are written
under it. No reader is named here: PyIceberg, Spark and DuckDB are all held to the same rows.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableformat.declaration import Column, NestedAttributes, SortColumn, TableDeclaration
from tests.every_column import EVERY_COLUMN
from tests.integration.declaration.declaring import apply, column, create, partition

Row = dict[str, Any]
IDENTIFIER = ("db", "history")


@dataclass(frozen=True)
class Step:
    """`migrate` alters a row that is there to what it must read as once the declaration is applied."""

    what: str
    declaration: TableDeclaration
    migrate: Callable[[Row], object]
    new_row: Row


def _unchanged(row: Row) -> None:
    pass


def _renamed(old: str, new: str) -> Callable[[Row], object]:
    return lambda row: row.update({new: row.pop(old)})


def steps() -> Iterator[Step]:
    columns: dict[str, Column] = {
        "id": column("id", "long", required=True),
        "name": column("name"),
        "amount": column("amount", "int"),
        "price": column("price", "float"),
        "cost": column("cost", "decimal(6,2)"),
        "addr": column("addr", "struct<street: string, zip: int>"),
        "tags": column("tags", "list<struct<k: string, v: int>>"),
        "attrs": column("attrs", "map<string, struct<x: int>>"),
        "city": column("city"),
    }
    layout: dict[str, Any] = {}
    row: Row = {
        "name": "n", "amount": 1, "price": 1.5, "cost": Decimal("1.25"), "addr": {"street": "s", "zip": 10},
        "tags": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "attrs": {"m": {"x": 1}}, "city": "Pune",
    }  # fmt: skip
    number = 0

    def step(what: str, migrate: Callable[[Row], object]) -> Step:
        nonlocal number
        number += 1
        migrate(row)
        row["id"] = number
        declared = TableDeclaration(IDENTIFIER, tuple(columns.values()), **layout)
        return Step(what, declared, migrate, deepcopy(row))

    yield step("created", _unchanged)

    columns["note"] = column("note")
    yield step("a column is added", lambda row: row.update(note=None))
    row["note"] = "first life"

    columns["name"] = column("title", previous_names=("name",))
    yield step("a column is renamed", _renamed("name", "title"))

    columns["amount"] = column("amount", "long")
    columns["price"] = column("price", "double")
    columns["cost"] = column("cost", "decimal(12,2)")
    yield step("columns are widened", _unchanged)
    row.update(amount=2**40, price=0.1, cost=Decimal("9999999999.99"))

    reordered = ["note", "city", "tags", "id", "attrs", "addr", "cost", "price", "amount", "name"]
    columns = {key: columns[key] for key in reordered}
    yield step("columns are reordered", _unchanged)

    columns["addr"] = column(
        "addr",
        "struct<country: string, zip: long, road: string>",
        nested=(NestedAttributes(("road",), previous_names=("street",)),),
    )

    def rebuild_address(row: Row) -> None:
        old = row["addr"]
        row["addr"] = {"country": None, "zip": old["zip"], "road": old["street"]}

    yield step("fields of a struct are added, renamed, widened and reordered", rebuild_address)
    row["addr"] = {"country": "IN", "zip": 2**33, "road": "r"}

    columns["tags"] = column(
        "tags",
        "list<struct<label: string, v: int, w: double>>",
        nested=(NestedAttributes(("element", "label"), previous_names=("k",)),),
    )

    def rebuild_tags(row: Row) -> None:
        row["tags"] = [{"label": tag["k"], "v": tag["v"], "w": None} for tag in row["tags"]]

    yield step("fields inside a list are added and renamed", rebuild_tags)

    columns["attrs"] = column(
        "attrs",
        "map<string, struct<y: int, xx: long>>",
        nested=(NestedAttributes(("value", "xx"), previous_names=("x",)),),
    )

    def rebuild_attributes(row: Row) -> None:
        row["attrs"] = {key: {"y": None, "xx": value["x"]} for key, value in row["attrs"].items()}

    yield step("fields inside a map are added, renamed and widened", rebuild_attributes)

    del columns["note"]
    layout["removed_columns"] = EVERY_COLUMN
    yield step("a column is dropped", lambda row: row.pop("note"))

    columns["note"] = column("note", "int")
    yield step("its name is given to a new column", lambda row: row.update(note=None))
    row["note"] = 7

    layout["partitioning"] = (partition("city"),)
    yield step("new files are partitioned", _unchanged)
    row["city"] = "Delhi"

    columns["city"] = column("town", previous_names=("city",))
    layout["partitioning"] = (partition("town"), partition("id"))
    layout["sort_order"] = (SortColumn("id"),)
    yield step("a partitioned column is renamed, partitioning evolves, files are sorted", _renamed("city", "town"))

    columns["id"] = column("id", "long")
    layout["partitioning"] = ()
    layout["properties"] = {"write.parquet.compression-codec": "zstd"}
    yield step("a column is made optional, partitioning ends, a property is set", _unchanged)


def live(catalog: Catalog) -> tuple[Table, list[Row]]:
    """Lives the whole life with PyIceberg as the writer; returns the table and the rows that it holds."""
    table: Table | None = None
    rows: list[Row] = []
    for step in steps():
        if table is None:
            table = create(catalog, step.declaration)
        else:
            applied = apply(catalog, step.declaration, table)
            assert (applied.refusals, applied.in_sync, bool(applied.changes)) == ((), True, True), step.what
        for row in rows:
            step.migrate(row)
        table = catalog.load_table(IDENTIFIER)
        if len(rows) % 4 == 0:
            assert seen_by_pyiceberg(table) == rows, step.what
        table.append(arrow(table.schema(), [step.new_row]))
        rows.append(deepcopy(step.new_row))
    assert table is not None
    return table, rows


def arrow(schema: Schema, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema.as_arrow())


def seen_by_pyiceberg(table: Table) -> list[Row]:
    found = table.scan().to_arrow().to_pylist()
    for row in found:
        row["attrs"] = dict(row["attrs"])
    return sorted(found, key=lambda row: int(row["id"]))
