"""Puts candidates together: never across partitions, of a size that one task can have, and only where it pays.

A group is kept only if fewer, better files come out of it than go in, so that a second plan on a quiet table is empty.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tableformat.engine.sizing import files_for
from tableformat.inspection import AppliedDeletes, Integers, SnapshotFiles, integers
from tableformat.maintenance.compaction.candidates import Candidates
from tableformat.maintenance.compaction.options import CompactionOptions, Strategy


@dataclass(frozen=True)
class Group:
    """Files of one partition that are rewritten together."""

    partition: int
    data: Integers
    """Rows in the snapshot's table of data files."""
    deletes: Integers
    """Rows in the snapshot's table of deletes: those that apply to any of the files."""
    size_bytes: int
    records: int
    live_bytes: float
    """What comes out of it, about."""
    expected_files: int
    """Where it stays in its partition."""


def worthwhile_groups(
    files: SnapshotFiles, candidates: Candidates, applied: AppliedDeletes, options: CompactionOptions
) -> list[Group]:
    """Most files and deletes saved first, then the least to rewrite; as many as a run may take."""
    if not len(candidates):
        return []
    starts = _starts(candidates, options)
    ends = np.append(starts[1:], len(candidates))
    counts, sizes = ends - starts, np.add.reduceat(candidates.sizes, starts)
    live = np.add.reduceat(candidates.live_bytes, starts)
    expected = np.array([files_for(size, options.target_file_bytes) for size in live.tolist()], np.int64)
    saved = counts - expected
    content = np.add.reduceat(candidates.content_bytes, starts)
    # Small files out of order wait for others, or each that comes would have all that are in order rewritten again;
    # once they are half of the group, a row is rewritten for its order hardly more often than it doubles.
    unordered = np.add.reduceat(np.where(candidates.unordered, candidates.sizes, 0), starts)
    must = np.logical_or.reduceat(candidates.must, starts) | ((unordered > 0) & (unordered * 2 >= sizes))
    divided = np.logical_or.reduceat(candidates.sizes > options.large_above, starts)
    enough = (counts >= options.min_input_files) | (content >= options.target_file_bytes)
    kept = np.flatnonzero(must | np.where(divided, saved != 0, (saved > 0) & enough))
    deletes = [applied.of(candidates.rows[starts[group] : ends[group]]) for group in kept]
    benefits = saved[kept] + np.array([len(found) for found in deletes], np.int64)
    first_paths = files.data["path"].take(pa.array(candidates.rows[starts[kept]], pa.int64()))
    ranked = pa.table({"benefit": -benefits, "size": sizes[kept], "path": first_paths})  # the path makes it certain
    records = np.add.reduceat(integers(files.data, "records")[candidates.rows], starts)
    order = pc.sort_indices(ranked, [(name, "ascending") for name in ranked.column_names]).to_numpy()
    return [
        Group(
            partition=int(candidates.partitions[starts[kept[place]]]),
            data=candidates.rows[starts[kept[place]] : ends[kept[place]]],
            deletes=deletes[place],
            size_bytes=int(sizes[kept[place]]),
            records=int(records[kept[place]]),
            live_bytes=float(live[kept[place]]),
            expected_files=int(expected[kept[place]]),
        )
        for place in _within(options.max_bytes_per_run, order, sizes[kept])
    ]


def _starts(candidates: Candidates, options: CompactionOptions) -> Integers:
    """Where each group begins. A partition is divided into tasks of equal weight: no small remainder is left."""
    partitions, sizes = candidates.partitions, candidates.content_bytes
    first = np.flatnonzero(np.append(True, partitions[1:] != partitions[:-1]))
    counts = np.diff(np.append(first, len(candidates)))
    totals = np.add.reduceat(sizes, first)
    # No group is more than a run may take, or the limit would mean nothing to it.
    bins = np.maximum(1, -(-np.add.reduceat(candidates.sizes, first) // options.most_group_bytes))
    if options.strategy == Strategy.BIN_PACK:
        # Rows that are to be in order have to come together; bin-packing is the same work in many small tasks.
        bins = np.maximum(bins, -(-totals // options.task_bytes))
    seen = np.cumsum(sizes) - sizes
    within = (seen - np.repeat(seen[first], counts)).astype(np.float64)
    number = np.repeat(bins, counts)
    chosen = np.minimum(number - 1, within * number // np.repeat(np.maximum(totals, 1), counts))
    changes = (partitions[1:] != partitions[:-1]) | (chosen[1:] != chosen[:-1])
    return np.flatnonzero(np.append(True, changes))


def _within(max_bytes: int | None, order: Integers, sizes: Integers) -> list[int]:
    """The first that fit; a first group that is too large alone is taken, or nothing would ever be done."""
    taken: list[int] = []
    total = 0
    for place in order.tolist():
        if max_bytes is None or not taken or total + int(sizes[place]) <= max_bytes:
            taken.append(place)
            total += int(sizes[place])
    return taken
