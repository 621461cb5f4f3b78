"""A sort that is divided into ranges gives the rows of one sort, whatever the samples happened to say."""

import uuid
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, NestedField, StringType

from tableformat.engine import RewriteResult, RewriteTask, RowOrder, SortColumn, SourceFile, rewrite
from tableformat.engine.division import (
    Counted,
    PartsMissing,
    Probe,
    WrittenRange,
    divide,
    find_ranges,
    join,
    joined_parts,
    part_of,
    probe_range,
    probed_ranges,
    ranges_for,
    ranges_of,
    read_into_ranges,
    sample,
    write_range,
)
from tableformat.engine.projection import arrow_schema
from tableformat.engine.sizing import files_for

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "city", StringType(), required=False),
)
BY_CITY = RowOrder((SortColumn(2, descending=True, nulls_first=False), SortColumn(1, False, True)))
CURVE = RowOrder((SortColumn(2, False, True), SortColumn(1, False, True)), z_order=True)


Rows = list[tuple[int, str | None]]


def task_of(
    folder: Path, files: list[Rows], order: RowOrder | None, *, codec: str = "snappy", **changes: Any
) -> RewriteTask:
    sources = []
    for rows in files:
        path = folder / f"{uuid.uuid4()}.parquet"
        table = pa.Table.from_pylist([{"id": i, "city": c} for i, c in rows], arrow_schema(SCHEMA))
        pq.write_table(table, path, store_schema=False, compression=codec)
        sources.append(SourceFile(str(path), "PARQUET", path.stat().st_size, len(rows), sequence_number=1))
    arguments: dict[str, Any] = {
        "task_id": "t",
        "table": "db.t",
        "sources": tuple(sources),
        "position_deletes": (),
        "equality_deletes": (),
        "schema": SCHEMA,
        "read_schema": SCHEMA,
        "spec": UNPARTITIONED_PARTITION_SPEC,
        "partition": Record(),
        "partition_path": "",
        "identity_values": {},
        "table_location": str(folder),
        "table_properties": {},
        "target_file_bytes": max(1, sum(source.size_bytes for source in sources) // 4),
        "keeps_lineage": False,
        "order": order,
        "memory_bytes": 1 << 20,
        "verify_contents": True,
        "io_properties": {},
    }
    return RewriteTask(**(arguments | changes))


def run_divided(task: RewriteTask) -> RewriteResult:
    """Every step in this process, in place of an executor's tasks."""
    division = divide(task, cores=2)
    assert division is not None
    ranges = find_ranges(division, [sample(division, read) for read in division.reads])
    blobs: dict[int, list[bytes | Counted]] = defaultdict(list)
    for read in division.reads:
        for number, blob in read_into_ranges(read, ranges, threads=1):
            blobs[number].append(blob)
    probes = [probe_range(task, ranges, blobs[n], threads=1) for n in probed_ranges(ranges)]
    parts = joined_parts(task, ranges.count, probes)
    joined = [
        [blob for n in ranges_of(part, parts=parts, ranges=ranges.count) for blob in blobs[n]] for part in range(parts)
    ]
    return join(task, [write_range(task, ranges, n, blobs, threads=1) for n, blobs in enumerate(joined)])


def rows_of(result: RewriteResult) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for file in result.files for row in pq.read_table(file.path).to_pylist()]


rows = st.tuples(st.integers(-9, 9), st.none() | st.sampled_from(["Agra", "Pune", "Pu", ""]))


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(files=st.lists(st.lists(rows, max_size=12), min_size=2, max_size=6), order=st.sampled_from([BY_CITY, CURVE]))
def test_ranges_together_are_what_one_sort_gives(
    tmp_path_factory: pytest.TempPathFactory, files: list[Rows], order: RowOrder
) -> None:
    task = task_of(tmp_path_factory.mktemp("files"), files, order)

    divided = run_divided(task)

    whole = rewrite(task)
    assert divided.rows_written == whole.rows_written == sum(map(len, files))
    if order is BY_CITY:
        assert rows_of(divided) == rows_of(whole)
    else:  # the curve depends on the sample, never which rows there are
        assert sorted(map(repr, rows_of(divided))) == sorted(map(repr, rows_of(whole)))


def test_ranges_of_many_rows_are_about_equal_and_in_order(tmp_path: Path) -> None:
    files: list[Rows] = [[(i * 7919 % 4000, f"city {i * 31 % 97:02d}") for i in range(n, 4000, 4)] for n in range(4)]
    task = task_of(tmp_path, files, RowOrder((SortColumn(1, False, True),)))

    found = run_divided(task)

    assert [row[0] for row in rows_of(found)] == list(range(4000))
    assert len(found.files) >= 3
    assert max(file.records for file in found.files) < 2 * min(file.records for file in found.files)


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
@pytest.mark.parametrize("files", [6, 60])
def test_files_are_near_the_target_though_rows_in_order_take_far_less_than_their_sources(
    tmp_path: Path, codec: str, files: int
) -> None:
    random = np.random.default_rng(3)
    cities = [f"{place:032x}" for place in random.integers(0, 2**62, 3000)]
    rows: Rows = [(int(i), cities[c]) for i, c in random.integers(0, 3000, (120_000, 2))]
    size = len(rows) // files
    task = task_of(
        tmp_path,
        [rows[size * n : size * (n + 1)] for n in range(files)],
        RowOrder((SortColumn(2, False, True), SortColumn(1, False, True))),
        table_properties={"write.parquet.compression-codec": "zstd"},
        codec=codec,
        memory_bytes=1 << 24,
        verify_contents=False,
    )
    task = replace(task, target_file_bytes=task.source_bytes // 24)

    found = run_divided(task)

    assert found.bytes_written < 0.6 * task.source_bytes
    assert len(found.files) > 2
    near = [file.size_bytes / task.target_file_bytes for file in found.files]
    assert 0.6 < min(near) <= max(near) < 1.7, near
    assert [(city, number) for number, city in rows_of(found)] == sorted((city, number) for number, city in rows)


@given(st.integers(1, 1000).flatmap(lambda ranges: st.tuples(st.integers(1, ranges), st.just(ranges))))
def test_parts_are_neighbours_in_order_and_about_equally_many(numbers: tuple[int, int]) -> None:
    parts, ranges = numbers
    joined = [ranges_of(part, parts=parts, ranges=ranges) for part in range(parts)]
    assert [number for part in joined for number in part] == list(range(ranges))
    assert max(map(len, joined)) - min(map(len, joined)) <= 1
    assert all(part_of(number, parts=parts, ranges=ranges) == at for at, part in enumerate(joined) for number in part)


TARGET = 10_000


@given(st.floats(1.6, 250), st.floats(0.001, 1), st.integers(0, 90))
def test_a_part_is_never_far_from_a_file_however_small_rows_become(
    targets: float, smaller: float, percent_deleted: int
) -> None:
    records = 1_000_000
    source = SourceFile("f", "PARQUET", int(targets * TARGET), records, sequence_number=1)
    task = task_of(Path(), [], BY_CITY, sources=(source,), target_file_bytes=TARGET)
    count = ranges_for(files_for(task.source_bytes, TARGET))
    read = Counted(rows_read=records, rows_deleted=records * percent_deleted // 100)
    row_bytes = smaller * task.source_bytes / records

    parts = joined_parts(task, count, [Probe(10**9, int(10**9 * row_bytes), read), Probe(0, 0, Counted())])

    written = row_bytes * (records - read.rows_deleted)
    sizes = [len(ranges_of(part, parts=parts, ranges=count)) / count * written / TARGET for part in range(parts)]
    assert max(sizes) < 2.1  # such a part is divided when it is written
    assert parts == 1 or min(sizes) > 0.59


def test_parts_are_those_of_the_sources_where_every_probe_is_empty() -> None:
    source = SourceFile("f", "PARQUET", 5 * TARGET, 100, sequence_number=1)
    task = task_of(Path(), [], BY_CITY, sources=(source,), target_file_bytes=TARGET)
    assert joined_parts(task, 40, [Probe(0, 0, Counted(rows_read=100)), Probe(0, 0, Counted())]) == 5
    assert joined_parts(task, 40, [Probe(0, 0, Counted(rows_read=100, rows_deleted=100))]) == 1


@pytest.mark.parametrize(("files", "ranges"), [(2, 16), (8, 64), (16, 64), (100, 400), (250, 1000), (9999, 1000)])
def test_ranges_are_several_for_a_file_and_never_too_many(files: int, ranges: int) -> None:
    assert ranges_for(files) == ranges


def test_a_part_that_never_reported_stops_the_task_before_a_commit(tmp_path: Path) -> None:
    task = task_of(tmp_path, [[(1, "a")], [(2, "b")]], BY_CITY)
    with pytest.raises(PartsMissing, match="1 of 2 rows were read"):
        join(task, [WrittenRange(0, (), Counted(rows_read=1), Counted().checksum)])


@pytest.mark.parametrize(("order", "target"), [(None, 1), (BY_CITY, 10**9)], ids=["without an order", "for one file"])
def test_what_one_task_does_as_well_is_not_divided(tmp_path: Path, order: RowOrder | None, target: int) -> None:
    task = task_of(tmp_path, [[(1, "a")], [(2, "b")]], order, target_file_bytes=target)
    assert divide(task, cores=2) is None
