"""Positions of many files are found in one walk through a delete file, and many delete files at once."""

import time
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from typing_extensions import override

from tableformat.engine import DeleteFile, RewriteTask, SourceFile
from tableformat.engine.deletes import TaskDeletes
from tableformat.engine.parallel import Readers


def task_of(folder: Path, named: list[str], positions: list[int], sources: list[str]) -> RewriteTask:
    file = folder / "deletes.parquet"
    pq.write_table(pa.table({"file_path": named, "pos": pa.array(positions, pa.int64())}), file)
    deletes = DeleteFile(str(file), "PARQUET", file.stat().st_size, len(named), 2)
    return cast(
        "RewriteTask",
        SimpleNamespace(
            sources=[SourceFile(path, "PARQUET", 1, 10, 1) for path in sources],
            position_deletes=(deletes,),
            equality_deletes=(),
        ),
    )


def test_each_file_gets_its_own_positions_though_those_of_others_lie_between(tmp_path: Path) -> None:
    task = task_of(tmp_path, ["b", "a", "x", "b", "a", "b", "x"], [3, 1, 5, 2, 1, 9, 0], ["a", "b", "c"])
    deletes = TaskDeletes(PyArrowFileIO(), task)
    assert [deletes.of(source).positions.tolist() for source in task.sources] == [[1], [2, 3, 9], []]


def test_a_delete_file_that_names_other_files_alone_deletes_nothing(tmp_path: Path) -> None:
    task = task_of(tmp_path, ["x", "y"], [0, 1], ["a"])
    assert TaskDeletes(PyArrowFileIO(), task).of(task.sources[0]).positions.tolist() == []


def test_one_delete_file_for_very_many_files_is_read_in_a_moment(tmp_path: Path) -> None:
    paths = [f"s3://bucket/warehouse/db/events/data/day=2026-11-16/00000-0-{i:012d}.parquet" for i in range(20_000)]
    task = task_of(tmp_path, paths, [0] * len(paths), paths)

    started = time.process_time()
    deletes = TaskDeletes(PyArrowFileIO(), task)

    assert time.process_time() - started < 2  # a walk for each of them would take several seconds
    assert all(deletes.of(source).positions.tolist() == [0] for source in task.sources)


class _WaitsForAnother(PyArrowFileIO):
    """Hands a file over only while another one is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._both = Barrier(2, timeout=20)

    @override
    def new_input(self, location: str) -> PyArrowFile:
        self._both.wait()
        return super().new_input(location)


def test_delete_files_are_fetched_side_by_side(tmp_path: Path) -> None:
    task = task_of(tmp_path, ["a"], [1], ["a"])
    [deletes] = task.position_deletes
    older = SimpleNamespace(**(vars(task) | {"position_deletes": (deletes, replace(deletes, sequence_number=0))}))

    with Readers(1) as readers:
        found = TaskDeletes(_WaitsForAnother(), cast("RewriteTask", older), readers)

    assert found.of(task.sources[0]).positions.tolist() == [1]
