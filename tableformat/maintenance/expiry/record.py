"""What an expiry leaves behind before its commit, so that whoever comes after a crash knows what was left to delete.

A record is a list of candidates: files that the table's own metadata led to when the expiry was planned. Whether one of
them is deleted is decided at that time, by what is reachable then. That is why records are safe in every order of
events: the record of a commit that never happened names files that are still reachable, and deletes nothing; one that
is read twice deletes nothing the second time; one that is lost leaves files to the removal of orphans.
"""

from dataclasses import dataclass
from uuid import UUID

from pyiceberg.table.metadata import TableMetadata

from tableformat.maintenance.expiry.planning import ExpiryPlan
from tableformat.maintenance.reachability import FileKind, TableFile
from tableformat.maintenance.records import Json


@dataclass(frozen=True)
class ExpiryRecord:
    table_uuid: UUID
    snapshots: frozenset[int]
    files: tuple[TableFile, ...]

    @classmethod
    def of(cls, table_uuid: UUID, plan: ExpiryPlan) -> "ExpiryRecord":
        return cls(table_uuid, plan.retention.snapshots, plan.files)

    def committed(self, metadata: TableMetadata) -> bool:
        """Whether the snapshots are gone, by this record's commit or by another."""
        return not any(snapshot.snapshot_id in self.snapshots for snapshot in metadata.snapshots)

    def to_json(self) -> Json:
        return {
            "format": 1,
            "table-uuid": str(self.table_uuid),
            "snapshots": sorted(self.snapshots),
            "files": [[file.location, file.kind.value, file.size_bytes] for file in self.files],
        }

    @classmethod
    def from_json(cls, content: Json) -> "ExpiryRecord | None":
        """The record; nothing if it was written by a version whose records mean something else."""
        snapshots, files = content.get("snapshots"), content.get("files")
        if content.get("format") != 1 or not isinstance(snapshots, list) or not isinstance(files, list):
            return None
        return cls(
            UUID(str(content["table-uuid"])),
            frozenset(int(each) for each in snapshots),
            tuple(TableFile(str(location), FileKind(kind), int(size)) for location, kind, size in files),
        )
