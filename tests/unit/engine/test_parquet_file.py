"""Columns that are encoded apart and joined: any reader sees one ordinary Parquet file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, DoubleType, ListType, LongType, MapType, NestedField, StringType, StructType

from tableformat.engine.bloom import BloomFilter, bloom_filters
from tableformat.engine.errors import UnreadableDataFile
from tableformat.engine.parallel import Workers
from tableformat.engine.parquet_file import FileForm, ParquetFileWriter, encoded
from tableformat.engine.projection import TargetSchema, arrow_schema
from tableformat.engine.reading import read_batches
from tableformat.engine.task import SourceFile
from tableformat.engine.thrift import decode, encode

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "tags", ListType(4, StringType(), element_required=False), required=False),
    NestedField(5, "sizes", MapType(6, StringType(), 7, DoubleType(), value_required=False), required=False),
    NestedField(8, "place", StructType(NestedField(9, "x", DoubleType()), NestedField(10, "on", BooleanType()))),
)


def some_rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([None if n % 5 == 0 else f"name {n % 3}" for n in numbers], pa.large_string()),
            pa.array([None if n % 4 == 0 else [str(n)] * (n % 3) for n in numbers], pa.large_list(pa.large_string())),
            pa.array(
                [None if n % 3 == 0 else [("a", None), (str(n), n / 7)] for n in numbers],
                pa.map_(pa.large_string(), pa.float64()),
            ),
            pa.array([None if n % 6 == 0 else {"x": n / 3, "on": n % 2 == 0} for n in numbers]),
        ],
        names=["id", "name", "tags", "sizes", "place"],
    ).cast(arrow_schema(SCHEMA))


def write(path: Path, groups: list[pa.Table], **options: object) -> pq.FileMetaData:
    blooms = bloom_filters(SCHEMA, {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("id",)})
    form = FileForm(arrow_schema(SCHEMA), options, blooms, {})
    with Workers(2) as workers:
        writer = ParquetFileWriter(PyArrowFileIO().new_output(str(path)), form, workers)
        for group in groups:
            writer.write_row_group(group)
        return writer.close()


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "data_page_version": "2.0"}])
def test_rows_groups_ids_and_statistics_are_those_of_a_file_written_in_one(
    tmp_path: Path, options: dict[str, object]
) -> None:
    groups = [some_rows(0, 500), some_rows(500, 1), some_rows(501, 400)]

    returned = write(tmp_path / "joined.parquet", groups, **options)
    with pq.ParquetWriter(tmp_path / "one.parquet", arrow_schema(SCHEMA), store_schema=False, **options) as writer:
        for group in groups:
            writer.write_table(group)

    joined, one = (pq.ParquetFile(tmp_path / f"{name}.parquet") for name in ("joined", "one"))
    assert joined.read().equals(one.read())
    assert joined.schema.equals(one.schema)
    assert joined.schema_arrow.equals(one.schema_arrow, check_metadata=True)
    assert returned.equals(joined.metadata)
    assert joined.metadata.num_rows == one.metadata.num_rows == 901
    for number in range(3):
        mine, other = joined.metadata.row_group(number), one.metadata.row_group(number)
        assert joined.read_row_group(number).cast(groups[number].schema).equals(groups[number])
        assert mine.num_rows == other.num_rows
        for column in range(mine.num_columns):
            assert mine.column(column).path_in_schema == other.column(column).path_in_schema
            mine_stats, other_stats = mine.column(column).statistics, other.column(column).statistics
            assert (mine_stats is None) == (other_stats is None)
            if mine_stats is not None:
                assert (mine_stats.min, mine_stats.max) == (other_stats.min, other_stats.max)
                assert mine_stats.null_count == other_stats.null_count


def test_a_file_without_rows_is_a_file(tmp_path: Path) -> None:
    write(tmp_path / "empty.parquet", [])
    assert pq.read_table(tmp_path / "empty.parquet").num_rows == 0


def test_other_readers_find_rows_through_the_joined_bloom_filter(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", [some_rows(0, 300), some_rows(300, 300)])
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    size = (tmp_path / "t.parquet").stat().st_size
    for number in range(2):
        chunk = metadata.row_group(number).column(0)
        assert 0 < chunk.bloom_filter_offset < size - chunk.bloom_filter_length
        assert metadata.row_group(number).column(1).bloom_filter_offset is None
    found = pq.read_table(tmp_path / "t.parquet", filters=pc.field("id") == 457)
    assert found["id"].to_pylist() == [457]


def test_a_column_of_different_values_has_no_dictionary_and_one_of_few_has(tmp_path: Path) -> None:
    group = write(tmp_path / "t.parquet", [some_rows(0, 5000)]).row_group(0)
    assert not group.column(0).has_dictionary_page
    assert group.column(1).has_dictionary_page


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_any_footer_is_the_same_after_reading_and_writing_it(sizes: list[int]) -> None:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, arrow_schema(SCHEMA), write_page_index=True) as writer:
        for size in sizes:
            writer.write_table(some_rows(0, size))
    file = sink.getvalue().to_pybytes()
    footer = file[-8 - int.from_bytes(file[-8:-4], "little") : -8]
    assert encode(decode(footer)) == footer


def test_bloom_filters_are_those_that_the_table_asks_for() -> None:
    properties = {
        "write.parquet.bloom-filter-enabled.column.name": "true",
        "write.parquet.bloom-filter-fpp.column.name": "0.1",
        "write.parquet.bloom-filter-enabled.column.tags.element": "TRUE",
        "write.parquet.bloom-filter-ndv.column.tags.element": "12",
        "write.parquet.bloom-filter-enabled.column.sizes.key": "true",
        "write.parquet.bloom-filter-enabled.column.place.x": "false",
        "write.parquet.bloom-filter-enabled.column.place.on": "true",  # Parquet has none for booleans
        "write.parquet.bloom-filter-max-bytes": "1024",
    }
    found = bloom_filters(SCHEMA, properties)

    assert {place: [bloom.path for bloom in blooms] for place, blooms in found.items()} == {
        1: ["name"],
        2: ["tags.list.element"],
        3: ["sizes.key_value.key"],
    }
    assert found[2][0].options(1000) == {"ndv": 12, "fpp": 0.01}
    assert found[1][0].options(100) == {"ndv": 100, "fpp": 0.1}


def test_a_bloom_filter_is_no_larger_than_the_table_allows() -> None:
    small = BloomFilter("name", 0.01, None, max_bytes=1024).options(10**6)["ndv"]
    assert small == BloomFilter("name", 0.01, None, max_bytes=1024).options(10**7)["ndv"]
    assert isinstance(small, int)
    assert 500 < small < 1024


def test_rows_that_do_not_become_one_row_group_are_refused() -> None:
    rows = pa.table({"x": pa.nulls(64 * 1024 * 1024 + 1, pa.bool_())})  # one more than pyarrow puts into one

    with pytest.raises(ValueError, match="2 row groups"):
        encoded(rows, {})


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_bit_that_was_changed_since_a_file_was_written_never_reads_as_another_row(tmp_path: Path, codec: str) -> None:
    rows = some_rows(0, 300)
    path = tmp_path / "changed.parquet"
    footer = write(path, [rows], compression=codec).serialized_size
    content = path.read_bytes()

    def read(changed: bytes) -> list[pa.RecordBatch]:
        path.write_bytes(changed)
        source = SourceFile(str(path), "PARQUET", len(changed), rows.num_rows, sequence_number=1)
        target = TargetSchema.of(SCHEMA)
        return list(read_batches(PyArrowFileIO(), source, target, name_mapping=None, identity_values={}))

    found = 0
    for place in range(4, len(content) - footer - 8, 23):
        changed = bytearray(content)
        changed[place] ^= 1
        try:
            batches = read(bytes(changed))
        except UnreadableDataFile:
            found += 1
        else:  # what no reader looks at, such as a bloom filter
            assert pa.Table.from_batches(batches).equals(rows)
    assert found > 50
    assert pa.Table.from_batches(read(content)).equals(rows)
