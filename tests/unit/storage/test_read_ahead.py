"""What is read ahead of its use is bounded, however large a table is and however slowly its files are used."""

import threading
import time
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tableformat.maintenance import reachability
from tableformat.storage.s3 import S3Store

PAGES = 200
MIB = 1024 * 1024


class _Bucket:
    """One flat folder of many pages. Counts the requests."""

    def __init__(self, *, broken_after: int = PAGES) -> None:
        self.meta = self
        self.events = self
        self.asked = 0
        self._broken_after = broken_after
        self._lock = threading.Lock()

    def register(self, *_: object, **__: object) -> None:
        """For events that this client does not have."""

    def list_objects_v2(self, Bucket: str, Prefix: str, **more: str) -> dict[str, Any]:  # noqa: N803, ARG002
        with self._lock:
            self.asked += 1
        if more.get("Delimiter") and Prefix != "t/data/":
            return {"CommonPrefixes": [{"Prefix": "t/data/"}]}
        page = int(more.get("ContinuationToken", 0))
        if page >= self._broken_after:
            raise ValueError("a page that makes no sense")
        when = datetime(2026, 1, 1, tzinfo=UTC)
        content = [{"Key": f"t/data/{page}-{number}", "Size": 1, "LastModified": when} for number in range(10)]
        return {"Contents": content, "IsTruncated": page + 1 < PAGES, "NextContinuationToken": str(page + 1)}


def store(bucket: _Bucket) -> S3Store:
    return S3Store(cast("Any", bucket))


def test_a_listing_goes_no_further_than_a_few_pages_ahead_of_its_use() -> None:
    bucket = _Bucket()
    files = store(bucket).files("s3://lake/t")
    next(files)
    before = -1
    while bucket.asked != before:  # until the listing waits
        before = bucket.asked
        time.sleep(0.3)
    assert bucket.asked < 40

    assert len({file.location for file in files}) == PAGES * 10 - 1
    assert bucket.asked == PAGES + 1


def test_a_listing_that_nobody_wants_the_rest_of_ends() -> None:
    bucket = _Bucket()
    files = store(bucket).files("s3://lake/t")
    next(files)
    files.close()  # type: ignore[attr-defined]  # a generator
    before = bucket.asked
    time.sleep(0.5)
    assert bucket.asked == before


def test_a_listing_that_fails_says_so_and_does_not_just_end() -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        list(store(_Bucket(broken_after=50)).files("s3://lake/t"))


@pytest.mark.parametrize(("size", "most"), [(8 * MIB, 3), (1000, 64)])
def test_large_manifests_are_read_ahead_by_their_bytes_and_small_ones_by_their_number(size: int, most: int) -> None:
    begun: list[int] = []

    def read(number: int) -> int:
        begun.append(number)
        return number

    found = reachability._parallel(read, range(1000), size_of=lambda _: size)
    assert next(found) == 0
    time.sleep(0.2)
    assert len(begun) <= most
    assert list(found) == list(range(1, 1000))
