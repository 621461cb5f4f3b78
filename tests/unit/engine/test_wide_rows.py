"""Memory follows bytes and not rows: a few very wide rows are not taken for little."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, LongType, NestedField

from tableformat.engine.parallel import Readers
from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.rows import TaskRows, _weight
from tableformat.engine.task import SourceFile
from tests.unit.engine.test_division import task_of

MIB = 1024 * 1024
SCHEMA = Schema(NestedField(1, "payload", BinaryType(), required=False))


def test_batches_of_wide_rows_are_bounded_in_bytes(tmp_path: Path) -> None:
    payloads = [os.urandom(MIB) for _ in range(80)]
    field = pa.field("payload", pa.large_binary(), metadata={"PARQUET:field_id": "1"})
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table([payloads], schema=pa.schema([field])), path, use_dictionary=False)
    source = SourceFile(str(path), "PARQUET", path.stat().st_size, len(payloads), sequence_number=1)

    batches = list(
        read_batches(PyArrowFileIO(), source, TargetSchema.of(SCHEMA), name_mapping=None, identity_values={})
    )

    assert max(batch.nbytes for batch in batches) < 40 * MIB
    assert [value.as_py() for batch in batches for value in batch.column(0)] == payloads


def test_batches_of_a_wide_value_that_comes_again_and_again_are_bounded_in_bytes(tmp_path: Path) -> None:
    """In the file it is there once, and every row has but a number."""
    payload, rows = b"x" * 3000, 30_000
    source = repeated_payload(tmp_path / "repeated.parquet", payload, rows)
    assert source.size_bytes < MIB

    sizes, found = [], 0
    for batch in read_batches(PyArrowFileIO(), source, TargetSchema.of(SCHEMA), name_mapping=None, identity_values={}):
        sizes.append(batch.nbytes)
        found += batch.num_rows

    assert max(sizes) < 40 * MIB
    assert found == rows


def test_what_is_read_ahead_is_bounded_by_its_size_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tableformat.engine.rows._HELD_BYTES", 4 * MIB)
    payloads = [bytes([number]) * 1000 for number in range(1, 41)]
    sources = [
        repeated_payload(tmp_path / f"{number}.parquet", payload, 1000) for number, payload in enumerate(payloads)
    ]
    task = task_of(tmp_path, [], None, sources=tuple(sources), schema=SCHEMA, read_schema=SCHEMA)
    found = []
    with Readers(2) as readers:
        rows = TaskRows(PyArrowFileIO(), task, readers)
        for batch in rows.batches():
            found += batch.column(0).unique().to_pylist()
            readers.submit(int).result()  # those that are idle by now have nothing more to do
            assert rows._held._bytes < (4 + readers._max_workers) * MIB, "one more batch of each reader at the most"

    assert found == payloads, "all of them, in their order"
    assert rows.checksum is not None
    assert rows.checksum.rows == 40_000


def repeated_payload(path: Path, payload: bytes, rows: int) -> SourceFile:
    field = pa.field("payload", pa.large_binary(), metadata={"PARQUET:field_id": "1"})
    column = pa.array([payload], pa.large_binary()).take(pa.array([0] * rows))
    pq.write_table(pa.table([column], schema=pa.schema([field])), path)
    return SourceFile(str(path), "PARQUET", path.stat().st_size, rows, sequence_number=1)


def test_a_file_of_wide_rows_weighs_what_its_bytes_weigh() -> None:
    narrow = SourceFile("narrow", "PARQUET", size_bytes=MIB, records=100_000, sequence_number=1)
    wide = SourceFile("wide", "PARQUET", size_bytes=32 * MIB, records=10, sequence_number=1)
    assert _weight(narrow) == 100_000
    assert _weight(wide) == 512 * 1024, "half of all that may be read ahead"


def test_a_row_group_that_is_all_of_a_large_file_is_never_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_GROUP_AT_ONCE_BYTES", "_PREFETCH_BELOW_BYTES"):
        monkeypatch.setattr(f"tableformat.engine.reading.{limit}", MIB)
    columns, rows = 8, 400_000
    numbers = np.random.default_rng(0).integers(0, 1 << 62, (columns, rows))
    fields = [pa.field(f"c{i}", pa.int64(), metadata={"PARQUET:field_id": str(i + 1)}) for i in range(columns)]
    path = tmp_path / "one-group.parquet"
    pq.write_table(pa.table(list(numbers), schema=pa.schema(fields)), path, row_group_size=rows, use_dictionary=False)
    source = SourceFile(str(path), "PARQUET", path.stat().st_size, rows, sequence_number=1)
    target = TargetSchema.of(Schema(*(NestedField(i + 1, f"c{i}", LongType()) for i in range(columns))))

    before, held, found = pa.total_allocated_bytes(), 0, []
    for batch in read_batches(PyArrowFileIO(), source, target, name_mapping=None, identity_values={}):
        held = max(held, pa.total_allocated_bytes() - before)
        found.append(batch.column(0).to_numpy(zero_copy_only=False).copy())

    assert (np.concatenate(found) == numbers[0]).all()
    assert source.size_bytes > 24 * MIB
    assert held < 12 * MIB
