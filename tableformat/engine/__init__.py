"""The native kernel: Iceberg data files in, Iceberg data files out, with every value as it was.

A rewrite is described by a `RewriteTask`, a small value that travels to any process, and done by `rewrite`. The
engine knows neither catalogs nor snapshots: what it writes stays invisible until a commit refers to it.
"""

import tableformat.pyiceberg_private  # noqa: F401 - before anything of PyIceberg's is used
from tableformat.engine.errors import NoRoomToSort, UnreachableDataFile, UnreadableDataFile, UnwritableDataFile
from tableformat.engine.kernel import discard, rewrite
from tableformat.engine.task import (
    DeleteFile,
    RewriteResult,
    RewriteTask,
    RowOrder,
    SortColumn,
    SourceFile,
    WrittenFile,
)

__all__ = [
    "DeleteFile",
    "NoRoomToSort",
    "RewriteResult",
    "RewriteTask",
    "RowOrder",
    "SortColumn",
    "SourceFile",
    "UnreachableDataFile",
    "UnreadableDataFile",
    "UnwritableDataFile",
    "WrittenFile",
    "discard",
    "rewrite",
]
