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

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector

from tableformat.commits.counting import counted
from tableformat.commits.entries import filtered_entries
from tableformat.commits.manifests import FullManifestWriter
from tableformat.commits.memory import CommitMemory
from tableformat.commits.replacement import AddedFile, Replacement
from tableformat.commits.snapshot_writer import SnapshotWriter
from tableformat.commits.validation import ReplacementBase, TouchedManifest
from tableformat.inspection import manifest_first_row_id

_ENTRIES_PER_MANIFEST = 10_000
_WRITERS = 2  # each has the entries of a manifest in memory


def prepare_snapshot(
    table: Table, base: ReplacementBase, replacement: Replacement, memory: CommitMemory, *, summary: Mapping[str, str]
) -> Snapshot:
    """Writes what the snapshot needs and earlier attempts have not written yet; nothing refers to it yet."""
    return _ReplaceWriter(table, memory).write(base, replacement, summary)


class _ReplaceWriter:
    def __init__(self, table: Table, memory: CommitMemory) -> None:
        self._table = table
        self._memory = memory
        self._metadata = table.metadata
        self._writer = SnapshotWriter(table, memory.snapshot_id, memory.written)

    def write(self, base: ReplacementBase, replacement: Replacement, extra: Mapping[str, str]) -> Snapshot:
        collector = self._writer.summary_collector()
        own = [*self._added(base, replacement, collector), *self._filtered(base, collector)]
        changes = {
            "manifests-created": str(len(own)),
            "manifests-kept": str(len(base.kept)),
            "manifests-replaced": str(len(base.touched)),
        }
        path = self._writer.path(self._memory.new_list_name())
        return self._writer.snapshot(
            path, base.head, [*own, *base.kept], Operation.REPLACE, collector.build() | changes | dict(extra)
        )

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
                        snapshot_id=self._writer.snapshot_id,
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
            snapshot_id=self._writer.snapshot_id,
            format_version=self._metadata.format_version,
            content=first.content,
            spec=self._metadata.specs()[first.partition_spec_id],
            schema=self._writer.schema(first.partition_spec_id),
        )
        with self._manifest(first.partition_spec_id, first.content) as writer:
            writer.write_encoded(entries)
        return writer.to_manifest_file()

    def _count(self, count: Callable[..., None], data_file: DataFile) -> None:
        spec = self._metadata.specs()[data_file.spec_id]
        count(data_file, schema=self._writer.schema(data_file.spec_id), partition_spec=spec)

    def _manifest(self, spec_id: int, content: ManifestContent) -> FullManifestWriter:
        return self._writer.manifest(self._writer.path(self._memory.new_manifest_name()), spec_id, content)


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
