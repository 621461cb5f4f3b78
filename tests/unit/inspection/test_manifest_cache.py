"""The cache of manifests holds what was used last, within its bound."""

from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from tableformat.inspection import LiveFile
from tableformat.inspection.files import ManifestCache


def files(count: int) -> tuple[LiveFile, ...]:
    return tuple(
        LiveFile(f"f{number}", DataFileContent.DATA, FileFormat.PARQUET, 1, 1, 0, Record(), 1, 1, encrypted=False)
        for number in range(count)
    )


def test_the_longest_unused_goes_first() -> None:
    cache = ManifestCache(max_files=5)
    cache.put("a", files(2))
    cache.put("b", files(2))
    assert cache.get("a") is not None

    cache.put("c", files(2))

    assert cache.get("b") is None
    assert cache.get("a") == cache.get("c") == files(2)


def test_a_manifest_larger_than_the_cache_pushes_nothing_out() -> None:
    cache = ManifestCache(max_files=5)
    cache.put("a", files(2))
    cache.put("large", files(6))
    assert cache.get("a") is not None
    assert cache.get("large") is None
