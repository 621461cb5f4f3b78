"""The snapshot that has some files more and some files less than the one before: appends, deletes and overwrites.

A removed file's entry becomes a `DELETED` one of this snapshot; the others stay what they are. A delete file that names
a removed file and no other goes with it, deletion vectors among them. A data file has one deletion vector at most, so
the position deletes that a new vector takes over go as well.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)

from tableformat.commits.counting import counted
from tableformat.commits.errors import CommitConflict
from tableformat.commits.manifests import FullManifestWriter, write_manifest_list
from tableformat.commits.memory import CommitMemory
from tableformat.commits.times import next_snapshot_ms
from tableformat.errors import PermanentError
from tableformat.inspection import live_file, read_manifests, schema_of_spec
from tableformat.inspection.manifests import path_bounds


@dataclass(frozen=True)
class NewFile:
    """A data or delete file that comes with the snapshot."""

    file: DataFile
    sequence_number: int | None = None
    """Of rows that are older than the snapshot: younger equality deletes must still apply to them."""


@dataclass(frozen=True)
class Delta:
    """What changes from one snapshot to the next."""

    removed: Mapping[str, str] = field(default_factory=dict)
    """The data files that go, each with the manifest that has it."""
    superseded: Set[str] = frozenset()
    """Data files whose position deletes are all in a vector that is among the new files."""
    added: tuple[NewFile, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        if all(new.file.content != DataFileContent.DATA for new in self.added):
            return Operation.DELETE
        is_append = not self.removed and all(new.file.content == DataFileContent.DATA for new in self.added)
        return Operation.APPEND if is_append else Operation.OVERWRITE


def snapshot_with_delta(table: Table, head: Snapshot | None, delta: Delta, memory: CommitMemory) -> Snapshot:
    """Written, and referred to by nothing yet. Raises `CommitConflict` if a file that is to go has gone already."""
    return _DeltaWriter(table, head, delta, memory).write()


class _DeltaWriter:
    def __init__(self, table: Table, head: Snapshot | None, delta: Delta, memory: CommitMemory) -> None:
        self._table = table
        self._metadata = table.metadata
        self._head = head
        self._delta = delta
        self._memory = memory
        self._snapshot_id = memory.snapshot_id
        self._locations = table.location_provider()
        self._collector = SnapshotSummaryCollector(
            int(self._metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, 0))
        )
        self._found: set[str] = set()
        self._codec: AvroCompressionCodec = self._metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )  # type: ignore[assignment]  # a string to the type checker; the writer refuses what is no codec

    def write(self) -> Snapshot:
        metadata, head = self._metadata, self._head
        before = [] if head is None else read_manifests(self._table.io, head)
        kept = [self._filtered(manifest) for manifest in before]
        if missing := self._delta.removed.keys() - self._found:
            name = ".".join(self._table.name())
            raise CommitConflict(f"table {name}: {len(missing)} files are gone already, one is {min(missing)}")
        path = self._locations.new_metadata_location(self._memory.new_list_name())
        first_row_id = (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None
        sequence_number = metadata.next_sequence_number()
        added_rows = write_manifest_list(
            self._table.io.new_output(path),
            [*self._added(), *kept],
            format_version=metadata.format_version,
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=head.snapshot_id if head else None,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            avro_compression=self._codec,
        )
        changes = self._collector.build() | dict(self._delta.summary)
        return Snapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=head.snapshot_id if head else None,
            sequence_number=sequence_number,
            timestamp_ms=next_snapshot_ms(metadata),
            manifest_list=path,
            summary=update_snapshot_summaries(
                Summary(self._delta.operation, **changes), head.summary if head else None
            ),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows if first_row_id is not None else None,
        )

    def _added(self) -> list[ManifestFile]:
        """Written for each attempt: what is added may differ from one to the next."""
        groups: dict[tuple[int, ManifestContent], list[NewFile]] = defaultdict(list)
        for new in self._delta.added:
            is_data = new.file.content == DataFileContent.DATA
            groups[new.file.spec_id, ManifestContent.DATA if is_data else ManifestContent.DELETES].append(new)
        manifests = []
        for (spec_id, content), files in groups.items():
            with self._manifest(spec_id, content) as writer:
                for new in files:
                    entry = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=new.sequence_number,
                        file_sequence_number=None,
                        data_file=new.file,
                    )
                    self._count(self._collector.add_file, entry)
                    writer.add(entry)
            manifests.append(writer.to_manifest_file())
        return manifests

    def _filtered(self, manifest: ManifestFile) -> ManifestFile:
        if not self._may_have_what_goes(manifest):
            return manifest
        entries = self._memory.entries(self._table.io, manifest)
        going = [self._goes(entry.data_file, manifest.content) for entry in entries]
        if not any(going):
            return manifest
        if manifest.content == ManifestContent.DATA:
            self._found |= {entry.data_file.file_path for entry, goes in zip(entries, going, strict=True) if goes}
        with self._manifest(manifest.partition_spec_id, manifest.content) as writer:
            for entry, goes in zip(entries, going, strict=True):
                if goes:
                    self._count(self._collector.remove_file, entry)
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()

    def _may_have_what_goes(self, manifest: ManifestFile) -> bool:
        if manifest.content == ManifestContent.DELETES:
            return bool(self._delta.removed or self._delta.superseded)
        return manifest.manifest_path in self._delta.removed.values()

    def _goes(self, file: DataFile, content: ManifestContent) -> bool:
        if content == ManifestContent.DATA:
            return file.file_path in self._delta.removed
        if file.content != DataFileContent.POSITION_DELETES:
            return False
        bounds = path_bounds(file)
        if bounds is None or bounds[0] != bounds[1]:
            return False
        named = bounds[0].decode()
        return named in self._delta.removed or named in self._delta.superseded

    def _count(self, count: Callable[..., None], entry: ManifestEntry) -> None:
        file = counted(live_file(entry))
        count(file, schema=self._schema(file.spec_id), partition_spec=self._metadata.specs()[file.spec_id])

    def _schema(self, spec_id: int) -> Schema:
        schema = schema_of_spec(self._metadata, spec_id)
        if schema is None:
            name = ".".join(self._table.name())
            raise PermanentError(f"table {name}: partition spec {spec_id} cannot be understood; nothing was committed")
        return schema

    def _manifest(self, spec_id: int, content: ManifestContent) -> FullManifestWriter:
        path = self._locations.new_metadata_location(self._memory.new_manifest_name())
        return FullManifestWriter(
            self._metadata.format_version,
            content,
            self._metadata.specs()[spec_id],
            self._schema(spec_id),
            self._table.io.new_output(path),
            self._snapshot_id,
            self._codec,
        )
