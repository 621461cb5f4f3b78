"""Any other storage that PyArrow knows, one request a file, through the file system that PyIceberg set up for it."""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from tableformat.locations import Place
from tableformat.storage.store import UNKNOWN_TIME, Deleted, StoredFile

_PARALLEL = 8


class ArrowStore:
    def __init__(self, io: PyArrowFileIO) -> None:
        self._io = io

    def files(self, folder: str) -> Iterator[StoredFile]:
        place = Place.of(folder)
        system, path = self._open(place)
        prefix = folder[: len(folder) - len(place.path)]
        skipped = len(path) - len(place.path)
        for info in system.get_file_info(FileSelector(path.rstrip("/"), allow_not_found=True, recursive=True)):
            if info.type == FileType.File:
                modified = UNKNOWN_TIME if info.mtime_ns is None else info.mtime_ns // 1_000_000
                yield StoredFile(prefix + info.path[skipped:], info.size, modified)

    def delete(self, locations: Collection[str]) -> Deleted:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return Deleted.merged(pool.map(self._delete, locations))

    def _delete(self, location: str) -> Deleted:
        system, path = self._open(Place.of(location))
        try:
            system.delete_file(path)
        except FileNotFoundError:
            return Deleted(missing=(location,))
        except OSError as error:
            return Deleted(failed={location: str(error)})
        return Deleted(deleted=(location,))

    def _open(self, place: Place) -> tuple[FileSystem, str]:
        path = place.path if place.scheme in ("hdfs", "viewfs") else f"{place.authority}{place.path}"
        return self._io.fs_by_scheme(place.scheme or "file", place.authority), path
