"""A table's health without its manifests: from the snapshot's summary and its manifest list, whatever the table's size.

Counts are exact where the list has them. How many files are small nobody can tell from there, but no fewer than this:
the others have at least the small size each, and all together no more than the table's bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableformat.inspection.health import TableHealth
from tableformat.inspection.manifests import read_manifests
from tableformat.properties import read_number


def has_more_files_than(table: Table, most: int) -> bool:
    """By the snapshot's summary; where it does not say, by the manifest list."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return False
    totals = [read_number(_summary(snapshot), name) for name in ("total-data-files", "total-delete-files")]
    if totals[0] is not None:
        return sum(total or 0 for total in totals) > most
    return sum(map(_live, read_manifests(table.io, snapshot))) > most


def estimated_health(table: Table, *, small_file_bytes: int) -> TableHealth:
    """The figures of the table's current snapshot as far as they can be had without reading its manifests."""
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else read_manifests(table.io, snapshot)
    data, deletes = _Kind.of(manifests, ManifestContent.DATA), _Kind.of(manifests, ManifestContent.DELETES)
    summary = {} if snapshot is None else _summary(snapshot)
    size = read_number(summary, "total-files-size")
    old = [each for each in data.manifests if each.partition_spec_id != table.metadata.default_spec_id]
    return TableHealth(
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        data_files=data.files,
        small_files=0 if size is None else max(0, data.files - size // max(1, small_file_bytes)),
        data_bytes=size or 0,
        records=data.rows,
        delete_files=deletes.files,
        snapshots=len(table.metadata.snapshots),
        manifests=len(manifests),
        median_file_bytes=(size or 0) // max(1, data.files),
        partitions=0,
        delete_records=deletes.rows,
        old_spec_files=sum(map(_live, old)),
        manifest_bytes=sum(manifest.manifest_length for manifest in manifests),
    )


@dataclass(frozen=True)
class _Kind:
    """The manifests of data, or of deletes."""

    manifests: tuple[ManifestFile, ...]
    files: int
    rows: int

    @classmethod
    def of(cls, manifests: list[ManifestFile], content: ManifestContent) -> "_Kind":
        found = tuple(manifest for manifest in manifests if manifest.content == content)
        rows = sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in found)
        return cls(found, sum(map(_live, found)), rows)


def _live(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
