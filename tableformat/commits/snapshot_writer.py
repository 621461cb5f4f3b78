"""How the files of a new snapshot are written, whatever kind of commit it is: manifests, and the list that names them.

Each kind says which manifests there are and what its summary tells; the form that the table's version and properties
ask for, and the numbers that a snapshot carries, are the same for all of them.
"""

from collections.abc import Mapping, Sequence

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries

from tableformat.commits.manifests import FullManifestWriter, manifest_codec, write_manifest_list
from tableformat.commits.times import next_snapshot_ms
from tableformat.commits.written import WrittenFiles
from tableformat.errors import PermanentError
from tableformat.inspection import partition_path, schema_of_spec
from tableformat.properties import read_number


class _SummaryCollector(SnapshotSummaryCollector):
    """Counts files of every partition; PyIceberg's own has no names for those outside Python's calendar."""

    def update_partition_metrics(
        self, partition_spec: PartitionSpec, file: DataFile, is_add_file: bool, schema: Schema
    ) -> None:
        metrics = self.partition_metrics[partition_path(partition_spec, file.partition, schema)]
        count = metrics.add_file if is_add_file else metrics.remove_file
        count(file)


class SnapshotWriter:
    def __init__(self, table: Table, snapshot_id: int, written: WrittenFiles) -> None:
        self.snapshot_id = snapshot_id
        self._written = written
        self._table = table
        self._metadata = table.metadata
        self._locations = table.location_provider()
        self._codec = manifest_codec(self._metadata.properties)

    def path(self, name: str) -> str:
        """Where the table keeps a file of its metadata."""
        return self._locations.new_metadata_location(name)

    def summary_collector(self) -> SnapshotSummaryCollector:
        return _SummaryCollector(
            read_number(self._metadata.properties, TableProperties.WRITE_PARTITION_SUMMARY_LIMIT) or 0
        )

    def schema(self, spec_id: int) -> Schema:
        """The schema that the spec's partitions are computed from."""
        schema = schema_of_spec(self._metadata, spec_id)
        if schema is None:
            name = ".".join(self._table.name())
            raise PermanentError(f"table {name}: partition spec {spec_id} cannot be understood; nothing was committed")
        return schema

    def manifest(self, path: str, spec_id: int, content: ManifestContent) -> FullManifestWriter:
        self._written.note(path)
        return FullManifestWriter(
            self._metadata.format_version,
            content,
            self._metadata.specs()[spec_id],
            self.schema(spec_id),
            self._table.io.new_output(path),
            self.snapshot_id,
            self._codec,
        )

    def snapshot(
        self,
        path: str,
        head: Snapshot | None,
        manifests: Sequence[ManifestFile],
        operation: Operation,
        changes: Mapping[str, str],
    ) -> Snapshot:
        """Writes the list of its manifests; nothing refers to the snapshot yet."""
        metadata = self._metadata
        first_row_id = (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None
        sequence_number = metadata.next_sequence_number()
        parent_id = head.snapshot_id if head else None
        self._written.note(path)
        self._written.offer([path, *(manifest.manifest_path for manifest in manifests)])
        added_rows = write_manifest_list(
            self._table.io.new_output(path),
            manifests,
            format_version=metadata.format_version,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            avro_compression=self._codec,
        )
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            timestamp_ms=next_snapshot_ms(metadata),
            manifest_list=path,
            summary=_summary(operation, changes, head),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows if first_row_id is not None else None,
        )


def _summary(operation: Operation, changes: Mapping[str, str], head: Snapshot | None) -> Summary:
    # PyIceberg computes the totals of the operations that it writes itself, which `replace` is not one of.
    counted_as = Operation.OVERWRITE if operation == Operation.REPLACE else operation
    totals = update_snapshot_summaries(Summary(counted_as, **changes), head.summary if head else None)
    return Summary(operation, **totals.additional_properties)
