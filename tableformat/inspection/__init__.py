"""What a table's snapshot consists of, and how healthy that is. Reads metadata and manifests, never data files."""

from tableformat.inspection.files import LiveFile, SnapshotFiles, snapshot_files
from tableformat.inspection.health import TableHealth, table_health
from tableformat.inspection.partitions import partition_key, schema_of_spec

__all__ = [
    "LiveFile",
    "SnapshotFiles",
    "TableHealth",
    "partition_key",
    "schema_of_spec",
    "snapshot_files",
    "table_health",
]
