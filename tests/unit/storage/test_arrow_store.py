"""Storage that PyArrow reaches: what it does not say of a file never makes the file look old."""

from pyarrow.fs import FileInfo, FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from typing_extensions import override

from tableformat.storage.arrow import ArrowStore


class _System:
    def get_file_info(self, selector: FileSelector) -> list[FileInfo]:
        return [FileInfo(f"{selector.base_dir}/data/fresh.parquet", FileType.File, size=1)]


class _TimelessIO(PyArrowFileIO):
    """A store whose listings have no times."""

    @override
    def __init__(self) -> None:
        self.fs_by_scheme = lambda *_: _System()


def test_a_file_without_a_time_is_younger_than_every_guard() -> None:
    [file] = ArrowStore(_TimelessIO()).files("gs://bucket/t")

    assert file.location == "gs://bucket/t/data/fresh.parquet"
    assert file.modified_ms > 10**15
