"""S3: listing by prefix in parallel, deletion a thousand objects a request, and less haste when the store asks for it.

A 503 (`SlowDown`) halves the number of requests that are under way and waits, longer each time; it never stops the work
before the retries are used up. What then is left is reported by name.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree as ET

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.utils.properties import property_as_bool

from tableformat.backoff import Backoff, RetryPolicy
from tableformat.locations import Place
from tableformat.storage.errors import StorageUnavailable
from tableformat.storage.store import Deleted, StoredFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2RequestTypeDef

logger = logging.getLogger(__name__)

_PARALLEL = 8
_BATCH = 1000  # the most that one request may name
_SPLIT_LEVELS = 2  # how deep prefixes are listed by folder, to have something to do in parallel
_PAGES_AHEAD = 16  # of a thousand objects each
_ROOM_SECONDS = 0.2
_SLOW_DOWN = {"SlowDown", "503", "ServiceUnavailable", "RequestTimeout", "InternalError", "500", "Throttling"}
_RETRIES = RetryPolicy(retries=10, min_wait_ms=200, max_wait_ms=20_000, total_ms=600_000)

T = TypeVar("T")


def s3_client(properties: Mapping[str, str]) -> "S3Client":
    """A client by the same properties that PyIceberg's file I/O has; without keys, by the environment's."""

    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if properties.get(name)), None)

    virtual = property_as_bool(dict(properties), "s3.force-virtual-addressing", False)
    endpoint = first("s3.endpoint")
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=first("s3.region", "client.region"),
        aws_access_key_id=first("s3.access-key-id", "client.access-key-id"),
        aws_secret_access_key=first("s3.secret-access-key", "client.secret-access-key"),
        aws_session_token=first("s3.session-token", "client.session-token"),
        config=Config(
            s3={"addressing_style": "virtual" if virtual else "path" if endpoint else "auto"},
            retries={"total_max_attempts": 1},  # the waiting is ours: it must slow down all requests, not one
            max_pool_connections=_PARALLEL * 2,
        ),
    )


def _take_contents(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Read the objects of a page before botocore does, which takes twenty times as long for each."""
    if response_dict["status_code"] != HTTPStatus.OK:
        return
    root = ET.fromstring(response_dict["body"])  # noqa: S314 - by the parser that botocore has as well
    namespace = root.tag.removesuffix("ListBucketResult")
    contents = root.findall(f"{namespace}Contents")
    customized_response_dict["Contents"] = [
        {
            "Key": item.findtext(f"{namespace}Key"),
            "Size": int(item.findtext(f"{namespace}Size", "")),
            "LastModified": datetime.fromisoformat(item.findtext(f"{namespace}LastModified", "")),
        }
        for item in contents
    ]
    for item in contents:
        root.remove(item)
    response_dict["body"] = ET.tostring(root)


class S3Store:
    def __init__(self, client: "S3Client", *, sleep: Callable[[float], None] = time.sleep) -> None:
        client.meta.events.register("before-parse.s3.ListObjectsV2", _take_contents, unique_id="tablewright-contents")
        self._client = client
        self._pace = _Pace(sleep)

    def files(self, folder: str) -> Iterator[StoredFile]:
        place = Place.of(folder)
        prefix = place.key.rstrip("/") + "/"
        root = f"{place.scheme}://{place.authority}/"
        for page in _Listing(partial(self._pages, root, place.authority)).run("" if prefix == "/" else prefix):
            yield from page

    def _pages(self, root: str, bucket: str, prefix: str, level: int) -> Iterator[tuple[list[StoredFile], list[str]]]:
        """What is below a prefix, page by page, and the prefixes that are to be listed by themselves."""
        request: ListObjectsV2RequestTypeDef = {"Bucket": bucket, "Prefix": prefix}
        if level < _SPLIT_LEVELS:
            request["Delimiter"] = "/"
        while True:
            page = self._pace.call(partial(self._client.list_objects_v2, **request))
            found = [
                StoredFile(root + item["Key"], item["Size"], int(item["LastModified"].timestamp() * 1000))
                for item in page.get("Contents", ())
                if not item["Key"].endswith("/")  # a folder's own marker, which is no file
            ]
            yield found, [below["Prefix"] for below in page.get("CommonPrefixes", ())]
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, locations: Collection[str]) -> Deleted:
        buckets: dict[str, dict[str, str]] = {}
        for location in locations:
            place = Place.of(location)
            buckets.setdefault(place.authority, {})[place.key] = location
        batches = [
            (bucket, dict(list(names.items())[start : start + _BATCH]))
            for bucket, names in buckets.items()
            for start in range(0, len(names), _BATCH)
        ]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return Deleted.merged(pool.map(lambda batch: self._delete(*batch), batches))

    def _delete(self, bucket: str, names: dict[str, str]) -> Deleted:
        deleted: list[str] = []
        failed: dict[str, str] = {}
        retries = Backoff(_RETRIES, sleep=self._pace.sleep)
        while names:
            keys = list(names)
            try:
                answer = self._pace.call(
                    partial(
                        self._client.delete_objects,
                        Bucket=bucket,
                        Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True},
                    )
                )
            except StorageUnavailable as error:
                return Deleted(tuple(deleted), failed=failed | {names[key]: str(error) for key in keys})
            problems = {problem["Key"]: problem for problem in answer.get("Errors", ())}
            deleted += [names[key] for key in keys if key not in problems]
            again = {key for key, problem in problems.items() if problem.get("Code") in _SLOW_DOWN}
            if again and not retries.wait():
                again = set()
            failed |= {
                names[key]: f"{problem.get('Code')}: {problem.get('Message')}"
                for key, problem in problems.items()
                if key not in again
            }
            names = {key: names[key] for key in again}
        return Deleted(tuple(deleted), failed=failed)


class _Listing:
    """Lists prefixes in parallel. Whoever lists waits while enough pages wait to be taken: there may be any number."""

    def __init__(self, pages: Callable[[str, int], Iterator[tuple[list[StoredFile], list[str]]]]) -> None:
        self._pages = pages
        self._pool = ThreadPoolExecutor(_PARALLEL)
        self._found: queue.Queue[list[StoredFile] | Exception | None] = queue.Queue(_PAGES_AHEAD)
        self._lock = threading.Lock()
        self._unlisted = 0
        self._stopped = threading.Event()

    def run(self, prefix: str) -> Iterator[list[StoredFile]]:
        self._list_later(prefix, 0)
        try:
            while (found := self._found.get()) is not None:
                if isinstance(found, Exception):
                    raise found
                yield found
        finally:
            self._stopped.set()
            self._pool.shutdown(cancel_futures=True)

    def _list_later(self, prefix: str, level: int) -> None:
        with self._lock:
            self._unlisted += 1
        self._pool.submit(self._list, prefix, level)

    def _list(self, prefix: str, level: int) -> None:
        try:
            for found, deeper in self._pages(prefix, level):
                for below in deeper:
                    self._list_later(below, level + 1)
                self._put(found)
                if self._stopped.is_set():
                    return
        except Exception as error:  # raised again by whoever takes the pages
            self._put(error)
            return
        with self._lock:
            self._unlisted -= 1
            is_last = not self._unlisted
        if is_last:
            self._put(None)

    def _put(self, found: list[StoredFile] | Exception | None) -> None:
        """Waits for room, unless nobody takes anything any more."""
        while not self._stopped.is_set():
            try:
                self._found.put(found, timeout=_ROOM_SECONDS)
            except queue.Full:
                continue
            return


class _Pace:
    """How many requests may be under way: fewer after each complaint, slowly more again after successes."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep = sleep
        self._limit = float(_PARALLEL)
        self._running = 0
        self._changed = threading.Condition()

    def call(self, request: Callable[[], T]) -> T:
        backoff = Backoff(_RETRIES, sleep=self.sleep, jitter=random.uniform)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._running < max(1, int(self._limit)))
                self._running += 1
            try:
                answer = request()
            except (ClientError, BotoCoreError) as error:
                if not _asks_to_slow_down(error):
                    raise StorageUnavailable(f"S3 refused a request: {error}") from error
                with self._changed:
                    self._limit = max(1.0, self._limit / 2)
                logger.info("S3 asks to slow down; requests at a time: %d", int(self._limit))
                refused = error
            else:
                with self._changed:
                    self._limit = min(float(_PARALLEL), self._limit + 0.1)
                return answer
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()
            if not backoff.wait():
                raise StorageUnavailable(
                    f"S3 asked to slow down {backoff.attempts} times in a row; run again later ({refused})"
                ) from refused


def _asks_to_slow_down(error: ClientError | BotoCoreError) -> bool:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return error.response.get("Error", {}).get("Code") in _SLOW_DOWN or status >= 500
    return True  # no answer at all: a connection that could not be made, or was lost
