"""Writes the live entries of some manifests into others, and the snapshot that has those instead.

An entry stays what it is: its file, its snapshot, its sequence numbers and its first row id; its status is `EXISTING`
now. Entries of removed files are not carried over: they speak of an older snapshot. The snapshot's rows are its
parent's.
"""

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

from tableformat.commits.entries import carried_entries
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


def rewrite_manifests_of(
    table: Table, groups: Sequence[tuple[int, ManifestContent, Sequence[ManifestFile], int]]
) -> RewrittenManifests:
    """Each group is a spec, a content, the manifests that go, and how many are to come."""
    snapshot_id, commit, numbers = table.metadata.new_snapshot_id(), uuid.uuid4(), itertools.count()
    written: list[ManifestFile] = []
    total = 0
    for spec_id, content, manifests, count in groups:
        spec, schema = table.metadata.specs()[spec_id], _schema(table, spec_id)
        entries = carried_entries(
            table.io,
            manifests,
            format_version=table.metadata.format_version,
            content=content,
            spec=spec,
            schema=schema,
            order=_order,
        )
        number = len(entries.records)
        recorded = sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in manifests)
        if all(each.added_files_count is not None for each in manifests) and recorded != number:
            raise EntriesDoNotMatch(
                f"table {'.'.join(table.name())}: manifests with {recorded} live entries by their list have "
                f"{number}; nothing was committed"
            )
        size = max(1, -(-number // count))
        for start in range(0, number, size):
            path = table.location_provider().new_metadata_location(f"{commit}-m{next(numbers)}.avro")
            with FullManifestWriter(
                table.metadata.format_version,
                content,
                spec,
                schema,
                table.io.new_output(path),
                snapshot_id,
                _codec(table),
            ) as writer:
                writer.write_encoded(entries.part(start, min(start + size, number)))
            written.append(writer.to_manifest_file())
        total += number
    replaced = {each.manifest_path: manifest_first_row_id(each) for _, _, manifests, _ in groups for each in manifests}
    return RewrittenManifests(snapshot_id, replaced, tuple(written), total)


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
