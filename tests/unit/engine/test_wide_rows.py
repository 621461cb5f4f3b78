"""Memory follows bytes and not rows: a few very wide rows are not taken for little."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField

from tableformat.engine.projection import TargetSchema
from tableformat.engine.reading import read_batches
from tableformat.engine.rows import _weight
from tableformat.engine.task import SourceFile

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


def test_a_file_of_wide_rows_weighs_what_its_bytes_weigh() -> None:
    narrow = SourceFile("narrow", "PARQUET", size_bytes=MIB, records=100_000, sequence_number=1)
    wide = SourceFile("wide", "PARQUET", size_bytes=32 * MIB, records=10, sequence_number=1)
    assert _weight(narrow) == 100_000
    assert _weight(wide) == 512 * 1024, "half of all that may be read ahead"
