"""Reads a large table's manifests on Spark, for the search of its orphan files: the driver gets hashes of paths only.

Reading manifests is what an orphan scan of a large table computes for; listing waits for storage, and the comparison
itself is one pass over sorted numbers. Small tables are read by the driver alone, without a JVM.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from tableformat.maintenance.orphans.listing import PackedPaths
from tableformat.maintenance.orphans.planning import live_paths
from tableformat.maintenance.reachability import Reachability, TableFile
from tablejobs.executor import SparkExecutor

LARGE_BYTES = 256 * 1024 * 1024
_TASK_BYTES = 32 * 1024 * 1024


class SparkLivePaths:
    def __init__(self, table: Table, executor: SparkExecutor, *, large_bytes: int = LARGE_BYTES) -> None:
        self._table = table
        self._executor = executor
        self._large_bytes = large_bytes

    def __call__(self, manifests: Sequence[TableFile]) -> Iterator[PackedPaths]:
        name = ".".join(self._table.name())
        if sum(manifest.size_bytes for manifest in manifests) < self._large_bytes:
            yield live_paths(Reachability(name, self._table.io), manifests)
            return
        properties, location = dict(self._table.io.properties), self._table.location()
        portions = list(_portions(manifests))
        read = self._executor.context().parallelize(portions, len(portions))
        yield from read.map(lambda portion: _read(name, properties, location, portion)).toLocalIterator()


def _portions(manifests: Sequence[TableFile]) -> Iterator[list[TableFile]]:
    portion: list[TableFile] = []
    size = 0
    for manifest in manifests:
        portion.append(manifest)
        size += manifest.size_bytes
        if size >= _TASK_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _read(name: str, properties: Mapping[str, str], location: str, manifests: Sequence[TableFile]) -> PackedPaths:
    return live_paths(Reachability(name, load_file_io(dict(properties), location)), manifests)
