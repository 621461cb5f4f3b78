"""Locations taken apart without loss, and compared as storage sees them.

`file:/a`, `file:///a` and `/a` are one file; `s3`, `s3a` and `s3n` are one store. Where two spellings may or may not be
one file (doubled slashes), they compare as equal: whoever asks wants to know what may be deleted, and a file that is
taken for a live one stays. Nothing here decodes or cuts a name: `%20`, `#` and `?` are letters like any other.
"""

import posixpath
from dataclasses import dataclass

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasbs": "wasb", "abfss": "abfs", "": "file"}


@dataclass(frozen=True, slots=True)
class Place:
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
        scheme = _SAME_STORE.get(self.scheme, self.scheme)
        return f"{scheme}://" if scheme == "file" else f"{scheme}://{self.authority}"

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
    def comparable_path(self) -> str:
        """Equal for every spelling of one path inside one store."""
        return comparable_path(self.path)


def comparable_path(path: str) -> str:
    """A path without what makes no difference. Relative parts are resolved: a local path may have them."""
    if "//" not in path and "/./" not in path and "/../" not in path:
        return path.strip("/")
    return posixpath.normpath("/" + path).strip("/")


def within(location: str, folder: str) -> bool:
    """Whether the location lies inside the folder, in the same store; the folder does not lie inside itself."""
    inner, outer = Place.of(location), Place.of(folder)
    return inner.store == outer.store and inner.comparable_path.startswith(outer.comparable_path + "/")
