"""The snapshot that has some data files no more: a `delete`, made of manifests alone.

A removed file's entry becomes a `DELETED` one of this snapshot; the others stay what they are. A delete file that names
a removed file and no other goes with it, deletion vectors among them.
"""

import itertools
import time
import uuid
from collections.abc import Set
from dataclasses import dataclass, field

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)

from tableformat.commits.errors import CommitConflict
from tableformat.commits.manifests import FullManifestWriter, write_manifest_list
from tableformat.commits.runs import RUN_ID
from tableformat.errors import PermanentError
from tableformat.inspection import read_entries, read_manifests, schema_of_spec
from tableformat.inspection.manifests import path_bounds


def snapshot_without(table: Table, head: Snapshot, removed: Set[str], *, run_id: str) -> Snapshot:
    """Written, and referred to by nothing yet. Raises `CommitConflict` if a file is not in the head any more."""
    return _Removal(table, head, removed).write(run_id)


@dataclass
class _Removal:
    table: Table
    head: Snapshot
    removed: Set[str]
    snapshot_id: int = field(init=False)

    def __post_init__(self) -> None:
        self.snapshot_id = self.table.metadata.new_snapshot_id()
        self._commit, self._numbers = uuid.uuid4(), itertools.count()
        self._collector = SnapshotSummaryCollector(
            int(self.table.metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, 0))
        )
        self._found: set[str] = set()
        self._codec: AvroCompressionCodec = self.table.metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )  # type: ignore[assignment]  # a string to the type checker; the writer refuses what is no codec

    def write(self, run_id: str) -> Snapshot:
        metadata = self.table.metadata
        manifests = [self._filtered(manifest) for manifest in read_manifests(self.table.io, self.head)]
        if missing := self.removed - self._found:
            name = ".".join(self.table.name())
            raise CommitConflict(f"table {name}: {len(missing)} files are gone already, one is {min(missing)}")
        path = self.table.location_provider().new_metadata_location(f"snap-{self.snapshot_id}-0-{self._commit}.avro")
        first_row_id = (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None
        sequence_number = metadata.next_sequence_number()
        added_rows = write_manifest_list(
            self.table.io.new_output(path),
            manifests,
            format_version=metadata.format_version,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=self.head.snapshot_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            avro_compression=self._codec,
        )
        changes = self._collector.build() | {RUN_ID: run_id}
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=self.head.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=max(int(time.time() * 1000), self.head.timestamp_ms),
            manifest_list=path,
            summary=update_snapshot_summaries(Summary(Operation.DELETE, **changes), self.head.summary),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows if first_row_id is not None else None,
        )

    def _filtered(self, manifest: ManifestFile) -> ManifestFile:
        entries = read_entries(self.table.io, manifest)
        going = [self._goes(entry.data_file, manifest.content) for entry in entries]
        if not any(going):
            return manifest
        if manifest.content == ManifestContent.DATA:
            self._found |= {entry.data_file.file_path for entry, goes in zip(entries, going, strict=True) if goes}
        return self._written(manifest, entries, going)

    def _goes(self, file: DataFile, content: ManifestContent) -> bool:
        if content == ManifestContent.DATA:
            return file.file_path in self.removed
        bounds = path_bounds(file)
        return bounds is not None and bounds[0] == bounds[1] and bounds[0].decode() in self.removed

    def _written(self, manifest: ManifestFile, entries: list[ManifestEntry], going: list[bool]) -> ManifestFile:
        metadata, spec_id = self.table.metadata, manifest.partition_spec_id
        schema, spec = schema_of_spec(metadata, spec_id), metadata.specs()[spec_id]
        if schema is None:
            name = ".".join(self.table.name())
            raise PermanentError(f"table {name}: partition spec {spec_id} cannot be understood; nothing was committed")
        path = self.table.location_provider().new_metadata_location(f"{self._commit}-m{next(self._numbers)}.avro")
        output = self.table.io.new_output(path)
        with FullManifestWriter(
            metadata.format_version, manifest.content, spec, schema, output, self.snapshot_id, self._codec
        ) as writer:
            for entry, goes in zip(entries, going, strict=True):
                if goes:
                    self._collector.remove_file(entry.data_file, schema=schema, partition_spec=spec)
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()
