"""Which statistics the columns of a new file get, as the table's properties ask."""

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, match_metrics_mode
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, UUIDType

from tableformat.engine.parallel import Workers
from tableformat.engine.parquet_file import FileForm, ParquetFileWriter
from tableformat.engine.projection import arrow_schema
from tableformat.engine.statistics import file_statistics, leaf_columns, nan_counts, other_bounds, upper_bytes

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "city", StringType(), required=False))


@pytest.mark.parametrize(
    ("properties", "modes"),
    [
        ({}, ["truncate(16)", "truncate(16)"]),
        ({"write.metadata.metrics.default": "counts"}, ["counts", "counts"]),
        (
            {"write.metadata.metrics.default": "counts", "write.metadata.metrics.column.city": "full"},
            ["counts", "full"],
        ),
        ({"write.metadata.metrics.default": "al"}, ["truncate(16)", "truncate(16)"]),
        ({"write.metadata.metrics.default": "none", "write.metadata.metrics.column.city": "fulll"}, ["none", "none"]),
    ],
)
def test_a_mode_that_nobody_knows_is_as_if_it_were_not_there(properties: dict[str, str], modes: list[str]) -> None:
    found = [leaf.mode for leaf in leaf_columns(SCHEMA, properties)]
    assert found == [match_metrics_mode(mode) for mode in modes]


def test_upper_bound_of_bytes_ends_where_it_was_raised() -> None:
    assert upper_bytes(b"a\xff\xff", 2) == b"b"
    assert upper_bytes(b"a\xff", 2) == b"a\xff"
    assert upper_bytes(b"\xff" * 3, 2) is None


NAN = float("nan")


@pytest.mark.parametrize(
    ("groups", "expected", "in_parquet"),
    [
        ([[1.0, 2.0]], (1.0, 2.0), [True]),
        ([[1.0, NAN, None], [7.0]], (1.0, 7.0), [False, True]),
        ([[0.0, NAN]], (-0.0, 0.0), [False]),
        ([[NAN, None], [7.0]], None, [False, True]),
    ],
)
def test_a_manifest_has_the_bounds_beside_nan_and_parquet_has_none_there(
    tmp_path: Path, groups: list[list[float | None]], expected: tuple[float, float] | None, in_parquet: list[bool]
) -> None:
    """Iceberg counts NaN apart. Who reads Parquet alone would not look for it where bounds say that all is less."""
    schema = Schema(NestedField(1, "ratio", DoubleType()))
    leaves, path = leaf_columns(schema, {}), tmp_path / "t.parquet"
    others = []
    with Workers(1) as workers:
        form = FileForm(arrow_schema(schema), {}, {}, {})
        writer = ParquetFileWriter(PyArrowFileIO().new_output(str(path)), form, workers)
        for values in groups:
            rows = pa.table({"ratio": values}, arrow_schema(schema))
            others.append(other_bounds(rows, leaves, nan_counts(rows, leaves)))
            writer.write_row_group(rows)
        found = file_statistics(writer.close(), leaves, others)

    bounds = None if expected is None else tuple(struct.pack("<d", value) for value in expected)
    assert (found.lower_bounds.get(1), found.upper_bounds.get(1)) == (bounds or (None, None))
    chunks = [pq.read_metadata(path).row_group(number).column(0).statistics for number in range(len(groups))]
    assert [chunk.has_min_max for chunk in chunks] == in_parquet
    assert all(chunk.has_null_count for chunk in chunks)


@pytest.mark.parametrize(
    ("groups", "has_bounds"),
    [([[0x01], [0x7F]], True), ([[0x80], [0xFF]], True), ([[0x01], [0xFF]], False), ([[0x01, 0xFF]], False)],
)
def test_uuids_have_bounds_only_where_java_orders_them_as_parquet_does(
    tmp_path: Path, groups: list[list[int]], has_bounds: bool
) -> None:
    """Java compares them as signed numbers, and skips files whose bounds are the other way round."""
    schema = Schema(NestedField(1, "id", UUIDType()))
    leaves = leaf_columns(schema, {})
    with Workers(1) as workers:
        form = FileForm(arrow_schema(schema), {}, {}, {})
        writer = ParquetFileWriter(PyArrowFileIO().new_output(str(tmp_path / "t.parquet")), form, workers)
        for starts in groups:
            values = pa.array([bytes([start]) + bytes(15) for start in starts], pa.uuid())
            writer.write_row_group(pa.table([values], arrow_schema(schema)))
        found = file_statistics(writer.close(), leaves, [{}] * len(groups))
    assert (1 in found.lower_bounds, 1 in found.upper_bounds) == (has_bounds, has_bounds)
