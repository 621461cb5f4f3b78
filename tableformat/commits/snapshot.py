"""Writes the manifests and the manifest list of a replace snapshot.

Manifests without a file that goes are carried over as they are. In the others such a file's entry becomes a
`DELETED` one of this snapshot and the rest stay `EXISTING` with their sequence numbers; both are carried over as bytes,
because a manifest may have ten thousand of them. New files get the sequence number of the snapshot that was planned on,
explicitly.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries

from tableformat.commits.counting import counted
from tableformat.commits.entries import filtered_entries
from tableformat.commits.manifests import FullManifestWriter, write_manifest_list
from tableformat.commits.memory import CommitMemory
from tableformat.commits.replacement import AddedFile, Replacement
from tableformat.commits.times import next_snapshot_ms
from tableformat.commits.validation import ReplacementBase, TouchedManifest
from tableformat.errors import PermanentError
from tableformat.inspection import manifest_first_row_id, schema_of_spec

_ENTRIES_PER_MANIFEST = 10_000
_WRITERS = 2  # each has the entries of a manifest in memory


@dataclass(frozen=True)
class PreparedSnapshot:
    """A snapshot whose files are written and which nothing refers to yet."""

    snapshot: Snapshot
    paths: tuple[str, ...]
    """The files that were written for it, in this attempt or an earlier one."""


def prepare_snapshot(
    table: Table, base: ReplacementBase, replacement: Replacement, memory: CommitMemory, *, summary: Mapping[str, str]
) -> PreparedSnapshot:
    """Writes what the snapshot needs and earlier attempts have not written yet."""
    return _SnapshotWriter(table, memory).write(base, replacement, summary)


class _SnapshotWriter:
    def __init__(self, table: Table, memory: CommitMemory) -> None:
        self._table = table
        self._memory = memory
        self._metadata = table.metadata
        self._snapshot_id = memory.snapshot_id
        self._locations = table.location_provider()
        self._codec: AvroCompressionCodec = self._metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )  # type: ignore[assignment]  # a string to the type checker; the writer refuses what is no codec

    def write(self, base: ReplacementBase, replacement: Replacement, extra: Mapping[str, str]) -> PreparedSnapshot:
        collector = SnapshotSummaryCollector(
            int(self._metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, 0))
        )
        manifests = self._added(base, replacement, collector)
        manifests += self._filtered(base, collector)
        own = [manifest.manifest_path for manifest in manifests]
        created = len(manifests)
        manifests += base.kept
        sequence_number = self._metadata.next_sequence_number()
        path = self._locations.new_metadata_location(self._memory.new_list_name())
        first_row_id = (self._metadata.next_row_id or 0) if isinstance(self._metadata, TableMetadataV3) else None
        added_rows = write_manifest_list(
            self._output(path),
            manifests,
            format_version=self._metadata.format_version,
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=base.head.snapshot_id,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
            avro_compression=self._codec,
        )
        snapshot = Snapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=base.head.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=next_snapshot_ms(self._metadata),
            manifest_list=path,
            summary=_summary(
                base.head,
                collector.build()
                | {
                    "manifests-created": str(created),
                    "manifests-kept": str(len(base.kept)),
                    "manifests-replaced": str(len(base.touched)),
                }
                | dict(extra),
            ),
            schema_id=self._metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows if first_row_id is not None else None,
        )
        return PreparedSnapshot(snapshot, (*own, path))

    def _added(
        self, base: ReplacementBase, replacement: Replacement, collector: SnapshotSummaryCollector
    ) -> list[ManifestFile]:
        by_spec: dict[int, list[AddedFile]] = defaultdict(list)
        for added in replacement.added:
            by_spec[added.spec_id].append(added)
        manifests = []
        for spec_id, added_files in by_spec.items():
            files = [data_file_of(file) for file in added_files]
            for file in files:
                self._count(collector.add_file, file)
            write = functools.partial(self._write_added, spec_id, files, base.starting_sequence_number)
            manifests.append(self._memory.manifest(("added", spec_id), write))
        return manifests

    def _write_added(self, spec_id: int, files: Sequence[DataFile], sequence_number: int) -> ManifestFile:
        with self._manifest(spec_id, ManifestContent.DATA) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=sequence_number,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return writer.to_manifest_file()

    def _filtered(self, base: ReplacementBase, collector: SnapshotSummaryCollector) -> list[ManifestFile]:
        """The entries of touched manifests, in as few new ones as they fit: every append left a manifest of its own."""
        for touched in base.touched:
            for file in touched.files:
                self._count(collector.remove_file, counted(file))
        with ThreadPoolExecutor(_WRITERS) as pool:
            return list(pool.map(self._filtered_together, _together(base.touched)))

    def _filtered_together(self, together: Sequence[TouchedManifest]) -> ManifestFile:
        cause = tuple(
            (touched.manifest.manifest_path, manifest_first_row_id(touched.manifest), touched.removed)
            for touched in together
        )
        return self._memory.manifest(cause, functools.partial(self._write_filtered, together))

    def _write_filtered(self, together: Sequence[TouchedManifest]) -> ManifestFile:
        first = together[0].manifest
        entries = filtered_entries(
            self._table.io,
            [touched.manifest for touched in together],
            {touched.manifest.manifest_path: touched.removed for touched in together},
            snapshot_id=self._snapshot_id,
            format_version=self._metadata.format_version,
            content=first.content,
            spec=self._metadata.specs()[first.partition_spec_id],
            schema=self._schema(first.partition_spec_id),
        )
        with self._manifest(first.partition_spec_id, first.content) as writer:
            writer.write_encoded(entries)
        return writer.to_manifest_file()

    def _count(self, count: Callable[..., None], data_file: DataFile) -> None:
        spec = self._metadata.specs()[data_file.spec_id]
        count(data_file, schema=self._schema(data_file.spec_id), partition_spec=spec)

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
            self._output(path),
            self._snapshot_id,
            self._codec,
        )

    def _output(self, path: str) -> OutputFile:
        self._memory.note(path)
        return self._table.io.new_output(path)


def _together(touched: Sequence[TouchedManifest]) -> list[list[TouchedManifest]]:
    """Manifests of one kind that are written again as one."""
    groups: dict[tuple[int, ManifestContent], list[list[TouchedManifest]]] = defaultdict(lambda: [[]])
    for manifest in touched:
        group = groups[manifest.manifest.partition_spec_id, manifest.manifest.content]
        held = sum(member.live for member in group[-1])
        if held and held + manifest.live > _ENTRIES_PER_MANIFEST:
            group.append([])
        group[-1].append(manifest)
    return [members for group in groups.values() for members in group]


def data_file_of(added: AddedFile) -> DataFile:
    """As its manifest entry has it."""
    file = added.file
    data_file = DataFile.from_args(
        3,
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=added.partition,
        record_count=file.records,
        file_size_in_bytes=file.size_bytes,
        column_sizes=dict(file.column_sizes),
        value_counts=dict(file.value_counts),
        null_value_counts=dict(file.null_value_counts),
        nan_value_counts=dict(file.nan_value_counts),
        lower_bounds=dict(file.lower_bounds),
        upper_bounds=dict(file.upper_bounds),
        split_offsets=list(file.split_offsets),
        sort_order_id=file.sort_order_id,
    )
    data_file.spec_id = added.spec_id
    return data_file


def _summary(parent: Snapshot, changes: dict[str, str]) -> Summary:
    # PyIceberg computes the totals of the operations that it writes itself, which `replace` is not one of.
    totals = update_snapshot_summaries(Summary(Operation.OVERWRITE, **changes), parent.summary)
    return Summary(Operation.REPLACE, **totals.additional_properties)
