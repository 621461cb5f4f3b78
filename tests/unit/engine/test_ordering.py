"""Rows come out in Iceberg's order, all of them, whether they fit into memory or not."""

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from tableformat.engine.ordering import in_order
from tableformat.engine.parallel import Workers
from tableformat.engine.projection import arrow_schema
from tableformat.engine.sort_keys import sort_keys
from tableformat.engine.task import RowOrder, SortColumn

PLENTY, TINY = 1 << 30, 1


def ordered(rows: pa.Table, order: RowOrder, schema: Schema, memory: int, batch: int = 50) -> list[dict[str, Any]]:
    with Workers(2) as workers:
        batches = list(
            in_order(
                rows.to_batches(max_chunksize=batch), sort_keys(order, schema), memory_bytes=memory, workers=workers
            )
        )
    return [row for part in batches for row in part.to_pylist()]


def one_column(column_type: IcebergType, values: list[Any]) -> tuple[Schema, pa.Table]:
    schema = Schema(NestedField(1, "v", column_type), NestedField(2, "n", IntegerType()))
    fields = arrow_schema(schema)
    return schema, pa.table(
        [pa.array(values, fields.field("v").type), pa.array(range(len(values)), pa.int32())], fields
    )


@pytest.mark.parametrize("memory", [PLENTY, TINY])
@pytest.mark.parametrize(
    ("column_type", "in_iceberg_order"),
    [
        (BooleanType(), [None, False, True]),
        (IntegerType(), [None, -5, 0, 7]),
        (DoubleType(), [None, -math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]),
        (
            DecimalType(38, 2),
            [None, Decimal("-10.00"), Decimal("-9.99"), Decimal("0.00"), Decimal("12345678901234.56")],
        ),
        (DateType(), [None, -1, 0, 1]),
        (TimestamptzType(), [None, -1, 0, 10**15]),
        (StringType(), [None, "", "a", "ab", "b", "é"]),
        (UUIDType(), [None, b"\xff" * 16, b"\x00" * 16, b"\x7f" * 16]),  # as pairs of signed numbers
        (FixedType(2), [None, b"\x00\x01", b"\x01\x00"]),
        (BinaryType(), [None, b"", b"\x00", b"\xff"]),
    ],
)
def test_each_type_has_its_order(column_type: IcebergType, in_iceberg_order: list[Any], memory: int) -> None:
    shuffled = in_iceberg_order[1::2] + in_iceberg_order[::2]
    schema, rows = one_column(column_type, shuffled)
    _, expected = one_column(column_type, in_iceberg_order)
    up = RowOrder((SortColumn(1, descending=False, nulls_first=True),))
    down = RowOrder((SortColumn(1, descending=True, nulls_first=False),))

    ascending = [repr(row["v"]) for row in ordered(rows, up, schema, memory, batch=2)]
    descending = [repr(row["v"]) for row in ordered(rows, down, schema, memory, batch=2)]

    assert ascending == [repr(value) for value in expected["v"].to_pylist()]
    assert descending == ascending[::-1]


def test_nulls_go_where_the_column_says() -> None:
    schema, rows = one_column(IntegerType(), [2, None, 1])
    last = RowOrder((SortColumn(1, descending=False, nulls_first=False),))
    first = RowOrder((SortColumn(1, descending=True, nulls_first=True),))
    assert [row["v"] for row in ordered(rows, last, schema, PLENTY)] == [1, 2, None]
    assert [row["v"] for row in ordered(rows, first, schema, PLENTY)] == [None, 2, 1]


TWO = Schema(
    NestedField(1, "a", IntegerType()),
    NestedField(2, "s", StructType(NestedField(3, "b", StringType()))),
    NestedField(4, "n", LongType()),
)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.text("ab", max_size=2)), max_size=300),
    st.sampled_from([PLENTY, TINY, 3000]),
    st.integers(1, 60),
)
def test_a_sort_by_two_columns_is_a_stable_sort_of_all_rows(
    values: list[tuple[int | None, str | None]], memory: int, batch: int
) -> None:
    items = [{"a": a, "s": {"b": b}, "n": number} for number, (a, b) in enumerate(values)]
    rows = pa.Table.from_pylist(items, schema=arrow_schema(TWO))
    order = RowOrder((SortColumn(1, False, True), SortColumn(3, False, False)))

    found = ordered(rows, order, TWO, memory, batch)

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        a, b = row["a"], row["s"]["b"]
        return (a is not None, a or 0, b is None, b or "")

    assert [key(row) for row in found] == sorted(key(row) for row in items)
    assert Counter(map(repr, found)) == Counter(map(repr, items))


@pytest.mark.parametrize("memory", [PLENTY, 50_000])
def test_a_z_order_brings_near_rows_together_in_every_column(memory: int) -> None:
    schema = Schema(
        NestedField(1, "x", LongType()), NestedField(2, "y", StringType()), NestedField(3, "z", DoubleType())
    )
    random = np.random.default_rng(5)
    x, y = random.integers(0, 10**12, 20_000), random.integers(0, 10_000, 20_000)
    rows = pa.table([x, [f"{v:05d}" for v in y], x / 7], arrow_schema(schema))
    order = RowOrder((SortColumn(1, False, True), SortColumn(2, False, True)), z_order=True)

    found = ordered(rows, order, schema, memory, batch=1000)

    assert Counter(map(repr, found)) == Counter(map(repr, rows.to_pylist()))
    blocks = [found[start : start + 1250] for start in range(0, 20_000, 1250)]
    spread_x = np.mean([max(r["x"] for r in block) - min(r["x"] for r in block) for block in blocks]) / 10**12
    spread_y = np.mean([int(max(r["y"] for r in block)) - int(min(r["y"] for r in block)) for block in blocks]) / 10**4
    assert spread_x < 0.5  # 16 blocks: about a quarter of each range, where a sort by one has all of the other
    assert spread_y < 0.5


@pytest.mark.parametrize("rows", [10_000, 40_000])
def test_a_sort_holds_no_more_for_more_rows(rows: int) -> None:
    """So many runs that they are merged twice; the limit has room for about 2,000 rows."""
    schema = Schema(NestedField(1, "k", LongType()), NestedField(2, "v", BinaryType()))
    limit, each = 1024 * 1024, 500

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(4)
        for _ in range(rows // each):
            values = [random.bytes(400) for _ in range(each)]
            yield pa.record_batch([random.integers(0, 2**60, each), values], schema=arrow_schema(schema))

    before = pa.total_allocated_bytes()
    peak = count = 0
    last = -1
    with Workers(1) as workers:
        keys = sort_keys(RowOrder((SortColumn(1, False, True),)), schema)
        for batch in in_order(batches(), keys, memory_bytes=limit, workers=workers):
            peak = max(peak, pa.total_allocated_bytes() - before)
            numbers = batch.column(0).to_numpy()
            assert last <= numbers[0]
            assert (numbers[1:] >= numbers[:-1]).all()
            last, count = numbers[-1], count + batch.num_rows
    assert count == rows
    assert peak < limit


def test_a_sort_of_very_many_runs_merges_them_in_their_own_order() -> None:
    schema, rows = one_column(IntegerType(), [number % 2 for number in range(600)])
    order = RowOrder((SortColumn(1, descending=False, nulls_first=True),))
    found = ordered(rows, order, schema, TINY, batch=2)  # 300 runs: more than 16 times 16
    assert [row["n"] for row in found] == [*range(0, 600, 2), *range(1, 600, 2)]


def test_no_rows_are_no_batches() -> None:
    schema, rows = one_column(IntegerType(), [])
    assert ordered(rows, RowOrder((SortColumn(1, False, True),)), schema, PLENTY) == []
