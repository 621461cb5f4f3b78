"""Sorting by 64-bit codes gives the order of the values themselves, whatever they are, with equal rows as they came."""

import functools
import math
import struct
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
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from tableformat.engine.errors import NoRoomToSort
from tableformat.engine.ordering import in_order
from tableformat.engine.parallel import Workers, granted_cores, in_turn
from tableformat.engine.projection import arrow_schema
from tableformat.engine.sort_keys import sort_keys
from tableformat.engine.task import RowOrder, SortColumn

KINDS: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (LongType(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    (IntegerType(), st.integers(-5, 5)),
    (BooleanType(), st.booleans()),
    (DoubleType(), st.floats() | st.sampled_from([0.0, -0.0, math.nan])),
    (StringType(), st.text("ab\0é", max_size=12).map(lambda text: "same beginning " + text) | st.text(max_size=3)),
    (BinaryType(), st.binary(max_size=10) | st.sampled_from([b"", b"\0", b"\0\0", b"\xff" * 9])),
    (DecimalType(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    (DecimalType(38, 0), st.integers(-(10**37), 10**37).map(Decimal) | st.integers(-2, 2).map(Decimal)),
]


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return (1, 0)
        [bits] = struct.unpack("<q", struct.pack("<d", value))
        return (0, bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF) - 1)
    return value.encode() if isinstance(value, str) else value


def expected(rows: list[tuple[Any, ...]], columns: tuple[SortColumn, ...]) -> list[int]:
    def compare(left: int, right: int) -> int:
        for column, mine, other in zip(columns, rows[left], rows[right], strict=True):
            if mine is None or other is None:
                if (mine is None) != (other is None):
                    return -1 if (mine is None) == column.nulls_first else 1
                continue
            a, b = comparable(mine), comparable(other)
            if a != b:
                return -1 if (a < b) != column.descending else 1
        return left - right

    return sorted(range(len(rows)), key=functools.cmp_to_key(compare))


@st.composite
def sorts(draw: st.DrawFn) -> tuple[Schema, list[tuple[Any, ...]], tuple[SortColumn, ...]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(st.none() | values for _, values in kinds)), max_size=30))
    schema = Schema(*(NestedField(n + 1, f"c{n}", kind, required=False) for n, (kind, _) in enumerate(kinds)))
    columns = tuple(
        SortColumn(n + 1, descending=draw(st.booleans()), nulls_first=draw(st.booleans())) for n in range(len(kinds))
    )
    return schema, rows, columns


def table_of(schema: Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    fields = arrow_schema(schema)
    arrays = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(fields)]
    return pa.table(arrays, fields)


@settings(max_examples=150)
@given(sorts(), st.integers(1, 3), st.sampled_from([4, 10**6]))
def test_the_order_by_codes_is_the_order_of_the_values(
    sort: tuple[Schema, list[tuple[Any, ...]], tuple[SortColumn, ...]], cores: int, piece_rows: int
) -> None:
    schema, rows, columns = sort
    with pytest.MonkeyPatch.context() as patch, Workers(cores) as workers:
        patch.setattr(
            "tableformat.engine.sort_keys._PIECE_ROWS", piece_rows
        )  # few rows are divided among the cores as well
        places = sort_keys(RowOrder(columns), schema).order(table_of(schema, rows), workers)
    assert places.tolist() == expected(rows, columns)


def test_uuids_are_in_the_order_of_java_s_signed_halves() -> None:
    schema = Schema(NestedField(1, "id", UUIDType(), required=False))
    numbers = [0, 1, 2**63, 2**64, 2**127 - 1, 2**127, 2**128 - 1]
    storage = pa.array([number.to_bytes(16, "big") for number in numbers], pa.binary(16))
    rows = pa.table([pa.ExtensionArray.from_storage(pa.uuid(), storage)], arrow_schema(schema))
    with Workers(1) as workers:
        places = sort_keys(RowOrder((SortColumn(1, False, True),)), schema).order(rows.slice(1), workers)
    assert [numbers[1:][place] for place in places] == [2**127, 2**128 - 1, 2**63, 1, 2**64, 2**127 - 1]


def test_texts_that_share_their_beginning_lie_apart_on_the_curve() -> None:
    schema = Schema(NestedField(1, "a", StringType()), NestedField(2, "b", IntegerType()))
    rows = [(f"a long beginning {number:03d}", 0) for number in np.random.default_rng(1).permutation(500)]
    order = RowOrder((SortColumn(1, False, True), SortColumn(2, False, True)), z_order=True)
    with Workers(2) as workers:
        places = sort_keys(order, schema).order(table_of(schema, rows), workers)
    assert [rows[place][0] for place in places] == sorted(text for text, _ in rows)


def test_a_sort_that_finds_no_room_on_disk_says_where_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(NestedField(1, "a", IntegerType(), required=False))
    rows = table_of(schema, [(number,) for number in range(100)])
    real = pa.OSFile
    monkeypatch.setattr(pa, "OSFile", lambda _path, mode: real("/dev/full", mode))
    order = RowOrder((SortColumn(1, False, True),))
    with Workers(1) as workers, pytest.raises(NoRoomToSort, match=r"No space left .* task_memory_bytes"):
        list(in_order(rows.to_batches(), sort_keys(order, schema), memory_bytes=1, workers=workers))


def test_work_ahead_is_bounded_and_comes_in_turn() -> None:
    begun: list[int] = []

    def work(piece: int) -> int:
        begun.append(piece)
        return piece * 2

    with Workers(3) as workers:
        results = in_turn(workers, range(50), work, weight=lambda _: 10, limit=40)
        assert next(results) == (0, 0)
        assert max(begun) < 5
        assert list(results) == [(piece, piece * 2) for piece in range(1, 50)]


def test_work_that_fails_fails_the_reader_and_leaves_nothing_to_do() -> None:
    def work(piece: int) -> int:
        if piece == 3:
            raise ValueError("piece 3")
        return piece

    with Workers(2) as workers, pytest.raises(ValueError, match="piece 3"):
        list(in_turn(workers, range(10**6), work, weight=lambda _: 1, limit=4))


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 16), ("-1\n", 16), ("250000 100000", 2), ("150000\n", 2), ("10000 100000", 1)],
)
def test_a_containers_share_of_the_cores_is_what_its_control_group_grants(quota: str, cores: int) -> None:
    assert granted_cores(quota) == cores
