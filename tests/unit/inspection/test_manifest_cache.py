"""The cache of manifests holds what was used last, within its bound."""

import pyarrow as pa

from tableformat.inspection.decoding import DecodedManifest
from tableformat.inspection.reading import ManifestCache


def manifest(size_bytes: int) -> DecodedManifest:
    return DecodedManifest(pa.table({"status": pa.array([1] * size_bytes, pa.int8())}), ())


def test_the_longest_unused_goes_first() -> None:
    cache, kept = ManifestCache(max_bytes=500), manifest(200)
    cache.put("a", kept)
    cache.put("b", manifest(200))
    assert cache.get("a") is not None

    cache.put("c", kept)

    assert cache.get("b") is None
    assert cache.get("a") is cache.get("c") is kept


def test_a_manifest_larger_than_the_cache_pushes_nothing_out() -> None:
    cache = ManifestCache(max_bytes=500)
    cache.put("a", manifest(200))
    cache.put("large", manifest(600))
    assert cache.get("a") is not None
    assert cache.get("large") is None
