"""ORC and Avro files read as Parquet files with the same rows do, whatever their schemas, and a piece at a time."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.engine.avro_file import AvroFile
from tableformat.engine.checksum import Checksum
from tableformat.engine.errors import UnreadableDataFile
from tableformat.engine.lineage import fill_lineage, with_lineage
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.task import SourceFile
from tests.data_files import FOREIGN, as_texts, avro_file, encoded, rows_of
from tests.unit.inspection.avro import SYNC, header, long, text
from tests.unit.inspection.test_avro_columns import CODECS

in_each_format = pytest.mark.parametrize("file_format", FOREIGN)


class Folder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = count()

    def put(self, file_format: FileFormat, content: bytes, records: int, **arguments: Any) -> SourceFile:
        path = self._path / f"{next(self._numbers)}.{file_format.value.lower()}"
        path.write_bytes(content)
        return SourceFile(f"file://{path}", file_format.value, len(content), records, sequence_number=7, **arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def batches(source: SourceFile, schema: Schema) -> Iterator[pa.RecordBatch]:
    return read_batches(PyArrowFileIO(), source, TargetSchema.of(schema), name_mapping=None, identity_values={})


def read(source: SourceFile, schema: Schema) -> pa.Table:
    return pa.Table.from_batches(batches(source, schema), TargetSchema.of(schema).arrow)


@in_each_format
def test_nanoseconds_are_kept(folder: Folder, file_format: FileFormat) -> None:
    schema = Schema(
        NestedField(1, "plain", TimestampNanoType(), required=False),
        NestedField(2, "zoned", TimestamptzNanoType(), required=False),
    )
    numbers = [-1, 1, 999_999_999, -(2**63) + 1_000_000_000, 2**63 - 1, None]
    rows = [{"plain": number, "zoned": number} for number in numbers]

    found = read(folder.put(file_format, encoded(file_format, schema, rows), len(rows)), schema)

    assert found["plain"].cast(pa.int64()).to_pylist() == numbers
    assert found["zoned"].cast(pa.int64()).to_pylist() == numbers


def test_nanoseconds_in_a_column_of_microseconds_are_not_cut_off(folder: Folder) -> None:
    nanoseconds = Schema(NestedField(1, "at", TimestampNanoType(), required=False))
    source = folder.put(FileFormat.ORC, encoded(FileFormat.ORC, nanoseconds, [{"at": 1001}]), 1)

    with pytest.raises(UnreadableDataFile, match="would lose data"):
        read(source, Schema(NestedField(1, "at", TimestampType(), required=False)))


@in_each_format
def test_a_column_that_the_file_lacks_has_its_default(folder: Folder, file_format: FileFormat) -> None:
    older = Schema(NestedField(1, "id", LongType(), required=True))
    source = folder.put(file_format, encoded(file_format, older, [{"id": 1}, {"id": 2}]), 2)
    level = NestedField(2, "level", IntegerType(), required=True, initial_default=7)

    assert read(source, Schema(*older.fields, level)).to_pylist() == [{"id": 1, "level": 7}, {"id": 2, "level": 7}]


@in_each_format
def test_row_lineage_is_taken_from_the_file_where_it_has_it(folder: Folder, file_format: FileFormat) -> None:
    schema = with_lineage(Schema(NestedField(1, "id", LongType(), required=True)))
    rows = [{"id": 0}, {"id": 1, "_row_id": 500, "_last_updated_sequence_number": 3}, {"id": 2}]
    source = folder.put(file_format, encoded(file_format, schema, rows), 3, first_row_id=100)

    [batch] = batches(source, schema)
    found = fill_lineage(batch, source, 0)

    assert found["_row_id"].to_pylist() == [100, 500, 102]
    assert found["_last_updated_sequence_number"].to_pylist() == [7, 3, 7]


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec])
def test_avro_of_every_codec_of_iceberg(folder: Folder, codec: str) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=True)
    )
    fields = [{"name": "id", "type": "long", "field-id": 1}, {"name": "name", "type": "string", "field-id": 2}]
    content = CODECS[codec](b"".join(long(number) + text(f"row {number}") for number in range(500)))
    source = folder.put(FileFormat.AVRO, header(fields, codec) + long(500) + text(content) + SYNC, 500)

    assert read(source, schema)["name"].to_pylist() == [f"row {number}" for number in range(500)]


def test_avro_of_an_unknown_codec_is_refused(folder: Folder) -> None:
    fields = [{"name": "id", "type": "long", "field-id": 1}]
    source = folder.put(FileFormat.AVRO, header(fields, "xz"), 0)

    with pytest.raises(UnreadableDataFile, match="compressed by 'xz'"):
        read(source, Schema(NestedField(1, "id", LongType(), required=True)))


LARGE = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "noise", FixedType(64), required=False))
LARGE_ROWS = 200_000


def large_avro() -> bytes:
    noise = np.random.default_rng(0).bytes(64)
    rows = [{"id": number, "noise": noise} for number in range(1000)]
    [start, *_] = avro_file(LARGE, [rows], codec="null").split(SYNC)
    blocks = [start + SYNC]
    for first in range(0, LARGE_ROWS, 1000):
        content = b"".join(long(number) + b"\x02" + noise for number in range(first, first + 1000))
        blocks.append(long(1000) + text(content) + SYNC)
    return b"".join(blocks)


def large_orc() -> bytes:
    """Of several stripes."""
    generator, sink = np.random.default_rng(0), pa.BufferOutputStream()
    noise = pa.Array.from_buffers(pa.binary(64), LARGE_ROWS, [None, pa.py_buffer(generator.bytes(64 * LARGE_ROWS))])
    notes = {"iceberg.id": "2", "iceberg.binary-type": "FIXED", "iceberg.length": "64"}
    fields = [
        pa.field("id", pa.int64(), metadata={"iceberg.id": "1"}),
        pa.field("noise", pa.binary(), metadata=notes),
    ]
    rows = pa.table([np.arange(LARGE_ROWS), noise.cast(pa.binary())], schema=pa.schema(fields))
    orc.write_table(rows, sink, stripe_size=1024 * 1024)
    assert orc.ORCFile(pa.BufferReader(sink.getvalue())).nstripes > 3
    return bytes(sink.getvalue())


@pytest.mark.parametrize(("file_format", "content"), [(FileFormat.AVRO, large_avro), (FileFormat.ORC, large_orc)])
def test_a_large_file_comes_in_pieces_and_in_its_order(
    folder: Folder, file_format: FileFormat, content: Callable[[], bytes]
) -> None:
    source = folder.put(file_format, content(), LARGE_ROWS)
    assert source.size_bytes > 8 * 1024 * 1024  # more than is fetched at once

    rows = 0
    for batch in batches(source, LARGE):
        assert batch.num_rows <= 70_000
        assert batch["id"].to_pylist() == list(range(rows, rows + batch.num_rows))
        rows += batch.num_rows
    assert rows == LARGE_ROWS


@pytest.mark.parametrize(("file_format", "content"), [(FileFormat.AVRO, large_avro), (FileFormat.ORC, large_orc)])
def test_a_reader_may_stop_after_the_first_rows(
    folder: Folder, file_format: FileFormat, content: Callable[[], bytes]
) -> None:
    source = folder.put(file_format, content(), LARGE_ROWS)
    for _ in range(5):
        some = read_batches(PyArrowFileIO(), source, TargetSchema.of(LARGE), name_mapping=None, identity_values={})
        assert next(some)["id"][0].as_py() == 0
        some.close()


def test_avro_is_read_no_further_than_the_rows_that_are_asked_for() -> None:
    class Stream:
        def __init__(self, content: bytes) -> None:
            self.content, self.position = content, 0

        def read(self, size: int = -1) -> bytes:
            part = self.content[self.position : self.position + size]
            self.position += len(part)
            return part

    stream = Stream(large_avro())
    next(AvroFile(stream).batches())
    assert stream.position < len(stream.content) / 2


EARLIEST, LATEST = datetime(1677, 9, 22), datetime(2262, 4, 11)  # noqa: DTZ001
VALUES: dict[PrimitiveType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats() | st.sampled_from([-0.0, math.nan, math.inf]),
    DecimalType(1, 0): st.integers(-9, 9).map(Decimal),
    DecimalType(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal((n < 0, digits(n), -2))),
    DecimalType(18, 18): st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal((n < 0, digits(n), -18))),
    DecimalType(38, 5): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal((n < 0, digits(n), -5))),
    DateType(): st.dates(),
    TimeType(): st.times().map(lambda moment: moment.replace(fold=0)),
    TimestampType(): st.datetimes(EARLIEST, LATEST).map(lambda moment: moment.replace(fold=0)),
    TimestamptzType(): st.datetimes(EARLIEST, LATEST, timezones=st.just(UTC)),
    StringType(): st.text(max_size=5),
    UUIDType(): st.uuids(),
    FixedType(3): st.binary(min_size=3, max_size=3),
    FixedType(17): st.binary(min_size=17, max_size=17),
    BinaryType(): st.binary(max_size=5),
}
KEYS = (IntegerType(), LongType(), StringType(), DateType(), UUIDType(), DecimalType(9, 2), TimestamptzType())


def digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


@st.composite
def types(draw: st.DrawFn, numbers: Iterator[int], depth: int = 0) -> IcebergType:
    kind = draw(st.sampled_from(["plain", "plain", "struct", "list", "map"])) if depth < 3 else "plain"
    if kind == "struct":
        return StructType(*draw(fields(numbers, depth + 1)))
    if kind == "list":
        return ListType(next(numbers), draw(types(numbers, depth + 1)), element_required=draw(st.booleans()))
    if kind == "map":
        key, key_id, value_id = draw(st.sampled_from(KEYS)), next(numbers), next(numbers)
        return MapType(key_id, key, value_id, draw(types(numbers, depth + 1)), value_required=draw(st.booleans()))
    return draw(st.sampled_from(list(VALUES)))


@st.composite
def fields(draw: st.DrawFn, numbers: Iterator[int], depth: int = 0) -> list[NestedField]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        number = next(numbers)
        found.append(NestedField(number, f"c{number}", draw(types(numbers, depth)), required=draw(st.booleans())))
    return found


def values(kind: IcebergType, *, required: bool) -> st.SearchStrategy[Any]:
    if isinstance(kind, StructType):
        inner: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {field.name: values(field.field_type, required=field.required) for field in kind.fields}
        )
    elif isinstance(kind, ListType):
        inner = st.lists(values(kind.element_type, required=kind.element_required), max_size=3)
    elif isinstance(kind, MapType):
        value = values(kind.value_type, required=kind.value_required)
        inner = st.dictionaries(values(kind.key_type, required=True), value, max_size=3).map(lambda m: list(m.items()))
    else:
        assert isinstance(kind, PrimitiveType)
        inner = VALUES[kind]
    return inner if required else st.none() | inner


@st.composite
def contents(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    schema = Schema(*draw(fields(count(1))))
    return schema, draw(st.lists(values(schema.as_struct(), required=True), max_size=8))


def has_struct_in_struct(kind: IcebergType, *, within: bool = False) -> bool:
    if isinstance(kind, StructType):
        return within or any(has_struct_in_struct(field.field_type, within=True) for field in kind.fields)
    if isinstance(kind, ListType):
        return has_struct_in_struct(kind.element_type, within=within)
    return isinstance(kind, MapType) and has_struct_in_struct(kind.value_type, within=within)


@in_each_format
@pytest.mark.parametrize("others", [[], [{"flag": True}]])
def test_a_null_where_a_struct_with_required_fields_could_be_stays_a_null(
    folder: Folder, file_format: FileFormat, others: list[dict[str, bool]]
) -> None:
    element = StructType(NestedField(3, "flag", BooleanType(), required=True))
    schema = Schema(NestedField(1, "list", ListType(2, element, element_required=False), required=False))
    lists: list[Any] = [None, [None], [], [*others, None, *others]]
    rows = [{"list": content} for content in lists]

    found = read(folder.put(file_format, encoded(file_format, schema, rows), len(rows)), schema)

    assert found.to_pylist() == rows


@settings(max_examples=75)
@given(content=contents())
def test_rows_of_any_schema_are_the_same_from_every_format(
    tmp_path_factory: pytest.TempPathFactory, content: tuple[Schema, list[dict[str, Any]]]
) -> None:
    schema, rows = content
    folder = Folder(tmp_path_factory.mktemp("files"))
    # pyarrow's writer of ORC loses values behind a null struct within a struct. What Java writes is read right, and the
    # tests of its tables have such structs.
    nested = any(has_struct_in_struct(field.field_type, within=False) for field in schema.fields)
    foreign = (FileFormat.AVRO,) if nested else FOREIGN

    found, checksums = {}, {}
    for file_format in (FileFormat.PARQUET, *foreign):
        source = folder.put(file_format, encoded(file_format, schema, rows), len(rows))
        found[file_format], checksums[file_format] = read(source, schema), Checksum()
        found[file_format].validate(full=True)
        for batch in found[file_format].combine_chunks().to_batches():
            checksums[file_format].add(batch)

    for file_format in foreign:
        assert found[file_format].schema == found[FileFormat.PARQUET].schema
        assert rows_of(found[file_format]) == rows_of(found[FileFormat.PARQUET])
        assert checksums[file_format] == checksums[FileFormat.PARQUET]
    assert rows_of(found[FileFormat.PARQUET]) == as_texts(rows)
