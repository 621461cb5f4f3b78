"""The keys of equality deletes, and which rows are equal to one of them.

A task can have millions of keys and thousands of small files, so the keys are prepared once: as hashes in order, in
which the rows of a batch are looked up. Only where a hash is found are the values themselves compared, so a hash that
two keys share deletes nothing that no key names.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tableformat.engine.checksum import row_hashes

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


class EqualityKeys:
    """The deleted keys of one set of columns, each with the youngest delete that names it."""

    def __init__(self, paths: Sequence[tuple[int, ...]], deletes: list[tuple[int, list[pa.Array]]]) -> None:
        """Takes the key columns of every delete file, with its sequence number, out of the list.

        `paths` lead to the columns with the same ids in the rows that are asked about. The key columns are those of
        `deletes.key_columns`, for keys and rows alike.
        """
        self.paths = paths
        numbers = np.concatenate([np.full(len(columns[0]), number, np.int64) for number, columns in deletes])
        hashes = np.concatenate([row_hashes(columns) for _, columns in deletes])
        by_column = [list(pieces) for pieces in zip(*(columns for _, columns in deletes), strict=True)]
        deletes.clear()
        self._columns = [_together(pieces) for pieces in by_column]
        self.youngest = int(numbers.max(initial=-1))
        # Those of one key are neighbours, the youngest first; it alone is looked up.
        places = np.lexsort((-numbers, hashes))
        hashes = hashes[places]
        again = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        again = again[self._equal(self._columns, places[again - 1], places[again])]
        self._places: Numbers = np.delete(places, again)
        self._hashes = np.delete(hashes, again)
        self._numbers: Numbers = numbers[self._places]

    def matches(self, columns: Sequence[pa.Array], sequence_number: int) -> Booleans:
        """Which rows are deleted, if their file has this sequence number; the columns are their key columns."""
        hashes = row_hashes(columns)
        deleted = np.zeros(len(hashes), np.bool_)
        rows = np.argsort(hashes)  # one after the other through the keys: at random, each would be a wait for memory
        found = np.searchsorted(self._hashes, hashes[rows])
        while len(rows):  # once, and again only for rows whose hash is that of several keys
            within = found < len(self._hashes)
            rows, found = rows[within], found[within]
            same = self._hashes[found] == hashes[rows]
            rows, found = rows[same], found[same]
            equal = self._equal(columns, rows, self._places[found])
            deleted[rows[equal & (self._numbers[found] > sequence_number)]] = True
            found = found + 1
        return deleted

    def _equal(self, columns: Sequence[pa.Array], rows: Numbers, places: Numbers) -> Booleans:
        """Whether the rows of some columns are the keys at these places."""
        equal = np.ones(len(rows), np.bool_)
        for ours, keys in zip(columns, self._columns, strict=True):
            if len(rows):
                equal &= same_values(ours.take(pa.array(rows)), keys.take(pa.array(places)))
        return equal


def _together(pieces: list[pa.Array]) -> pa.Array:
    array = pa.concat_arrays(pieces)
    pieces.clear()
    return array


def same_values(left: pa.Array, right: pa.Array) -> Booleans:
    both_null = pc.and_(left.is_null(), right.is_null())
    same: Booleans = pc.or_(pc.fill_null(pc.equal(left, right), False), both_null).to_numpy(zero_copy_only=False)
    return same
