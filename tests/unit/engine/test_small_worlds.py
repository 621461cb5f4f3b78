"""The kernel does with a few values of every type, and with all pairs of them, what Iceberg's Java library does.

Java's answers are in `small_worlds.json`; `tests/differential/small_worlds.py` has the questions and asks them again.
"""

import itertools
from collections.abc import Sequence
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    NestedField,
    PrimitiveType,
    StringType,
    UUIDType,
)

from tableformat.engine.deletes import key_columns
from tableformat.engine.equality import EqualityKeys
from tableformat.engine.java_keys import kept_by_java
from tableformat.engine.parallel import Workers
from tableformat.engine.parquet_file import FileForm, ParquetFileWriter
from tableformat.engine.projection import arrow_schema
from tableformat.engine.sort_keys import sort_keys
from tableformat.engine.statistics import file_statistics, leaf_columns, nan_counts, other_bounds, uuid_signs
from tableformat.engine.task import RowOrder, SortColumn
from tableformat.engine.transforms import transformed
from tableformat.maintenance.compaction.disputed import disputed_in
from tests.differential import small_worlds
from tests.differential.small_worlds import FORMATS, SORTS, WORLDS, Value, modes_of, rows_at, transforms_of

ONE_MOMENT_IN_ORC = {("timestamp", "ORC"), ("timestamptz", "ORC")}
"""ORC's own library stores the last microsecond before 1970 as the one a second later; both are read as one value."""
every_type = pytest.mark.parametrize("kind", WORLDS, ids=str)


@pytest.fixture(scope="module")
def java() -> dict[str, Any]:
    return small_worlds.recorded()


def arrow_type(kind: PrimitiveType) -> pa.DataType:
    return arrow_schema(Schema(NestedField(1, "value", kind))).field(0).type


def array_of(kind: PrimitiveType, values: Sequence[Value]) -> pa.Array:
    """The values with every bit, which Python's own do not have."""
    stored = [None if value is None else bytes.fromhex(value) for value in values]
    arrow = arrow_type(kind)
    if isinstance(kind, BooleanType):
        return pa.array([None if value is None else value != b"\0" for value in stored], arrow)
    if isinstance(kind, StringType) or pa.types.is_large_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return pa.array(stored, pa.large_binary() if isinstance(kind, StringType) else arrow).cast(arrow)
    if isinstance(kind, UUIDType):
        return pa.ExtensionArray.from_storage(arrow, pa.array(stored, pa.binary(16)))
    if isinstance(kind, DecimalType):
        stored = [
            None if value is None else int.from_bytes(value, "big", signed=True).to_bytes(16, "little", signed=True)
            for value in stored
        ]
    width = arrow.bit_width // 8
    content = pa.py_buffer(b"".join(bytes(width) if value is None else value for value in stored))
    valid = np.packbits([value is not None for value in stored], bitorder="little")
    return pa.Array.from_buffers(arrow, len(stored), [pa.py_buffer(valid), content])


def hex_of(kind: PrimitiveType, array: pa.Array) -> list[Value]:
    found: list[Value] = []
    for value, stored in zip(array, array.to_pylist() if not pa.types.is_temporal(array.type) else array, strict=True):
        if not value.is_valid:
            found.append(None)
        elif isinstance(kind, DecimalType) and isinstance(stored, Decimal):
            number = int(stored.scaleb(kind.scale, Context(prec=76)))
            length = (number if number >= 0 else number + 1).bit_length() // 8 + 1
            found.append(number.to_bytes(length, "big", signed=True).hex())
        elif isinstance(stored, str | bytes):
            found.append((stored.encode() if isinstance(stored, str) else stored).hex())
        elif isinstance(stored, bool):
            found.append("01" if stored else "00")
        elif pa.types.is_large_binary(array.type) or not hasattr(array.type, "bit_width"):
            found.append(stored.bytes.hex())
        else:
            place = len(found)
            width = array.type.bit_width // 8
            start = (array.offset + place) * width
            found.append(array.buffers()[1].to_pybytes()[start : start + width].hex())
    return found


def batch_of(kind: PrimitiveType, depth: int, rows: Sequence[Any]) -> pa.RecordBatch:
    def column(level: int, items: Sequence[Any]) -> pa.Array:
        if level == depth:
            return array_of(kind, items)
        inner = column(level + 1, [None if item is None else item[0] for item in items])
        mask = pa.array([item is None for item in items], pa.bool_())
        return pa.StructArray.from_arrays([inner], names=["value"], mask=mask)

    return pa.record_batch([column(0, rows)], ["value"])


def deleted(kind: PrimitiveType, depth: int, keys: Sequence[Any]) -> list[int]:
    path = (0,) * (depth + 1)
    found = [(2, key_columns(batch, [path])) for batch in kept_by_java([batch_of(kind, depth, keys)])]
    rows = batch_of(kind, depth, rows_at(WORLDS[kind], depth))
    matches: list[int] = np.flatnonzero(EqualityKeys([path], found).matches(key_columns(rows, [path]), 1)).tolist()
    return matches


@every_type
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_key_deletes_the_rows_that_java_deletes(
    java: dict[str, Any], kind: PrimitiveType, file_format: str, depth: int
) -> None:
    answer = java[f"equality {kind} {depth} {file_format}"]
    ours = [deleted(kind, depth, [row]) for row in rows_at(WORLDS[kind], depth)]
    if FileFormat(file_format) not in disputed_in(kind) and (str(kind), file_format) not in ONE_MOMENT_IN_ORC:
        assert ours == answer


@every_type
def test_two_keys_in_structs_of_one_file_delete_the_rows_that_java_deletes(
    java: dict[str, Any], kind: PrimitiveType
) -> None:
    answer = java[f"equality {kind} 2 PARQUET pairs"]
    ours = [deleted(kind, 2, pair) for pair in small_worlds.pairs(rows_at(WORLDS[kind], 2))]
    if FileFormat.PARQUET not in disputed_in(kind):
        assert ours == answer


def test_keys_that_java_does_not_match_are_disputed(java: dict[str, Any]) -> None:
    differing = {
        (str(kind), name)
        for kind, name in itertools.product(WORLDS, FORMATS)
        if java[f"equality {kind} 0 {name}"] != [deleted(kind, 0, [row]) for row in WORLDS[kind]]
    }
    assert differing - ONE_MOMENT_IN_ORC == {
        ("uuid", "PARQUET")
    }  # of fixed keys the first of two is lost, not a single one


@every_type
@pytest.mark.parametrize(("direction", "nulls"), SORTS)
def test_rows_are_in_java_s_order(java: dict[str, Any], kind: PrimitiveType, direction: str, nulls: str) -> None:
    signs = java[f"order {kind} {direction} {nulls}"]
    schema = Schema(NestedField(1, "value", kind))
    keys = sort_keys(RowOrder((SortColumn(1, direction == "desc", nulls == "nulls-first"),)), schema)
    places = range(len(WORLDS[kind]))
    with Workers(1) as workers:
        for rows in (places, places[::-1]):
            table = pa.table([array_of(kind, [WORLDS[kind][row] for row in rows])], arrow_schema(schema))
            ordered = [rows[place] for place in keys.order(table, workers)]
            assert all(signs[first][second] <= 0 for first, second in itertools.combinations(ordered, 2)), ordered


@every_type
def test_transforms_give_what_java_gives(java: dict[str, Any], kind: PrimitiveType) -> None:
    values = array_of(kind, WORLDS[kind])
    if isinstance(kind, UUIDType):
        values = values.storage
    elif kind == DecimalType(38, 10):
        values = values.slice(0, len(values) - 1)  # truncated, the smallest has more digits than a decimal can have
    for name in transforms_of(kind):
        result = transformed(values, parse_transform(name), kind)
        assert hex_of(kind, result) == java[f"transform {kind} {name}"][: len(values)], name


ZEROS = {"00000000": "00000080", "00000080": "00000000", "0000000000000000": "0000000000000080"}
ZEROS["0000000000000080"] = "0000000000000000"


def bound(bounds: dict[int, bytes], other_zero: str | None) -> str | None:
    """Parquet's own statistics have -0.0 below and 0.0 above for either zero, which is never too narrow."""
    found = bounds[1].hex() if 1 in bounds else None
    return ZEROS[other_zero] if other_zero is not None and found == other_zero else found


@every_type
def test_bounds_are_java_s(java: dict[str, Any], kind: PrimitiveType, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "value", kind, required=False))
    with Workers(1) as workers:
        for mode in modes_of(kind):
            answers = zip(small_worlds.files(WORLDS[kind]), java[f"bounds {kind} {mode}"], strict=True)
            for number, (values, expected) in enumerate(answers):
                leaves = leaf_columns(schema, {"write.metadata.metrics.default": mode})
                rows = pa.table([array_of(kind, values)], arrow_schema(schema))
                nans = nan_counts(rows, leaves)
                output = PyArrowFileIO().new_output(str(tmp_path / f"{mode}-{number}.parquet"))
                writer = ParquetFileWriter(output, FileForm(arrow_schema(schema), {}, {}, {}), workers)
                writer.write_row_group(rows)
                found = file_statistics(writer.close(), leaves, [other_bounds(rows, leaves, nans)])
                claims = {
                    "lower": bound(found.lower_bounds, ZEROS.get(expected["lower"])),
                    "upper": bound(found.upper_bounds, ZEROS.get(expected["upper"])),
                    "values": found.value_counts.get(1),
                    "nulls": found.null_value_counts.get(1),
                    "nans": nans.get(1) if isinstance(kind, FloatType | DoubleType) else None,
                }
                if isinstance(kind, UUIDType) and len(uuid_signs(array_of(kind, values))) > 1:
                    expected = {**expected, "lower": None, "upper": None}  # Java itself skips rows by such bounds
                assert claims == expected, (mode, values)
