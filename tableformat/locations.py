"""Locations taken apart without loss, and compared as storage sees them: only here is known when two are the same.

`file:/a`, `file:///a` and `/a` are one file, and so is what a symbolic link on the way to it makes of its name; `s3`,
`s3a` and `s3n` are one store. Where two spellings may or may not be one file (doubled slashes), they compare as equal:
whoever asks wants to know what may be deleted, or whether two tables share a folder, and equal is the safe answer to
both. Nothing here decodes or cuts a name: `%20`, `#` and `?` are letters like any other.
"""

import os.path
import posixpath
from functools import lru_cache
from typing import NamedTuple

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasbs": "wasb", "abfss": "abfs", "": "file"}


class Place(NamedTuple):
    """A location in its parts; `path` is exactly what is written behind the authority, with its leading slash."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, location: str) -> "Place":
        head, separator, rest = location.partition(":")
        if not separator or "/" in head:
            return cls("", "", location)
        if rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            return cls(head.lower(), authority, slash + path)
        return cls(head.lower(), "", rest)

    @property
    def store(self) -> str:
        """The storage that it lies in: equal for places that can be compared by their paths alone."""
        return _store(self.scheme, self.authority)

    @property
    def is_local(self) -> bool:
        return self.scheme in ("", "file")

    @property
    def is_s3(self) -> bool:
        return _SAME_STORE.get(self.scheme, self.scheme) == "s3"

    @property
    def key(self) -> str:
        """The object's name in its bucket, exactly."""
        return self.path.removeprefix("/")

    @property
    def as_s3_file_io(self) -> "Place | None":
        """What Iceberg's S3FileIO takes it for, which cuts a key at `?` and `#`; None where every reader agrees.

        Hadoop's S3A and this library take the key as it is written. What a table needs is there under one or the other.
        """
        if not self.is_s3 or ("?" not in self.path and "#" not in self.path):
            return None
        return self._replace(path=self.path.partition("?")[0].partition("#")[0])

    @property
    def comparable_path(self) -> str:
        """Equal for every spelling of one path inside one store."""
        return comparable_path(_without_links(self.path) if self.is_local else self.path)


@lru_cache(maxsize=1024)  # asked for each of a table's files, which are in one or two stores
def _store(scheme: str, authority: str) -> str:
    scheme = _SAME_STORE.get(scheme, scheme)
    return f"{scheme}://" if scheme == "file" else f"{scheme}://{authority}"


def comparable_path(path: str) -> str:
    """A path without what makes no difference. Relative parts are resolved: a local path may have them."""
    if "//" not in path and "/./" not in path and "/../" not in path:
        return path.strip("/")
    return posixpath.normpath("/" + path).strip("/")


def _without_links(path: str) -> str:
    """A local path by its real folder. Its last name stays: a file that is a link itself is never listed."""
    folder, _, name = path.rpartition("/")
    return f"{_real(folder)}/{name}" if folder else path


_real = lru_cache(maxsize=65536)(os.path.realpath)  # a table has many files in few folders


def comparable_folder(location: str) -> str:
    """The comparable path of a folder, which may be reached by a link of its own."""
    return Place.of(location.rstrip("/") + "/").comparable_path


def within(location: str, folder: str) -> bool:
    """Whether the location lies inside the folder, in the same store; the folder does not lie inside itself."""
    inner, outer = Place.of(location), Place.of(folder)
    return inner.store == outer.store and inner.comparable_path.startswith(comparable_folder(folder) + "/")


@lru_cache(maxsize=65536)  # a new table is compared with thousands of others
def folder_parts(location: str) -> tuple[str, ...]:
    """The store and the folders on the way to a folder: equal for every spelling of it."""
    path = comparable_folder(location)
    return (Place.of(location).store, *(path.split("/") if path else ()))


def same_location(one: str, other: str) -> bool:
    """Whether both are one folder."""
    return folder_parts(one) == folder_parts(other)


def overlap(one: str, other: str) -> bool:
    """Whether one folder is the other, or lies inside it."""
    shorter, longer = sorted((folder_parts(one), folder_parts(other)), key=len)
    return longer[: len(shorter)] == shorter
