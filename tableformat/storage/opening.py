"""The one way from a table's file I/O to the store that lists and deletes its files."""

from collections.abc import Collection, Iterator

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from tableformat.locations import Place
from tableformat.storage.arrow import ArrowStore
from tableformat.storage.local import LocalStore
from tableformat.storage.store import Deleted, FileStore, StoredFile

_ANOTHER_WAY_TO_S3 = ("s3.role-arn", "client.role-arn", "s3.anonymous", "s3.proxy-uri", "s3.signer")
"""With these, PyIceberg reaches S3 in a way that our own store for it does not know."""


def open_store(io: FileIO) -> FileStore:
    """A store that reaches what the file I/O reaches, whatever the scheme of each location."""
    return _ByScheme(dict(io.properties))


class _ByScheme:
    def __init__(self, properties: dict[str, str]) -> None:
        self._properties = properties
        self._stores: dict[str, FileStore] = {}

    def files(self, folder: str) -> Iterator[StoredFile]:
        return self._store(Place.of(folder)).files(folder)

    def delete(self, locations: Collection[str]) -> Deleted:
        by_kind: dict[str, list[str]] = {}
        for location in locations:
            by_kind.setdefault(self._kind(Place.of(location)), []).append(location)
        return Deleted.merged(self._store(Place.of(some[0])).delete(some) for some in by_kind.values())

    def _kind(self, place: Place) -> str:
        if place.is_local:
            return "local"
        if place.is_s3 and not any(self._properties.get(name) for name in _ANOTHER_WAY_TO_S3):
            return "s3"
        return "arrow"

    def _store(self, place: Place) -> FileStore:
        kind = self._kind(place)
        if kind not in self._stores:
            self._stores[kind] = self._open(kind)
        return self._stores[kind]

    def _open(self, kind: str) -> FileStore:
        if kind == "local":
            return LocalStore()
        if kind == "s3":
            # Not before it is needed: AWS's library takes as long to load as a short command does altogether.
            from tableformat.storage.s3 import S3Store, s3_client

            return S3Store(s3_client(self._properties))
        return ArrowStore(PyArrowFileIO(self._properties))
