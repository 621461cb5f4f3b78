"""Which delete files apply to which data files, by Iceberg's rules, for all files of a snapshot at once.

The rules are those of `deletes.applies`. Most deletes apply to every file of a partition (or of the table) up to a
sequence number, which is one stretch of the files once they are sorted by the two: such a delete is never compared with
each of its files. Deletes that name one file find it by its path. Only position deletes with a range of paths are
compared with the files of their partition.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent

from tableformat.inspection.snapshot_files import Booleans, Floats, Integers, SnapshotFiles, integers


class AppliedDeletes:
    """Rows are those of the snapshot's tables of data files and of deletes."""

    def __init__(self, files: SnapshotFiles, *, global_specs: Collection[int]) -> None:
        # Wide enough for products with the number of commits: narrower ones run over, and deletes are lost.
        self._partitions: Integers = integers(files.data, "partition").astype(np.int64)
        self._sequences = integers(files.data, "sequence_number")
        self._records = integers(files.data, "records")
        self._paths = files.data["path"]
        deletes = files.deletes
        self._of_partition: Integers = integers(deletes, "partition").astype(np.int64)
        self._until = _last_sequence_number(files)
        self._deleting = integers(deletes, "records").astype(np.float64)
        is_equality = integers(deletes, "content") == DataFileContent.EQUALITY_DELETES.value
        has_paths = deletes["path_lower"].is_valid().to_numpy()
        self._names_one = (
            has_paths & pc.fill_null(pc.equal(deletes["path_lower"], deletes["path_upper"]), False).to_numpy()
        )
        self._is_global = is_equality & np.isin(integers(deletes, "spec_id"), list(global_specs))
        self._whole = ~has_paths & ~self._is_global
        self._ranged = has_paths & ~self._names_one
        self._lower, self._upper = deletes["path_lower"], deletes["path_upper"]
        self.files_reached: Integers = np.zeros(deletes.num_rows, np.int64)
        """How many data files each delete applies to."""
        self.deletes_of_file: Integers = np.zeros(files.data.num_rows, np.int64)
        """How many deletes apply to each data file."""
        self.deleted_rows: Floats = np.zeros(files.data.num_rows)
        """How many rows of each data file are likely to be deleted: a delete's rows are shared out among its files."""
        if deletes.num_rows:
            self._apply_to_stretches(np.zeros_like(self._partitions), np.flatnonzero(self._is_global))
            self._apply_to_stretches(self._partitions, np.flatnonzero(self._whole))
            self._apply_pairs(*self._pairs)
            for row in np.flatnonzero(self._ranged).tolist():
                self._share_out(row, self._named_by(row))

    @property
    def has_shared_deletes(self) -> bool:
        """Whether any delete is for more than one file."""
        return bool((self.files_reached > 1).any())

    def of(self, rows: Integers) -> Integers:
        """The deletes that apply to any of these data files, which must be of one partition."""
        if not len(rows) or not self.deletes_of_file[rows].any():
            return np.zeros(0, np.int64)
        oldest, partition = int(self._sequences[rows].min()), int(self._partitions[rows[0]])
        found = [
            wide[self._until[wide] >= oldest]
            for wide in (self._global_rows, self._whole_by_partition.get(partition, self._no_rows))
        ]
        data, deletes = self._pairs
        starts, ends = np.searchsorted(data, rows, "left"), np.searchsorted(data, rows, "right")
        found += [deletes[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
        found.append(
            np.array(
                [
                    delete
                    for delete in self._ranged_by_partition.get(partition, ())
                    if np.isin(self._named_by(delete), rows).any()
                ],
                np.int64,
            )
        )
        return np.unique(np.concatenate(found))

    def _apply_to_stretches(self, partitions: Integers, deletes: Integers) -> None:
        """Deletes that apply to all files of a partition that are not younger than they are."""
        if not len(deletes):
            return
        ranks = np.unique(self._sequences)
        order = np.lexsort((self._sequences, partitions))
        keys = (partitions * (len(ranks) + 1) + np.searchsorted(ranks, self._sequences))[order]
        of = np.zeros_like(deletes) if partitions is not self._partitions else self._of_partition[deletes]
        base = of * (len(ranks) + 1)
        starts = np.searchsorted(keys, base, "left")
        ends = np.searchsorted(keys, base + np.searchsorted(ranks, self._until[deletes], "right"), "left")
        rows_before = np.concatenate([[0], np.cumsum(self._records[order])])
        self.files_reached[deletes] += ends - starts
        share = self._deleting[deletes] / np.maximum(1, rows_before[ends] - rows_before[starts])
        number, shares = np.zeros(len(order) + 1, np.int64), np.zeros(len(order) + 1)
        np.add.at(number, starts, 1)
        np.add.at(number, ends, -1)
        np.add.at(shares, starts, share)
        np.add.at(shares, ends, -share)
        number, shares = np.cumsum(number)[:-1], np.cumsum(shares)[:-1]
        self.deletes_of_file[order] += number
        # Where nothing applies, sums of fractions leave a trace that must not be taken for a deleted row.
        self.deleted_rows[order] += np.where(number > 0, shares, 0) * self._records[order]

    def _apply_pairs(self, data: Integers, deletes: Integers) -> None:
        np.add.at(self.files_reached, deletes, 1)
        np.add.at(self.deletes_of_file, data, 1)
        reached = np.zeros(len(self._deleting))
        np.add.at(reached, deletes, self._records[data])
        np.add.at(
            self.deleted_rows, data, self._deleting[deletes] * self._records[data] / np.maximum(1, reached[deletes])
        )

    def _share_out(self, delete: int, data: Integers) -> None:
        self.files_reached[delete] = len(data)
        self.deletes_of_file[data] += 1
        reached = max(1, int(self._records[data].sum()))
        self.deleted_rows[data] += self._deleting[delete] * self._records[data] / reached

    @cached_property
    def _pairs(self) -> tuple[Integers, Integers]:
        """Data files, ascending, and the deletes that name them and no other."""
        naming = np.flatnonzero(self._names_one)
        paths = self._lower.take(pa.array(naming)).combine_chunks().cast(pa.large_binary())
        distinct = paths.unique()
        named = pc.index_in(self._paths.cast(pa.large_binary()), value_set=distinct).combine_chunks()
        data = np.flatnonzero(named.is_valid().to_numpy(zero_copy_only=False))
        data_codes = named.drop_null().to_numpy()
        by_code = np.argsort(data_codes, kind="stable")
        delete_codes = pc.index_in(paths, value_set=distinct).to_numpy(zero_copy_only=False)
        starts = np.searchsorted(data_codes[by_code], delete_codes, "left")
        numbers = np.searchsorted(data_codes[by_code], delete_codes, "right") - starts
        # A path can be there twice, so each delete has a stretch of files.
        offsets = np.arange(numbers.sum()) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        pairs_data = data[by_code[np.repeat(starts, numbers) + offsets]]
        pairs_deletes = np.repeat(naming, numbers)
        applies = (self._partitions[pairs_data] == self._of_partition[pairs_deletes]) & (
            self._sequences[pairs_data] <= self._until[pairs_deletes]
        )
        pairs_data, pairs_deletes = pairs_data[applies], pairs_deletes[applies]
        order = np.argsort(pairs_data, kind="stable")
        return pairs_data[order], pairs_deletes[order]

    def _named_by(self, delete: int) -> Integers:
        """The data files that a position delete with a range of paths may name."""
        rows, paths = self._sorted_paths(int(self._of_partition[delete]))
        lower, upper = self._lower[delete].as_py(), self._upper[delete].as_py()
        named: Integers = rows[bisect_left(paths, lower) : bisect_right(paths, upper)]
        old_enough: Booleans = self._sequences[named] <= self._until[delete]
        return named[old_enough]

    def _sorted_paths(self, partition: int) -> "tuple[Integers, _Paths]":
        found = self._paths_by_partition.get(partition)
        if found is None:
            rows = self._rows_of_partition(partition)
            paths = self._paths.take(pa.array(rows)).combine_chunks()
            order = pc.sort_indices(paths)
            found = (rows[order.to_numpy()], _Paths(paths.take(order)))
            self._paths_by_partition[partition] = found
        return found

    @cached_property
    def _paths_by_partition(self) -> "dict[int, tuple[Integers, _Paths]]":
        return {}

    def _rows_of_partition(self, partition: int) -> Integers:
        order, sorted_partitions = self._by_partition
        first, last = np.searchsorted(sorted_partitions, [partition, partition + 1])
        return order[first:last]

    @cached_property
    def _by_partition(self) -> tuple[Integers, Integers]:
        order = np.argsort(self._partitions, kind="stable")
        return order, self._partitions[order]

    @cached_property
    def _no_rows(self) -> Integers:
        return np.zeros(0, np.int64)

    @cached_property
    def _global_rows(self) -> Integers:
        return np.flatnonzero(self._is_global)

    @cached_property
    def _whole_by_partition(self) -> dict[int, Integers]:
        return self._grouped(self._whole)

    @cached_property
    def _ranged_by_partition(self) -> dict[int, Integers]:
        return self._grouped(self._ranged)

    def _grouped(self, chosen: Booleans) -> dict[int, Integers]:
        by_partition: dict[int, list[int]] = defaultdict(list)
        for row in np.flatnonzero(chosen):
            by_partition[int(self._of_partition[row])].append(int(row))
        return {partition: np.array(rows, np.int64) for partition, rows in by_partition.items()}


def _last_sequence_number(files: SnapshotFiles) -> Integers:
    """Of the youngest data files that each delete applies to: an equality delete to older ones than itself only."""
    is_equality = integers(files.deletes, "content") == DataFileContent.EQUALITY_DELETES.value
    last: Integers = integers(files.deletes, "sequence_number") - is_equality
    return last


class _Paths:
    """Sorted paths to search in, of which only those that are looked at become Python objects."""

    def __init__(self, paths: pa.Array) -> None:
        self._paths = paths.cast(pa.large_binary())

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, place: int) -> bytes:
        value: bytes = self._paths[place].as_py()
        return value
