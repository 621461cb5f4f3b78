"""The page index of joined columns: every page is where it says, and no row is outside of its page's bounds."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimeType,
    UUIDType,
)

from tableformat.engine.bloom import bloom_filters
from tableformat.engine.page_index import leaves_with_misleading_bounds, shortened
from tableformat.engine.parallel import Workers
from tableformat.engine.parquet_file import FileForm, ParquetFileWriter
from tableformat.engine.projection import arrow_schema
from tableformat.engine.thrift import Struct, decode, encode

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "tags", ListType(4, StringType(), element_required=False), required=False),
    NestedField(5, "sizes", MapType(6, StringType(), 7, DoubleType(), value_required=False), required=False),
    NestedField(8, "place", StructType(NestedField(9, "x", DoubleType()), NestedField(10, "on", BooleanType()))),
    NestedField(11, "price", DecimalType(9, 2)),
    NestedField(12, "total", DecimalType(38, 3)),
    NestedField(13, "key", UUIDType()),
    NestedField(14, "at", TimeType()),
    NestedField(15, "blob", BinaryType()),
    NestedField(16, "ratio", DoubleType()),
)
ROWS, PAGE_ROWS = 2000, 150


def some_rows(start: int, count: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": n,
                "name": None if n % 5 == 0 else f"{'é' * 80}{n:05d}",
                "tags": None if n % 4 == 0 else [str(n)] * (n % 3),
                "sizes": None if n % 3 == 0 else [("a", None), (str(n), n / 7)],
                "place": None if n % 6 == 0 else {"x": n / 3 - 100, "on": n % 2 == 0},
                "price": Decimal(n - 900) / 4,
                "total": (n - 900) * Decimal("1000000000000000000000.125"),
                "key": UUID(int=n * 2**117 % 2**128).bytes,
                "at": time(n % 24, n % 60, n % 59),
                "blob": bytes([n % 250]) * 100 if n % 7 else None,
                "ratio": float("nan") if n == 700 else n / 9,
            }
            for n in range(start, start + count)
        ],
        arrow_schema(SCHEMA),
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "t.parquet"
    blooms = bloom_filters(SCHEMA, {"write.parquet.bloom-filter-enabled.column.id": "true"})
    form = FileForm(arrow_schema(SCHEMA), {"compression": "zstd", "max_rows_per_page": PAGE_ROWS}, blooms, {})
    with Workers(2) as workers:
        writer = ParquetFileWriter(PyArrowFileIO().new_output(str(path)), form, workers)
        for start in range(0, ROWS, 1000):
            writer.write_row_group(some_rows(start, 1000))
        writer.close()
    return path


@dataclass(frozen=True)
class Index:
    """What the file itself has for one column of one row group."""

    path: str
    metadata: Struct
    pages: list[Struct]
    bounds: Struct | None
    offsets: tuple[int, int | None]

    def firsts(self) -> list[int]:
        return [page.number(3) for page in self.pages]


def indexes(path: Path) -> Iterator[Index]:
    content = path.read_bytes()
    footer = decode(content[-8 - int.from_bytes(content[-8:-4], "little") : -8])
    for group in footer.structs(4):
        for chunk in group.structs(1):
            pages = decode(content[chunk.number(4) : chunk.number(4) + chunk.number(5)])
            bounds, place = None, None
            if 6 in chunk.fields:
                place = chunk.number(6)
                bounds = decode(content[place : place + chunk.number(7)])
            metadata = chunk.struct(3)
            name = b".".join(metadata.binaries(3)).decode()
            yield Index(name, metadata, pages.structs(1), bounds, (chunk.number(4), place))


def test_every_page_is_where_the_index_says_and_has_as_many_rows(file: Path) -> None:
    content = file.read_bytes()
    for index in indexes(file):
        assert index.firsts() == list(range(0, 1000, PAGE_ROWS))
        at = index.pages[0].number(1)
        assert at == index.metadata.number(9)  # the first data page, as the footer has it
        for page in index.pages:
            assert page.number(1) == at
            header = decode(content[at : at + page.number(2)])
            assert header.number(1) == 0  # a data page
            assert page.number(2) == len(encode(header)) + header.number(3)
            at += page.number(2)


def test_all_indexes_are_behind_all_pages_so_that_one_request_fetches_them(file: Path) -> None:
    found = list(indexes(file))
    last_page = max(page.number(1) + page.number(2) for index in found for page in index.pages)
    bloom = pq.read_metadata(file).row_group(1).column(0)
    last_bloom = bloom.bloom_filter_offset + bloom.bloom_filter_length
    bounds = [index.offsets[1] for index in found if index.offsets[1] is not None]
    assert max(last_page, last_bloom) <= min(bounds)
    assert max(bounds) < min(index.offsets[0] for index in found)


def test_only_nan_and_uuids_of_two_orders_leave_pages_without_bounds(file: Path) -> None:
    without = [(number // 13, index.path) for number, index in enumerate(indexes(file)) if index.bounds is None]
    assert without == [(0, "ratio"), (1, "key")]


def test_long_values_are_cut_in_the_index_and_nowhere_else(file: Path) -> None:
    by_name = {index.path: index.bounds for index in indexes(file)}
    for name in ("name", "blob"):
        bounds = by_name[name]
        assert bounds is not None
        values = bounds.binaries(2) + bounds.binaries(3)
        assert {len(value) for value in values} == ({128} if name == "name" else {64})
    column = pq.read_metadata(file).row_group(0).column(1)
    assert len(column.statistics.max) == 85


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 1234", [1234]),
        ("id between 295 and 305", range(295, 306)),
        ("name > repeat('é', 80) || '01995'", range(1996, 2000)),
        ("price = -12.25", [851]),
        ("total > CAST('1098000000000000000000000' AS DECIMAL(38, 3))", [1998, 1999]),
        ("total < CAST('-898000000000000000000000' AS DECIMAL(38, 3))", [0, 1, 2]),
        ("place['x'] > 565", range(1996, 2000)),
        ("ratio > 110 and id < 1000", [700, *range(991, 1000)]),  # NaN is the greatest number there
        ("ratio > 220", [700, *range(1981, 2000)]),  # also in a row group of smaller ones
        ("blob is null and id < 10", [0, 7]),
    ],
)
def test_a_reader_that_skips_pages_finds_the_same_rows(file: Path, where: str, expected: list[int]) -> None:
    context = SessionContext()
    context.register_parquet("t", str(file))
    wanted = sorted(n for n in expected if "name" not in where or n % 5)
    found = context.sql(f"SELECT id FROM t WHERE {where}").to_arrow_table()
    assert sorted(found["id"].to_pylist()) == [n for n in wanted if "place" not in where or n % 6]


def test_a_reader_skips_pages_by_the_index(file: Path) -> None:
    context = SessionContext()
    context.register_parquet("t", str(file))
    plan = str(context.sql("EXPLAIN ANALYZE SELECT total FROM t WHERE id = 1234").to_arrow_table().to_pylist())
    assert "page_index_rows_pruned=1.00 K total → 150 matched" in plan, plan


texts = st.text(st.sampled_from("aé\ud7ff\U0010ffff"), min_size=60, max_size=70) | st.text(max_size=3)
blobs = st.binary(max_size=3) | st.integers(60, 70).map(lambda size: b"\xff" * size)


@settings(max_examples=300)
@given(st.lists(texts.map(str.encode)) | st.lists(blobs) | st.lists(texts.map(str.encode) | blobs))
def test_shortened_bounds_hold_and_keep_their_order(values: list[bytes]) -> None:
    values.sort()
    index = decode(encode(Struct({})))
    index.set_binaries(2, values)
    index.set_binaries(3, values)

    found = decode(shortened(encode(index)))

    lower, upper = found.binaries(2), found.binaries(3)
    assert len(lower) == len(upper) == len(values)
    assert all(low <= value <= high for low, value, high in zip(lower, values, upper, strict=True))
    assert lower == sorted(lower)
    assert upper == sorted(upper)


nans = pa.array([1.0, float("nan")])


def uuids(*starts: int) -> pa.Array:
    return pa.array([bytes([start]) + bytes(15) for start in starts], pa.uuid())


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (nans, [True]),
        (pa.array([1.0, None]), [False]),
        (pa.array([1, 2]), [False]),
        (pa.array([[1.0], None, [2.0, float("nan")]]), [True]),
        (pa.array([[1.0], None, [2.0, float("nan")]]).slice(0, 2), [False]),
        (pa.array([[("a", 1.0)], [("b", float("nan"))]], pa.map_(pa.string(), pa.float64())), [False, True]),
        (pa.StructArray.from_arrays([pa.array(["a", "b"]), nans], ["a", "b"]), [False, True]),
        (pa.array([], pa.float64()), [False]),
        (uuids(0x00, 0x7F), [False]),
        (uuids(0x80, 0xFF), [False]),
        (uuids(0x7F, 0x80), [True]),
        (uuids(0x7F, 0x80).slice(1), [False]),
        (pa.StructArray.from_arrays([uuids(0x00, 0xFF)], ["id"]), [True]),
        (pa.array([None], pa.uuid()), [False]),
    ],
)
def test_nan_and_uuids_of_two_orders_leave_a_stored_column_without_bounds(
    array: pa.Array, expected: list[bool]
) -> None:
    assert leaves_with_misleading_bounds(pa.chunked_array([array, array])) == expected


def test_uuids_of_two_orders_are_found_across_chunks() -> None:
    assert leaves_with_misleading_bounds(pa.chunked_array([uuids(0x00), uuids(0xFF)])) == [True]
