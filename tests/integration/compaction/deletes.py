"""Files put into a table as another engine would put them: PyIceberg writes no deletes, and not every data file."""

import io
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from tableformat.commits.manifests import FullManifestWriter

PATH_ID, POSITION_ID = 2147483546, 2147483545
POSITION_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)


def delete_positions(
    table: Table, positions: Mapping[str, Sequence[int]], *, partition: Record | None = None, bounds: bool = True
) -> str:
    """Delete rows by the path and position of each, in one position delete file."""
    pairs = sorted((path, position) for path, listed in positions.items() for position in listed)
    rows = pa.table([[path for path, _ in pairs], [position for _, position in pairs]], schema=POSITION_SCHEMA)
    limits: dict[str, Any] = {}
    if bounds:
        limits = {
            "lower_bounds": {PATH_ID: pairs[0][0].encode()},
            "upper_bounds": {PATH_ID: pairs[-1][0].encode()},
        }
    file = _delete_file(table, rows, DataFileContent.POSITION_DELETES, partition, limits)
    commit_delete_files(table, [file])
    return file.file_path


def delete_equal(
    table: Table,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    *,
    partition: Record | None = None,
    spec_id: int | None = None,
    equality_ids: Sequence[int] | None = None,
) -> str:
    """Delete every older row that is equal to one of these in the columns."""
    file = _equality_file(table, columns, rows, partition, equality_ids)
    file.spec_id = table.spec().spec_id if spec_id is None else spec_id
    commit_delete_files(table, [file])
    return file.file_path


def put_equality_deletes(
    table: Table, columns: Sequence[str], rows: Mapping[Record, Sequence[Mapping[str, object]]]
) -> None:
    """Equality deletes of several partitions in one manifest."""
    commit_delete_files(table, [_equality_file(table, columns, found, where, None) for where, found in rows.items()])


def _equality_file(
    table: Table,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    partition: Record | None,
    equality_ids: Sequence[int] | None,
) -> DataFile:
    schema = table.schema().select(*columns)
    ids = equality_ids or [table.schema().find_field(column).field_id for column in columns]
    content = pa.Table.from_pylist([dict(row) for row in rows], schema=schema_to_pyarrow(schema))
    return _delete_file(table, content, DataFileContent.EQUALITY_DELETES, partition, {"equality_ids": list(ids)})


def _delete_file(
    table: Table, rows: pa.Table, content: DataFileContent, partition: Record | None, arguments: Mapping[str, Any]
) -> DataFile:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, store_schema=False, store_decimal_as_integer=True)
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        stream.write(buffer.getvalue())
    file = DataFile.from_args(
        3,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(buffer.getvalue()),
        **arguments,
    )
    file.spec_id = table.spec().spec_id
    return file


def commit_delete_files(table: Table, files: Sequence[DataFile]) -> None:
    assert table.refresh().current_snapshot() is not None
    commit_files(table, files, ManifestContent.DELETES)


def commit_files(table: Table, files: Sequence[DataFile], content: ManifestContent) -> None:
    metadata, head = table.refresh().metadata, table.current_snapshot()
    head_id = None if head is None else head.snapshot_id
    snapshot_id, sequence_number = metadata.new_snapshot_id(), metadata.next_sequence_number()
    manifests = [] if head is None else head.manifests(table.io)
    for spec_id in sorted({file.spec_id for file in files}):
        output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-files.avro")
        with FullManifestWriter(
            2, content, metadata.specs()[spec_id], table.schema(), output, snapshot_id, "null"
        ) as writer:
            for file in files:
                if file.spec_id == spec_id:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file
                        )
                    )
        manifests.append(writer.to_manifest_file())
    path = f"{table.location()}/metadata/snap-{snapshot_id}-{uuid.uuid4()}.avro"
    with write_manifest_list(
        2, table.io.new_output(path), snapshot_id, head_id, sequence_number, "null"
    ) as list_writer:
        list_writer.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head_id,
        sequence_number=sequence_number,
        manifest_list=path,
        summary=Summary(Operation.DELETE if content == ManifestContent.DELETES else Operation.APPEND),
        schema_id=metadata.current_schema_id,
    )
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=head_id),),
        (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(
                ref_name="main",
                type="branch",
                snapshot_id=snapshot_id,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
        ),
    )
    table.refresh()
