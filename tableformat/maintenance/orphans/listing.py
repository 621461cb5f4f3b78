"""What storage holds, and which of it the table needs, in a few bytes a file: a table may have millions of them.

A path that the table needs is known by a hash of 64 bits. Two paths of one hash make a file that nobody needs look like
one that is needed: it stays, which errs on the safe side. What was listed is kept as numbers and compressed names: most
of a name is that of the one before, and as Python's objects or in Arrow's columns they would take many times as much.
"""

import json
import zlib
from array import array
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from tableformat.locations import Place
from tableformat.storage import StoredFile

_CHUNK = 2048

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


class PackedPaths(NamedTuple):
    """Paths on their way from where they were read."""

    paths: bytes
    places: bytes
    stores: frozenset[str]


class NeededPaths:
    """The paths that a table needs: by themselves, and together with the store that each lies in."""

    def __init__(self) -> None:
        self.stores: set[str] = set()
        self._paths = array("Q")
        self._places = array("Q")

    def add(self, location: str) -> None:
        place = Place.of(location)
        for reading in (place, place.as_s3_file_io):
            if reading is not None:
                path, in_store = _hashes(reading.comparable_path, reading.store)
                self._paths.append(path)
                self._places.append(in_store)
        self.stores.add(place.store)

    def extend(self, packed: PackedPaths) -> None:
        self._paths.frombytes(packed.paths)
        self._places.frombytes(packed.places)
        self.stores |= packed.stores

    def packed(self) -> PackedPaths:
        return PackedPaths(self._paths.tobytes(), self._places.tobytes(), frozenset(self.stores))

    def of(self, listed: "Listed") -> tuple[Mask, Mask]:
        """For each listed file: whether its path is needed, and whether it is needed in that very store."""
        return _is_in(listed.paths, self._paths), _is_in(listed.places, self._places)


class Listed:
    """Files in the order in which they were listed."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._pending: list[str] = []
        self._sizes = array("q")
        self._times = array("q")
        self.paths = array("Q")
        self.places = array("Q")

    def add(self, file: StoredFile, path: str, store: str) -> None:
        """By its comparable path, and by the store that it lies in."""
        self._pending.append(file.location)
        self._sizes.append(file.size_bytes)
        self._times.append(file.modified_ms)
        hash_of_path, in_store = _hashes(path, store)
        self.paths.append(hash_of_path)
        self.places.append(in_store)
        if len(self._pending) >= _CHUNK:
            self._flush()

    def where(self, mask: Mask) -> Iterator[StoredFile]:
        """The files for which the mask holds."""
        self._flush()
        for number, chunk in enumerate(self._chunks):
            first = number * _CHUNK
            wanted = np.flatnonzero(mask[first : first + _CHUNK])
            if len(wanted):
                locations = json.loads(zlib.decompress(chunk))
                for place in wanted:
                    yield StoredFile(locations[place], self._sizes[first + place], self._times[first + place])

    def _flush(self) -> None:
        if self._pending:  # as JSON, which has a form for names that are no text: those of local files need not be
            self._chunks.append(zlib.compress(json.dumps(self._pending).encode(), level=1))
            self._pending = []


def _hashes(path: str, store: str) -> tuple[int, int]:
    """Of the path by itself, and of the path in that store."""
    number = _hash(path)
    return number, number ^ _hash_of_store(store)


_hash_of_store = lru_cache(maxsize=1024)(lambda store: _hash(f"store {store}"))


def _is_in(listed: "array[int]", needed: "array[int]") -> Mask:
    """As `np.isin` says, which makes half a dozen copies of both."""
    numbers, known = np.frombuffer(listed, np.uint64), np.sort(np.frombuffer(needed, np.uint64))
    if not len(known):
        return np.zeros(len(numbers), np.bool_)
    found: Mask = known[np.searchsorted(known, numbers).clip(max=len(known) - 1)] == numbers
    return found
