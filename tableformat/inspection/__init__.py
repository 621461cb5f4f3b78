"""What a table's snapshot consists of, and how healthy that is. Reads metadata and manifests, never data files."""

import tableformat.pyiceberg_private  # noqa: F401 - before anything of PyIceberg's is used
from tableformat.inspection.applied_deletes import AppliedDeletes
from tableformat.inspection.decoding import FORMATS, UnreadableManifest
from tableformat.inspection.deletes import DeleteIndex, names_one_file
from tableformat.inspection.estimate import estimated_health, has_more_files_than
from tableformat.inspection.files import LiveFile, live_file
from tableformat.inspection.health import TableHealth, table_health
from tableformat.inspection.manifests import (
    listed_manifests,
    manifest_first_row_id,
    read_entries,
    read_manifests,
    read_removed_entries,
)
from tableformat.inspection.partitions import (
    global_specs,
    partition_key,
    partition_path,
    partition_type,
    schema_of_spec,
)
from tableformat.inspection.reading import SHARED_CACHE, ManifestCache
from tableformat.inspection.snapshot_files import (
    Booleans,
    Floats,
    Integers,
    LiveManifest,
    Partitions,
    SnapshotFiles,
    integers,
    snapshot_files,
)
from tableformat.inspection.targets import DEFAULT_TARGET_BYTES, own_target_bytes, small_below

__all__ = [
    "DEFAULT_TARGET_BYTES",
    "FORMATS",
    "SHARED_CACHE",
    "AppliedDeletes",
    "Booleans",
    "DeleteIndex",
    "Floats",
    "Integers",
    "LiveFile",
    "LiveManifest",
    "ManifestCache",
    "Partitions",
    "SnapshotFiles",
    "TableHealth",
    "UnreadableManifest",
    "estimated_health",
    "global_specs",
    "has_more_files_than",
    "integers",
    "listed_manifests",
    "live_file",
    "manifest_first_row_id",
    "names_one_file",
    "own_target_bytes",
    "partition_key",
    "partition_path",
    "partition_type",
    "read_entries",
    "read_manifests",
    "read_removed_entries",
    "schema_of_spec",
    "small_below",
    "snapshot_files",
    "table_health",
]
