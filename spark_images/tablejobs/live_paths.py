"""Reads a large table's manifests on Spark, for the search of its orphan files: the driver gets hashes of paths only.

Reading manifests is what an orphan scan of a large table computes for; listing waits for storage, and the comparison
itself is one pass over sorted numbers. Small tables are read by the driver alone, without a JVM.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from pyspark import SparkContext

from tableformat.errors import TablewrightError
from tableformat.maintenance.orphans.listing import NeededPaths, PackedPaths
from tableformat.maintenance.orphans.planning import live_paths
from tableformat.maintenance.reachability import Reachability, TableFile
from tableformat.maintenance.sizing import LEAST_TASK_BYTES, Workload
from tablejobs.spark_errors import spark_errors

LARGE_BYTES = 256 * 1024 * 1024
_TASK_BYTES = 32 * 1024 * 1024
_ROUNDS = 8  # of tasks in one job; what all of them found comes to the driver at once


class SparkLivePaths:
    def __init__(
        self,
        table: Table,
        context: Callable[[Workload], SparkContext],
        *,
        large_bytes: int = LARGE_BYTES,
        task_bytes: int = _TASK_BYTES,
    ) -> None:
        """`context` is where Spark is, for this much work."""
        self._table = table
        self._context = context
        self._large_bytes = large_bytes
        self._task_bytes = task_bytes

    def __call__(self, manifests: Sequence[TableFile]) -> Iterator[PackedPaths]:
        name = ".".join(self._table.name())
        size = sum(manifest.size_bytes for manifest in manifests)
        if size < self._large_bytes:
            yield from live_paths(Reachability(name, self._table.io), manifests)
            return
        properties, location = dict(self._table.io.properties), self._table.location()
        portions = list(_portions(manifests, self._task_bytes))
        context = self._context(Workload(bytes=size, parts=len(portions), task_bytes=LEAST_TASK_BYTES))
        in_one_job = _ROUNDS * context.defaultParallelism
        for start in range(0, len(portions), in_one_job):
            some = portions[start : start + in_one_job]
            read = context.parallelize(some, len(some)).map(lambda portion: _read(name, properties, location, portion))
            with spark_errors():
                results = read.collect()  # an iterator over the results would do one task after the other
            for found in results:
                if isinstance(found, TablewrightError):
                    raise found
                yield found


def _portions(manifests: Sequence[TableFile], task_bytes: int) -> Iterator[list[TableFile]]:
    portion: list[TableFile] = []
    size = 0
    for manifest in manifests:
        portion.append(manifest)
        size += manifest.size_bytes
        if size >= task_bytes:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _read(
    name: str, properties: Mapping[str, str], location: str, manifests: Sequence[TableFile]
) -> PackedPaths | TablewrightError:
    """What was found, or why not: an error that a task raises reaches the driver without its type."""
    try:
        needed = NeededPaths()
        for packed in live_paths(Reachability(name, load_file_io(dict(properties), location)), manifests):
            needed.extend(packed)
        return needed.packed()
    except TablewrightError as error:
        return error
