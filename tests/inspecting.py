"""Holds the files of a snapshot as Arrow has them against what PyIceberg reads from the same manifests."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from tableformat.inspection import LiveFile, SnapshotFiles, live_file, read_entries, read_manifests, snapshot_files


def assert_same_as_pyiceberg(io: FileIO, snapshot: Snapshot) -> SnapshotFiles:
    files = snapshot_files(io, snapshot)
    found = files.data_files(np.arange(files.data.num_rows)) + files.delete_files(np.arange(files.deletes.num_rows))
    manifests = sorted(read_manifests(io, snapshot), key=lambda manifest: manifest.content)
    expected = [live_file(entry) for manifest in manifests for entry in read_entries(io, manifest)]
    assert _comparable(found) == _comparable(expected)
    numbers = [*files.data["partition"].to_pylist(), *files.deletes["partition"].to_pylist()]
    by_key = {(file.partition_key, number) for file, number in zip(expected, numbers, strict=True)}
    assert len(by_key) == len({key for key, _ in by_key}) == len({number for _, number in by_key})
    return files


def _comparable(files: Sequence[LiveFile]) -> list[tuple[object, object]]:
    """NaN is equal to itself, and 0.0 not to -0.0. What is told from statistics, Arrow's side does not read."""
    return [(replace(file, partition=Record(), nan_keys=()), file.partition_key) for file in files]
