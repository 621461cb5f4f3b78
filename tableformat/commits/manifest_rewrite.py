"""Writes the live entries of some manifests into others, and the snapshot that has those instead.

An entry stays what it is: its file, its snapshot, its sequence numbers and its first row id; its status is `EXISTING`
now. Entries of removed files are not carried over: they speak of an older snapshot. The snapshot's rows are its
parent's.
"""

import contextlib
import itertools
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, update_snapshot_summaries
from pyiceberg.typedef import Record

from tableformat.commits.entries import CarriedEntries, carried_entries
from tableformat.commits.manifests import FullManifestWriter, write_manifest_list
from tableformat.commits.runs import RUN_ID
from tableformat.commits.times import next_snapshot_ms
from tableformat.errors import PermanentError
from tableformat.inspection import manifest_first_row_id, schema_of_spec


class EntriesDoNotMatch(PermanentError):
    """The new manifests do not have the entries of the old ones; committing them would change the table."""


@dataclass(frozen=True)
class RewrittenManifests:
    """Manifests that are written and that nothing refers to yet, for one snapshot to come."""

    snapshot_id: int
    replaced: Mapping[str, int | None]
    """By their paths, the first row ids that their entries inherited: the new entries have what came of them."""
    manifests: tuple[ManifestFile, ...]
    entries: int


@dataclass(frozen=True)
class MergedManifests:
    """Manifests of one spec and content that are to become fewer, of about the target size."""

    spec_id: int
    content: ManifestContent
    manifests: Sequence[ManifestFile]
    target_bytes: int


def manifests_asked_for(total_bytes: int, target_bytes: int) -> int:
    """By their size: what has more manifests is written anew."""
    return max(1, -(-total_bytes // target_bytes))


def rewrite_manifests_of(table: Table, groups: Sequence[MergedManifests]) -> RewrittenManifests:
    writer = _GroupWriter(table, table.metadata.new_snapshot_id())
    written: list[ManifestFile] = []
    total = 0
    for group in groups:
        entries = writer.entries_of(group)
        written += writer.write(group, entries)
        total += len(entries.records)
    replaced = {each.manifest_path: manifest_first_row_id(each) for group in groups for each in group.manifests}
    return RewrittenManifests(writer.snapshot_id, replaced, tuple(written), total)


class _GroupWriter:
    def __init__(self, table: Table, snapshot_id: int) -> None:
        self.snapshot_id = snapshot_id
        self._table = table
        self._commit = uuid.uuid4()
        self._numbers = itertools.count()

    def entries_of(self, group: MergedManifests) -> CarriedEntries:
        entries = carried_entries(
            self._table.io,
            group.manifests,
            format_version=self._table.metadata.format_version,
            content=group.content,
            spec=self._table.metadata.specs()[group.spec_id],
            schema=_schema(self._table, group.spec_id),
            order=_order,
        )
        number = len(entries.records)
        recorded = sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in group.manifests)
        if all(each.added_files_count is not None for each in group.manifests) and recorded != number:
            raise EntriesDoNotMatch(
                f"table {'.'.join(self._table.name())}: manifests with {recorded} live entries by their list have "
                f"{number}; nothing was committed"
            )
        return entries

    def write(self, group: MergedManifests, entries: CarriedEntries) -> list[ManifestFile]:
        """In as few as their size asks for. That is known when they are written: together, entries have one header and
        are compressed better than apart."""
        count = manifests_asked_for(sum(each.manifest_length for each in group.manifests), group.target_bytes)
        while True:
            number = len(entries.records)
            size = max(1, -(-number // count))
            written = [
                self._write_part(group, entries, start, min(start + size, number)) for start in range(0, number, size)
            ]
            count = manifests_asked_for(sum(each.manifest_length for each in written), group.target_bytes)
            if count >= len(written):
                return written
            for manifest in written:
                with contextlib.suppress(OSError):  # what stays behind is left to the removal of orphans
                    self._table.io.delete(manifest.manifest_path)

    def _write_part(self, group: MergedManifests, entries: CarriedEntries, start: int, end: int) -> ManifestFile:
        path = self._table.location_provider().new_metadata_location(f"{self._commit}-m{next(self._numbers)}.avro")
        with FullManifestWriter(
            self._table.metadata.format_version,
            group.content,
            self._table.metadata.specs()[group.spec_id],
            _schema(self._table, group.spec_id),
            self._table.io.new_output(path),
            self.snapshot_id,
            _codec(self._table),
        ) as writer:
            writer.write_encoded(entries.part(start, end))
        return writer.to_manifest_file()


def snapshot_with(
    table: Table, head: Snapshot, current: Sequence[ManifestFile], rewritten: RewrittenManifests, *, run_id: str
) -> Snapshot:
    """The head's snapshot with the new manifests in the place of the old. `current` has all those that are replaced."""
    kept = [manifest for manifest in current if manifest.manifest_path not in rewritten.replaced]
    metadata = table.metadata
    path = table.location_provider().new_metadata_location(f"snap-{rewritten.snapshot_id}-0-{uuid.uuid4()}.avro")
    first_row_id = (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None
    sequence_number = metadata.next_sequence_number()
    added_rows = write_manifest_list(
        table.io.new_output(path),
        # The writer of a list sets the sequence number of its attempt in the values that it gets.
        [*(ManifestFile(*(each[place] for place in range(len(each)))) for each in rewritten.manifests), *kept],
        format_version=metadata.format_version,
        snapshot_id=rewritten.snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
        avro_compression=_codec(table),
    )
    changes = {
        "manifests-created": str(len(rewritten.manifests)),
        "manifests-kept": str(len(kept)),
        "manifests-replaced": str(len(rewritten.replaced)),
        "entries-processed": str(rewritten.entries),
        RUN_ID: run_id,
    }
    # PyIceberg computes the totals of the operations that it writes itself, which `replace` is not one of.
    totals = update_snapshot_summaries(Summary(Operation.OVERWRITE, **changes), head.summary)
    return Snapshot(
        snapshot_id=rewritten.snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence_number,
        timestamp_ms=next_snapshot_ms(metadata),
        manifest_list=path,
        summary=Summary(Operation.REPLACE, **totals.additional_properties),
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=added_rows if first_row_id is not None else None,
    )


def _schema(table: Table, spec_id: int) -> Schema:
    schema = schema_of_spec(table.metadata, spec_id)
    if schema is None:
        name = ".".join(table.name())
        raise PermanentError(f"table {name}: partition spec {spec_id} cannot be understood; nothing was committed")
    return schema


def _codec(table: Table) -> AvroCompressionCodec:
    return table.metadata.properties.get(  # type: ignore[return-value]  # the writer refuses what is no codec
        TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    )


def _order(partition: Record) -> tuple[Hashable, ...]:
    """Neighbours in it are neighbours in every partition field, the first one first; no value comes before any."""
    values = (partition[position] for position in range(len(partition)))
    return tuple((value is not None, 0 if value is None else _comparable(value)) for value in values)


def _comparable(value: Hashable) -> Hashable:
    # Values of one field are of one type and have an order of their own, but for NaN, which would disturb any sort.
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value
