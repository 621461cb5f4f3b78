"""What an expiry takes away, down to the files: planned from metadata and manifests, before anything is changed.

The files are those that the expiring snapshots lead to and no other snapshot does. To know them, only the manifests
that would vanish are read, and then those that stay, until nothing is left to look for.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata

from tableformat.maintenance.expiry.options import ExpiryOptions
from tableformat.maintenance.expiry.retention import Retention, plan_retention
from tableformat.maintenance.guards import require_deletable
from tableformat.maintenance.neighbours import require_no_other_name
from tableformat.maintenance.reachability import (
    FileKind,
    Known,
    Reachability,
    TableFile,
    key_of,
    statistics_files,
)
from tableformat.plurals import plural
from tableformat.properties import positive_number


@dataclass(frozen=True)
class ExpiryPlan:
    """What would go, as of one version of the table's metadata."""

    table: str
    metadata_location: str
    retention: Retention
    snapshots_kept: int
    files: tuple[TableFile, ...]
    known: Known
    """What stays, and certainly does not lead to these files: it need not be read again."""

    @property
    def is_empty(self) -> bool:
        return self.retention.is_empty

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def __str__(self) -> str:
        if self.is_empty:
            return f"expiry of {self.table}: nothing to do, {plural(self.snapshots_kept, 'snapshot')} kept"
        refs = f" and the refs {', '.join(sorted(self.retention.refs))}" if self.retention.refs else ""
        counts = Counter(file.kind for file in self.files)
        kinds = ", ".join(f"{counts[kind]} {kind}" for kind in FileKind if counts[kind]) or "none"
        return (
            f"expiry of {self.table}: expire {plural(len(self.retention.snapshots), 'snapshot')}{refs}, keep "
            f"{self.snapshots_kept:,}; delete {plural(len(self.files), 'file')} of "
            f"{plural(self.bytes, 'byte')} ({kinds})"
        )


def plan_expiry(table: Table, options: ExpiryOptions, *, now: datetime) -> ExpiryPlan:
    """Raises where nothing may be deleted, as `expire_snapshots` does before any change."""
    require_deletable(table, now=now)
    return plan_files(table, plan_retention(table.metadata, options, now=now))


def plan_files(table: Table, retention: Retention) -> ExpiryPlan:
    name, metadata = ".".join(table.name()), table.metadata
    expired = [s for s in metadata.snapshots if s.snapshot_id in retention.snapshots]
    kept = [s for s in metadata.snapshots if s.snapshot_id not in retention.snapshots]
    if not expired:
        return ExpiryPlan(name, table.metadata_location, retention, len(kept), (), Known())
    reader = Reachability(name, table.io)
    staying = reader.manifests(kept)
    going = {key: file for key, file in reader.manifests(expired).items() if key not in staying}
    files = dict(going)
    for live in reader.live_files(going.values()):
        files.update((file.key, file) for file in live)
    files.update((file.key, file) for file in statistics_files(metadata, retention.snapshots))
    for file in statistics_files(metadata, frozenset(s.snapshot_id for s in kept)):
        file.keep_from(files)
    if len(files) > len(going):
        for live in reader.live_files(staying.values()):
            for file in live:
                file.keep_from(files)
    files.update((key_of(location), TableFile(location, FileKind.METADATA, 0)) for location in _beyond_log(metadata))
    if files:
        require_no_other_name(table, table.catalog)
    return ExpiryPlan(
        name,
        table.metadata_location,
        retention,
        len(kept),
        in_order(files.values()),
        Known(frozenset(s.snapshot_id for s in kept), frozenset(staying)),
    )


def in_order(files: Iterable[TableFile]) -> tuple[TableFile, ...]:
    """What leads to other files after them."""
    kinds = list(FileKind)
    return tuple(sorted(files, key=lambda file: (kinds.index(file.kind), file.location)))


def _beyond_log(metadata: TableMetadata) -> list[str]:
    """The metadata files that the next commit's log has no more room for."""
    room = positive_number(
        metadata.properties,
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX,
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT,
    )
    log = metadata.metadata_log
    return [entry.metadata_file for entry in log[: max(0, len(log) + 1 - room)]]
