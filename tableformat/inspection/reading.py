"""Gets manifests decoded, in parallel, and keeps what was decoded for the next look: manifests never change.

Fetching waits and decoding computes, so each has threads of its own. What is in memory at a time is bounded: a few
batches of manifests on their way, and a bounded amount of decoded ones.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.utils.concurrent import ExecutorFactory

from tableformat.inspection.decoding import (
    DecodedManifest,
    EncodedManifest,
    UnreadableManifest,
    decode_manifests,
    parse_manifest,
)

_BATCH_BYTES: Final = 8 * 1024 * 1024
_BATCH_MANIFESTS: Final = 256
_DECODERS: Final = 3
_KEPT_BYTES: Final = 64 * 1024 * 1024


class ManifestCache:
    """What was decoded lately, up to a size; the longest unused goes first. What it lacks may be in one beneath it."""

    def __init__(self, max_bytes: int, beneath: "ManifestCache | None" = None) -> None:
        self._max_bytes = max_bytes
        self._beneath = beneath
        self._bytes = 0
        self._manifests: OrderedDict[Hashable, DecodedManifest] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> DecodedManifest | None:
        with self._lock:
            found = self._manifests.get(key)
            if found is not None:
                self._manifests.move_to_end(key)
                return found
        found = self._beneath.get(key) if self._beneath is not None else None
        if found is not None:
            self.put(key, found)
        return found

    def put(self, key: Hashable, manifest: DecodedManifest) -> None:
        with self._lock:
            if key in self._manifests or manifest.size_bytes > self._max_bytes:
                return
            self._manifests[key] = manifest
            self._bytes += manifest.size_bytes
            while self._bytes > self._max_bytes:
                _, dropped = self._manifests.popitem(last=False)
                self._bytes -= dropped.size_bytes


SHARED_CACHE: Final = ManifestCache(max_bytes=_KEPT_BYTES)


def decoded_manifests(
    io: FileIO, manifests: Sequence[ManifestFile], cache: ManifestCache = SHARED_CACHE
) -> list[DecodedManifest]:
    """The live entries of each of the manifests. Raises `UnreadableManifest` if one is broken or missing."""
    found = {number: cache.get(_key(manifest)) for number, manifest in enumerate(manifests)}
    missing = [number for number, manifest in found.items() if manifest is None]

    def decode(numbers: Sequence[int]) -> list[DecodedManifest]:
        return decode_manifests(fetched_manifests(io, [manifests[number] for number in numbers]))

    batches = list(batches_of(missing, manifests))
    with ThreadPoolExecutor(min(_DECODERS, len(batches)) or 1) as pool:
        for batch, decoded in zip(batches, pool.map(decode, batches), strict=True):
            for number, manifest in zip(batch, decoded, strict=True):
                cache.put(_key(manifests[number]), manifest)
                found[number] = manifest
    return [manifest for manifest in found.values() if manifest is not None]


def _key(manifest: ManifestFile) -> Hashable:
    return manifest.manifest_path, manifest.manifest_length


def fetched_manifests(io: FileIO, manifests: Sequence[ManifestFile]) -> list[EncodedManifest]:
    """All at once; they are to be in memory together."""
    return list(ExecutorFactory.get_or_create().map(lambda manifest: _fetch(io, manifest), manifests))


def batches_of(numbers: Sequence[int], manifests: Sequence[ManifestFile]) -> Iterator[list[int]]:
    """The numbers of manifests that are decoded together."""
    batch: list[int] = []
    size = 0
    for number in numbers:
        length = manifests[number].manifest_length
        if batch and (size + length > _BATCH_BYTES or len(batch) == _BATCH_MANIFESTS):
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += length
    if batch:
        yield batch


def _fetch(io: FileIO, manifest: ManifestFile) -> EncodedManifest:
    try:
        with io.new_input(manifest.manifest_path).open() as stream:
            content = stream.read()
    except FileNotFoundError as error:
        raise UnreadableManifest(manifest.manifest_path, "it does not exist") from error
    if len(content) < manifest.manifest_length:  # one that was cut off between two blocks can be decoded
        reason = f"it has {len(content)} bytes, and {manifest.manifest_length} by its list"
        raise UnreadableManifest(manifest.manifest_path, reason)
    return parse_manifest(manifest.manifest_path, manifest.content, content)
