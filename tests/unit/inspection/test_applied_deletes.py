"""For all files at once, the same deletes apply as for each file by itself."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent

from tableformat.inspection import AppliedDeletes, DeleteIndex, LiveFile, Partitions, SnapshotFiles
from tests.unit.inspection.files import GLOBAL_SPEC, live, snapshot_of

paths = st.sampled_from(["a", "b", "c", "d", "ö"])
bounds = (
    st.none()
    | paths.map(lambda path: (path.encode(), path.encode()))
    | st.tuples(paths, paths).map(lambda pair: (min(pair).encode(), max(pair).encode()))
)
partitions, sequence_numbers = st.integers(0, 2), st.integers(0, 4)
data_files = st.builds(live, paths, partitions, records=st.integers(0, 20), sequence_number=sequence_numbers)
equality_deletes = st.builds(
    live,
    st.just("keys"),
    partitions,
    records=st.integers(0, 20),
    sequence_number=sequence_numbers,
    content=st.just(DataFileContent.EQUALITY_DELETES),
)
position_deletes = st.builds(
    live,
    st.just("positions"),
    partitions,
    records=st.integers(0, 20),
    sequence_number=sequence_numbers,
    content=st.just(DataFileContent.POSITION_DELETES),
    path_bounds=bounds,
)


@given(st.lists(data_files, max_size=8), st.lists(equality_deletes | position_deletes, max_size=6))
def test_the_same_deletes_apply_as_to_each_file_by_itself(data: list[LiveFile], deletes: list[LiveFile]) -> None:
    applied = AppliedDeletes(snapshot_of(data, deletes), global_specs={GLOBAL_SPEC})

    index = DeleteIndex(deletes, global_specs={GLOBAL_SPEC})
    numbers = {id(file): number for number, file in enumerate(deletes)}
    expected = [{numbers[id(found)] for found in index.of(file)} for file in data]
    assert applied.deletes_of_file.tolist() == [len(found) for found in expected]
    assert [set(applied.of(np.array([row])).tolist()) for row in range(len(data))] == expected
    assert applied.files_reached.tolist() == [sum(n in found for found in expected) for n in range(len(deletes))]
    for row, found in enumerate(expected):
        rows = sum(
            deletes[number].records
            * data[row].records
            / max(1, sum(file.records for file, also in zip(data, expected, strict=True) if number in also))
            for number in found
        )
        assert applied.deleted_rows[row] == pytest.approx(rows)


@given(st.lists(data_files, min_size=1, max_size=8), st.lists(equality_deletes | position_deletes, max_size=6))
def test_files_of_a_partition_have_the_deletes_of_each_of_them(data: list[LiveFile], deletes: list[LiveFile]) -> None:
    applied = AppliedDeletes(snapshot_of(data, deletes), global_specs={GLOBAL_SPEC})
    by_partition: dict[object, list[int]] = defaultdict(list)
    for row, file in enumerate(data):
        by_partition[file.partition_key].append(row)
    for rows in by_partition.values():
        together = applied.of(np.array(rows)).tolist()
        assert together == sorted({delete for row in rows for delete in applied.of(np.array([row])).tolist()})


def test_deletes_apply_however_many_partitions_and_commits_there_are() -> None:
    """Their product goes beyond 32 bits."""
    number = 60_000
    data = pa.table(
        {
            "partition": pa.array(np.arange(number), pa.int32()),
            "sequence_number": np.arange(1, number + 1),
            "records": np.full(number, 10),
            "path": pa.array([str(each) for each in range(number)], pa.large_string()),
        }
    )
    reached = [5, 30_000, 50_000, number - 1]
    deletes = pa.table(
        {
            "partition": pa.array(reached, pa.int32()),
            "sequence_number": np.full(4, number + 5),
            "records": np.ones(4, np.int64),
            "content": pa.array([DataFileContent.EQUALITY_DELETES.value] * 4, pa.int8()),
            "path_lower": pa.nulls(4, pa.binary()),
            "path_upper": pa.nulls(4, pa.binary()),
            "spec_id": pa.array([1] * 4, pa.int32()),
        }
    )
    nowhere = Partitions(np.zeros(0, np.int64), np.zeros(0, np.int64), {}, {})

    applied = AppliedDeletes(SnapshotFiles((), data, deletes, nowhere), global_specs=())

    assert applied.files_reached.tolist() == [1, 1, 1, 1]
    assert [applied.of(np.array([row])).tolist() for row in reached] == [[0], [1], [2], [3]]
