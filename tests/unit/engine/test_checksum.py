"""Equal rows have equal checksums in any order, and the slightest change shows."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tableformat.engine.checksum import Checksum

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("d", pa.decimal128(38, 2)),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.large_string()),
        ("u", pa.uuid()),
        ("l", pa.large_list(pa.struct([("x", pa.large_string())]))),
        ("m", pa.map_(pa.large_string(), pa.int64())),
    ]
)
ROW = {
    "i": 1,
    "d": None,
    "f": 0.0,
    "b": True,
    "s": "text",
    "u": b"a" * 16,
    "l": [{"x": "a"}, {"x": "bc"}],
    "m": [("k", 1)],
}
CHANGES: list[dict[str, Any]] = [
    {"i": 2},
    {"i": None},
    {"d": 0},
    {"f": -0.0},
    {"b": False},
    {"b": None},
    {"s": "tex"},
    {"s": "text\x00"},
    {"s": ""},
    {"s": None},
    {"u": b"a" * 15 + b"b"},
    {"l": [{"x": "ab"}, {"x": "c"}]},
    {"l": [{"x": "bc"}, {"x": "a"}]},
    {"l": [{"x": "a"}, {"x": "bc"}, None]},
    {"l": []},
    {"l": None},
    {"m": [("k", None)]},
    {"m": []},
    {"m": None},
]


def checksum(rows: list[dict[str, Any]], batch: int = 1000) -> Checksum:
    result = Checksum()
    for part in pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(max_chunksize=batch):
        result.add(part)
    return result


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_one_value_shows(change: dict[str, Any]) -> None:
    assert checksum([ROW, ROW]) != checksum([ROW, ROW | change])


def test_a_lost_and_a_doubled_row_show() -> None:
    other = ROW | {"i": 7}
    assert len({checksum(rows).total for rows in ([ROW, other], [ROW], [ROW, ROW], [other, other], [])}) == 5


def test_values_that_changed_rows_show() -> None:
    assert checksum([ROW | {"i": 1}, ROW | {"s": "b", "i": 2}]) != checksum([ROW | {"i": 2}, ROW | {"s": "b", "i": 1}])


@settings(max_examples=50)
@given(st.lists(st.sampled_from(CHANGES), max_size=60), st.integers(1, 20), st.randoms())
def test_order_and_batches_do_not_matter(changes: list[dict[str, Any]], batch: int, source: random.Random) -> None:
    rows = [ROW | change for change in changes]
    shuffled = rows[:]
    source.shuffle(shuffled)
    assert checksum(rows) == checksum(shuffled, batch)
