"""Equality deletes delete what their definition says, in a time that hardly depends on how many keys there are."""

import math
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tableformat.engine import equality
from tableformat.engine.checksum import Hashes
from tableformat.engine.deletes import FileDeletes, key_columns
from tableformat.engine.equality import EqualityKeys

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [None, False, True]),
    "number": (pa.int32(), [None, 0, -1, 7]),
    "real": (pa.float64(), [None, 0.0, -0.0, math.nan, -math.nan, math.inf, 1.5]),
    "single": (pa.float32(), [None, 0.0, -0.0, math.nan, 1.5]),
    "price": (pa.decimal128(38, 2), [None, Decimal("0.00"), Decimal("-12345678901234567890.12")]),
    "text": (pa.large_string(), [None, "", "a", "a\0", "x" * 8, "x" * 9, "x" * 64, "x" * 65, "x" * 64 + "y"]),
    "id": (pa.uuid(), [None, b"\0" * 16, b"a" * 16]),
    "place": (pa.struct([("x", pa.int64())]), [None, {"x": None}, {"x": 3}]),
    "deep": (
        pa.struct([("a", pa.struct([("b", pa.float32())]))]),
        [None, {"a": None}, {"a": {"b": None}}, {"a": {"b": math.nan}}, {"a": {"b": -0.0}}, {"a": {"b": 0.0}}],
    ),
}
DEPTHS = {"place": (0,), "deep": (0, 0)}
PATHS = {name: (place, *DEPTHS.get(name, ())) for place, name in enumerate(COLUMNS)}
SCHEMA = pa.schema([*((name, kind) for name, (kind, _) in COLUMNS.items()), ("row", pa.int64())])
rows = st.lists(st.fixed_dictionaries({name: st.sampled_from(values) for name, (_, values) in COLUMNS.items()}))
key_sets = st.lists(
    st.tuples(
        st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True),
        st.lists(st.tuples(st.integers(1, 6), rows), min_size=1, max_size=3),
    ),
    max_size=3,
)


def batch_of(items: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(items, schema=SCHEMA)


def prepared(names: list[str], deletes: list[tuple[int, list[dict[str, Any]]]]) -> EqualityKeys:
    paths = [PATHS[name] for name in names]
    columns = [(number, key_columns(batch_of(keys), paths)) for number, keys in deletes]
    return EqualityKeys(paths, columns)


def identity(name: str, row: dict[str, Any]) -> object:
    """What Iceberg calls equal is the same, and nothing else is."""
    value = row[name]
    if isinstance(value, dict):
        return {field: identity(field, value) for field in value}
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


@settings(max_examples=80)
@given(rows, key_sets, st.integers(0, 6))
def test_those_rows_go_that_equal_a_key_of_a_younger_delete(
    items: list[dict[str, Any]],
    deletes: list[tuple[list[str], list[tuple[int, list[dict[str, Any]]]]]],
    sequence_number: int,
) -> None:
    numbered = [{**item, "row": place} for place, item in enumerate(items)]

    found = FileDeletes(np.empty(0, np.int64), [prepared(*keys) for keys in deletes], sequence_number)
    kept = found.apply(batch_of(numbered))

    def is_deleted(row: dict[str, Any]) -> bool:
        return any(
            number > sequence_number and all(identity(name, key) == identity(name, row) for name in names)
            for names, files in deletes
            for number, keys in files
            for key in keys
        )

    expected = [row["row"] for row in numbered if not is_deleted(row)]
    assert kept.column("row").to_pylist() == expected
    assert found.rows_deleted == len(items) - len(expected)


@pytest.mark.parametrize("same", [1, 3])
def test_keys_whose_hashes_are_the_same_are_told_apart(same: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(columns: list[pa.Array]) -> Hashes:
        return np.array([0 if value is None else value % same for value in columns[0].to_pylist()], np.uint64)

    monkeypatch.setattr(equality, "row_hashes", few)
    keys = EqualityKeys([(0,)], [(2, [pa.array([1, 4, None, 7, 4])]), (5, [pa.array([4, 10])])])
    rows = [pa.array([0, 1, 2, 4, 7, 10, None, 13])]
    assert keys.matches(rows, 1).tolist() == [False, True, False, True, True, True, True, False]
    assert keys.matches(rows, 2).tolist() == [False, False, False, True, False, True, False, False]


def test_a_small_batch_is_looked_up_at_once_among_many_keys() -> None:
    count = 400_000
    keys = EqualityKeys([(0,)], [(5, [pa.array(np.random.default_rng(0).permutation(count) * 7)])])
    rows = [pa.array(np.arange(100))]

    started = time.process_time()
    found = [keys.matches(rows, 1).sum() for _ in range(200)]
    seconds = time.process_time() - started

    assert set(found) == {15}
    assert seconds < 1  # a table of all keys, made anew for each batch, would take several
