"""The files of a snapshot as values, without manifests behind them, in three partitions of two specs."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from tableformat.inspection import FORMATS, LiveFile, Partitions, SnapshotFiles
from tableformat.inspection.decoding import DELETE_ENTRY, ENTRY, ValueForm

GLOBAL_SPEC = 0
PARTITIONS: list[tuple[int, Record]] = [(GLOBAL_SPEC, Record()), (1, Record(1)), (1, Record(2))]


def live(
    path: str,
    partition: int = 0,
    *,
    size_bytes: int = 100,
    records: int = 10,
    sequence_number: int = 1,
    content: DataFileContent = DataFileContent.DATA,
    path_bounds: tuple[bytes, bytes] | None = None,
) -> LiveFile:
    spec_id, values = PARTITIONS[partition]
    return LiveFile(
        path,
        content,
        FileFormat.PARQUET,
        size_bytes,
        records,
        spec_id,
        values,
        sequence_number,
        added_snapshot_id=1,
        encrypted=False,
        path_bounds=path_bounds,
    )


def snapshot_of(data: Sequence[LiveFile], deletes: Sequence[LiveFile] = ()) -> SnapshotFiles:
    values = {0: pa.table({}), 1: pa.table({"0": [1, 2]})}
    partitions = Partitions(np.array([0, 1, 1]), np.array([0, 0, 1]), values, {0: (), 1: (ValueForm.AS_IS,)})
    return SnapshotFiles((), _table(data, ENTRY), _table(deletes, DELETE_ENTRY), partitions)


def _table(files: Sequence[LiveFile], schema: pa.Schema) -> pa.Table:
    rows = [
        {
            "path": file.path,
            "file_format": FORMATS.index(file.file_format),
            "size_bytes": file.size_bytes,
            "records": file.records,
            "encrypted": file.encrypted,
            "sequence_number": file.sequence_number,
            "added_snapshot_id": file.added_snapshot_id,
            "content": file.content.value,
            "path_lower": file.path_bounds[0] if file.path_bounds else None,
            "path_upper": file.path_bounds[1] if file.path_bounds else None,
            "spec_id": file.spec_id,
            "partition": PARTITIONS.index((file.spec_id, file.partition)),
        }
        for file in files
    ]
    of_table = pa.schema([*schema, ("spec_id", pa.int32()), ("partition", pa.int32())])
    return pa.Table.from_pylist(rows, of_table.remove(0))
