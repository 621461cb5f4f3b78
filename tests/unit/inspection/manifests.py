"""Snapshots of arbitrary entries, written by PyIceberg's writers to a local folder."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import LongType, NestedField

from tableformat.commits.manifests import FullManifestWriter, write_manifest_list

IO = PyArrowFileIO()
PLAIN = Schema(NestedField(1, "id", LongType(), required=False))
PATH_FIELD_ID = 2147483546


def data_file(path: str = "file:///a.parquet", **arguments: Any) -> DataFile:
    known: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": path,
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": 10,
        "file_size_in_bytes": 100,
    }
    file = DataFile.from_args(3, **(known | arguments))
    file.spec_id = 0
    return file


@dataclass
class Folder:
    """Where manifests are written."""

    path: Path
    format_version: TableVersion = 2
    schema: Schema = PLAIN
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    codec: AvroCompressionCodec = "deflate"
    snapshot_id: int = 77

    def manifest(
        self,
        files: Sequence[DataFile],
        content: ManifestContent = ManifestContent.DATA,
        *,
        statuses: Sequence[ManifestEntryStatus] = (),
        sequence_number: int = 0,
    ) -> ManifestFile:
        """New files unless statuses are given; existing and deleted ones have the sequence number."""
        output = IO.new_output(f"file://{self.path}/{uuid.uuid4()}.avro")
        with FullManifestWriter(
            self.format_version, content, self.spec, self.schema, output, self.snapshot_id, self.codec
        ) as writer:
            for number, file in enumerate(files):
                status = statuses[number] if statuses else ManifestEntryStatus.ADDED
                entry = ManifestEntry.from_args(status=status, snapshot_id=self.snapshot_id, data_file=file)
                if status == ManifestEntryStatus.ADDED:
                    writer.add(entry)
                    continue
                entry.sequence_number = entry.file_sequence_number = sequence_number
                writer.existing(entry) if status == ManifestEntryStatus.EXISTING else writer.delete(entry)
        return writer.to_manifest_file()

    def snapshot(
        self, manifests: Sequence[ManifestFile], *, sequence_number: int = 9, first_row_id: int | None = None
    ) -> Snapshot:
        path = f"file://{self.path}/{uuid.uuid4()}-list.avro"
        write_manifest_list(
            IO.new_output(path),
            manifests,
            format_version=self.format_version,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=None,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            avro_compression=self.codec,
        )
        return Snapshot(
            snapshot_id=self.snapshot_id,
            sequence_number=sequence_number,
            manifest_list=path,
            summary=Summary(Operation.APPEND),
        )
