"""A table's past: its snapshots as people ask for them, and what lies between two of them.

Reads the manifests that only one of the two snapshots has: what both have cannot be a difference.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField

from tableformat.errors import PermanentError
from tableformat.grammar import type_text
from tableformat.inspection.ancestry import ancestry
from tableformat.inspection.main_log import Period, current_periods
from tableformat.inspection.manifests import content_range, read_entries, read_manifests


class NoSuchSnapshotError(PermanentError):
    """A snapshot that the table does not have, or has no longer."""


@dataclass(frozen=True)
class HistoryEntry:
    """One snapshot. Counts are its own summary's: None where whoever wrote it left them out."""

    snapshot_id: int
    parent_id: int | None
    time: datetime
    operation: str
    refs: tuple[str, ...]
    on_main: bool
    """Whether it is in the history of the table's current state; rolled back and branched off ones are not."""
    current: tuple[Period, ...]
    """When it was the table's current state, oldest first."""
    added_files: int | None
    deleted_files: int | None
    added_records: int | None
    deleted_records: int | None
    total_files: int | None
    total_records: int | None
    total_bytes: int | None
    summary: dict[str, str]


def snapshot_history(metadata: TableMetadata) -> tuple[HistoryEntry, ...]:
    """The newest first."""
    refs: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        refs.setdefault(ref.snapshot_id, []).append(name)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    line = frozenset(snapshot.snapshot_id for snapshot in ancestry(metadata.current_snapshot_id, by_id))
    periods = current_periods(metadata)
    entries = [
        _entry(
            snapshot,
            refs=tuple(sorted(refs.get(snapshot.snapshot_id, ()))),
            on_main=snapshot.snapshot_id in line,
            current=periods.get(snapshot.snapshot_id, ()),
        )
        for snapshot in metadata.snapshots
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.time, entry.snapshot_id), reverse=True))


def find_snapshot(metadata: TableMetadata, word: str) -> Snapshot:
    """By its id, by the name of a branch or tag, or by `current`; raises `NoSuchSnapshotError`."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    if word == "current":
        wanted = metadata.current_snapshot_id
    elif word in metadata.refs:
        wanted = metadata.refs[word].snapshot_id
    else:
        wanted = int(word) if word.isascii() and word.isdecimal() else None
    if wanted is None or wanted not in by_id:
        known = ", ".join(sorted(metadata.refs)) or "none"
        raise NoSuchSnapshotError(
            f"the table has no snapshot {word!r}: give an id that `history` shows, `current`, or a branch or tag of "
            f"its own ({known})"
        )
    return by_id[wanted]


@dataclass(frozen=True)
class FileTotals:
    files: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class SnapshotDifference:
    before: int
    after: int
    added: FileTotals
    """Data files that only the later one has."""
    removed: FileTotals
    added_deletes: FileTotals
    """Delete files and deletion vectors; their records are the rows, or the conditions, that they delete."""
    removed_deletes: FileTotals
    schema_changes: tuple[str, ...]


def snapshot_difference(table: Table, before: Snapshot, after: Snapshot) -> SnapshotDifference:
    old, new = read_manifests(table.io, before), read_manifests(table.io, after)
    shared = {manifest.manifest_path for manifest in old} & {manifest.manifest_path for manifest in new}
    had, has = (dict(_files(table.io, manifests, shared)) for manifests in (old, new))
    added = [file for key, file in has.items() if key not in had]
    removed = [file for key, file in had.items() if key not in has]
    return SnapshotDifference(
        before=before.snapshot_id,
        after=after.snapshot_id,
        added=_totals(added, deletes=False),
        removed=_totals(removed, deletes=False),
        added_deletes=_totals(added, deletes=True),
        removed_deletes=_totals(removed, deletes=True),
        schema_changes=tuple(schema_changes(_schema(table.metadata, before), _schema(table.metadata, after))),
    )


def schema_changes(old: Schema, new: Schema) -> Iterator[str]:
    """A sentence for each change, by field id: a rename is a rename, whatever else has the old name now."""
    before, after = _by_id(old), _by_id(new)
    for field_id, (name, field) in after.items():
        if field_id not in before:
            yield f"added {name} ({'required ' if field.required else ''}{type_text(field.field_type)})"
            continue
        old_name, old_field = before[field_id]
        if old_name.rpartition(".")[2] != name.rpartition(".")[2]:
            yield f"renamed {old_name} to {name}"
        if field.field_type.is_primitive and old_field.field_type != field.field_type:
            yield f"changed {name} from {type_text(old_field.field_type)} to {type_text(field.field_type)}"
        if old_field.required != field.required:
            yield f"made {name} {'required' if field.required else 'optional'}"
        if (old_field.doc or "") != (field.doc or ""):
            yield f"changed the doc of {name}"
    for field_id, (name, _) in before.items():
        if field_id not in after:
            yield f"dropped {name}"
    kept_before = [field.field_id for field in old.fields if field.field_id in after]
    kept_after = [field.field_id for field in new.fields if field.field_id in before]
    if kept_before != kept_after:
        yield "moved columns"


def _entry(snapshot: Snapshot, *, refs: tuple[str, ...], on_main: bool, current: tuple[Period, ...]) -> HistoryEntry:
    summary = snapshot.summary
    texts = {} if summary is None else dict(summary.additional_properties)

    def count(key: str) -> int | None:
        text = texts.get(key)
        return int(text) if text is not None and text.isdecimal() else None

    return HistoryEntry(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        time=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
        operation="" if summary is None else summary.operation.value,
        refs=refs,
        on_main=on_main,
        current=current,
        added_files=count("added-data-files"),
        deleted_files=count("deleted-data-files"),
        added_records=count("added-records"),
        deleted_records=count("deleted-records"),
        total_files=count("total-data-files"),
        total_records=count("total-records"),
        total_bytes=count("total-files-size"),
        summary=texts,
    )


def _files(
    io: FileIO, manifests: Iterable[ManifestFile], shared: set[str]
) -> Iterator[tuple[tuple[str, tuple[int, int] | None], DataFile]]:
    """By path, and for deletion vectors, of which several share one file, by their place in it."""
    for manifest in manifests:
        if manifest.manifest_path not in shared:
            for entry in read_entries(io, manifest):
                file = entry.data_file
                yield (file.file_path, content_range(file)), file


def _totals(files: Iterable[DataFile], *, deletes: bool) -> FileTotals:
    chosen = [file for file in files if (file.content != DataFileContent.DATA) == deletes]
    return FileTotals(
        len(chosen), sum(file.record_count for file in chosen), sum(file.file_size_in_bytes for file in chosen)
    )


def _schema(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    by_id = {schema.schema_id: schema for schema in metadata.schemas}
    return by_id.get(-1 if snapshot.schema_id is None else snapshot.schema_id, metadata.schema())


def _by_id(schema: Schema) -> dict[int, tuple[str, NestedField]]:
    return {
        field_id: (schema.find_column_name(field_id) or str(field_id), schema.find_field(field_id))
        for field_id in sorted(schema.field_ids)
    }
