"""Groups of files are what a plain walk through the candidates finds, and they pay."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tableformat.engine.sizing import files_for
from tableformat.inspection import AppliedDeletes, LiveFile
from tableformat.maintenance.compaction.candidates import Candidates
from tableformat.maintenance.compaction.grouping import worthwhile_groups
from tableformat.maintenance.compaction.options import CompactionOptions
from tests.unit.inspection.files import PARTITIONS, live, snapshot_of

TARGET = 1024
chosen = st.tuples(st.integers(0, 2), st.integers(1, 3000), st.integers(0, 2), st.booleans())
option_values = st.fixed_dictionaries(
    {
        "target_file_bytes": st.just(TARGET),
        "min_input_files": st.integers(1, 4),
        "max_bytes_per_run": st.none() | st.integers(1, 10_000),
        "max_bytes_per_task": st.none() | st.integers(1024, 4096),
    }
)
Walked = tuple[list[str], int]


def walk(files: list[tuple[LiveFile, bool]], options: CompactionOptions) -> list[Walked]:
    """The rules one after the other, as a person would apply them."""
    partitions: dict[object, list[tuple[LiveFile, bool]]] = defaultdict(list)
    for file, must in sorted(files, key=lambda pair: (pair[0].sequence_number, pair[0].path)):
        partitions[file.partition_key].append((file, must))
    groups = []
    for members in partitions.values():
        total = sum(file.size_bytes for file, _ in members)
        most = min(options.task_bytes, max(TARGET, options.max_bytes_per_run or total))
        count, seen = -(-total // most), 0
        bins: list[list[tuple[LiveFile, bool]]] = [[] for _ in range(count)]
        for file, must in members:
            bins[seen * count // total].append((file, must))
            seen += file.size_bytes
        groups += [group for group in bins if group]
    worthwhile = []
    for group in groups:
        size = sum(file.size_bytes for file, _ in group)
        expected = files_for(size, options.target_file_bytes)
        if any(must for _, must in group):
            pays = True
        elif any(file.size_bytes > options.large_above for file, _ in group):
            pays = expected != len(group)
        else:
            pays = expected < len(group) and (len(group) >= options.min_input_files or size >= TARGET)
        if pays:
            worthwhile.append((-(len(group) - expected), size, [file.path for file, _ in group], expected))
    taken: list[Walked] = []
    total = 0
    for _, size, paths, expected in sorted(worthwhile):
        if not taken or options.max_bytes_per_run is None or total + size <= options.max_bytes_per_run:
            taken.append((paths, expected))
            total += size
    return taken


@given(st.lists(chosen, max_size=12), option_values)
def test_groups_are_those_of_a_plain_walk(values: list[tuple[int, int, int, bool]], given: dict[str, object]) -> None:
    options = CompactionOptions.model_validate(given)
    files = [
        (live(f"{number:02d}", partition, size_bytes=size, sequence_number=sequence), must)
        for number, (partition, size, sequence, must) in enumerate(values)
    ]
    snapshot = snapshot_of([file for file, _ in files])
    rows = sorted(
        range(len(files)),
        key=lambda row: (values[row][0], files[row][0].sequence_number, files[row][0].path),
    )
    candidates = Candidates(
        rows=np.array(rows, np.int64),
        partitions=np.array([values[row][0] for row in rows], np.int64),
        sizes=np.array([values[row][1] for row in rows], np.int64),
        content_bytes=np.array([values[row][1] for row in rows], np.int64),
        live_bytes=np.array([float(values[row][1]) for row in rows]),
        must=np.array([values[row][3] for row in rows], np.bool_),
        unordered=np.zeros(len(rows), np.bool_),
    )

    groups = worthwhile_groups(snapshot, candidates, AppliedDeletes(snapshot, global_specs=()), options)

    found = [([files[row][0].path for row in group.data.tolist()], group.expected_files) for group in groups]
    assert found == walk(files, options)
    assert all(len({values[row][0] for row in group.data.tolist()}) == 1 for group in groups)
    assert all(PARTITIONS[group.partition][0] == files[int(group.data[0])][0].spec_id for group in groups)
