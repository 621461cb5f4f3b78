"""What is written is divided evenly: no file is a small remainder, which would stay small until others join it."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import override

from tableformat.engine import DeleteFile, SourceFile, rewrite
from tableformat.engine.delete_writing import write_position_deletes
from tableformat.engine.kernel import file_io
from tests.unit.engine.test_division import Rows, task_of


def test_all_rows_that_fit_one_file_are_in_one_file(tmp_path: Path) -> None:
    """For any number of rows: that many times their average size, divided by it, is not always the same number."""
    for number in range(2, 60):
        task = task_of(tmp_path, [[(i, None) for i in range(number)]], None, target_file_bytes=1 << 20)

        result = rewrite(task)

        assert [file.records for file in result.files] == [number]


@pytest.mark.parametrize("rows", [10_000, 17_000, 26_000, 31_000])
def test_the_last_of_many_row_groups_are_no_small_file(tmp_path: Path, rows: int) -> None:
    target = 600_000  # about ten thousand rows
    content: Rows = [(i, uuid.uuid4().hex + uuid.uuid4().hex) for i in range(rows)]
    limits = {"write.parquet.row-group-limit": "300", "write.parquet.compression-codec": "uncompressed"}
    task = task_of(tmp_path, [content], None, target_file_bytes=target, table_properties=limits)

    result = rewrite(task)

    sizes = [round(file.size_bytes / target, 2) for file in result.files]
    assert all(0.7 < size < 1.8 for size in sizes), sizes
    assert len(result.files[0].split_offsets) > 10
    assert result.rows_written == rows


@pytest.mark.parametrize("rows", [20_000, 60_000])
def test_the_rows_that_deletes_leave_are_divided_evenly_too(tmp_path: Path, rows: int) -> None:
    target = 600_000  # about ten thousand rows
    content: Rows = [(i, uuid.uuid4().hex + uuid.uuid4().hex) for i in range(rows)]
    limits = {"write.parquet.row-group-limit": "300", "write.parquet.compression-codec": "uncompressed"}
    task = task_of(tmp_path, [content], None, target_file_bytes=target, table_properties=limits)
    half = np.arange(0, rows, 2)
    deletes = write_position_deletes(file_io(task), f"{tmp_path}/deletes.parquet", task.sources[0].path, half)

    result = rewrite(
        replace(task, position_deletes=(DeleteFile(deletes.path, "PARQUET", deletes.size_bytes, deletes.records, 2),))
    )

    sizes = [round(file.size_bytes / target, 2) for file in result.files]
    assert all(0.7 < size < 1.8 for size in sizes), sizes
    assert result.rows_written == rows - len(half)


class _Sources(tuple[SourceFile, ...]):
    """Known by how often somebody walks through them."""

    walks = 0

    @override
    def __iter__(self) -> Iterator[SourceFile]:
        _Sources.walks += 1
        return super().__iter__()


def test_a_task_of_many_files_does_not_look_at_all_of_them_for_each_of_them(tmp_path: Path) -> None:
    task = task_of(tmp_path, [[(i, None)] for i in range(40)], None, verify_contents=False)
    _Sources.walks = 0

    result = rewrite(replace(task, sources=_Sources(task.sources)))

    assert result.rows_written == 40
    assert _Sources.walks <= 4
