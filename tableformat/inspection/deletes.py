"""Which delete files apply to which data files, by Iceberg's rules.

A position delete applies to files of its own partition and spec that are not younger than it, and only to those that
it names. An equality delete applies to older files of its partition and spec, or to older files of the whole table if
its spec is unpartitioned.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable

from pyiceberg.manifest import DataFileContent

from tableformat.inspection.files import LiveFile


def applies(deletes: LiveFile, data: LiveFile, *, global_specs: Collection[int]) -> bool:
    """Whether rows of the data file may be deleted by the delete file."""
    if deletes.content == DataFileContent.EQUALITY_DELETES:
        if data.sequence_number >= deletes.sequence_number:
            return False
        return deletes.spec_id in global_specs or deletes.partition_key == data.partition_key
    return (
        data.sequence_number <= deletes.sequence_number
        and deletes.partition_key == data.partition_key
        and may_name(deletes, data.path)
    )


def may_name(deletes: LiveFile, path: str) -> bool:
    """Whether a position delete file can name the path. Bounds may be shortened: then more paths are possible."""
    if deletes.path_bounds is None:
        return True
    lower, upper = deletes.path_bounds
    return lower <= path.encode() <= upper


def names_one_file(deletes: LiveFile) -> bool:
    return deletes.path_bounds is not None and deletes.path_bounds[0] == deletes.path_bounds[1]


class DeleteIndex:
    """Finds the deletes of a data file without asking every delete file."""

    def __init__(self, deletes: Iterable[LiveFile], *, global_specs: Collection[int]) -> None:
        self._by_path: dict[bytes, list[LiveFile]] = defaultdict(list)
        self._by_partition: dict[tuple[Hashable, ...], list[LiveFile]] = defaultdict(list)
        self._global: list[LiveFile] = []
        self._global_specs = global_specs
        for file in deletes:
            if file.content == DataFileContent.EQUALITY_DELETES and file.spec_id in global_specs:
                self._global.append(file)
            elif file.path_bounds is not None and names_one_file(file):
                self._by_path[file.path_bounds[0]].append(file)
            else:
                self._by_partition[file.partition_key].append(file)

    def of(self, data: LiveFile) -> list[LiveFile]:
        candidates = [*self._by_partition.get(data.partition_key, ()), *self._global]
        if self._by_path:
            candidates += self._by_path.get(data.path.encode(), ())
        return [file for file in candidates if applies(file, data, global_specs=self._global_specs)]
