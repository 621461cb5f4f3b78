"""The same on an S3 server with the pointer in a ConfigMap; and a store that asks for patience."""

import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tableformat.catalogs import ConfigMapConfig, SqlConfig, open_catalog
from tableformat.maintenance.errors import DeletionIncomplete
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.orphans import OrphanAction, OrphanOptions, remove_orphans
from tableformat.storage.errors import StorageUnavailable
from tableformat.storage.s3 import S3Store, s3_client
from tests.integration.maintenance.tables import IDENTIFIER, append, create, head, later, reachable, read_all, rows, tag
from tests.servers.kubernetes import KubernetesAccess
from tests.servers.s3 import S3Access


@pytest.fixture
def catalog(kubernetes: KubernetesAccess, kube_namespace: str, s3: S3Access, s3_bucket: str) -> Iterator[Catalog]:
    opened = open_catalog(
        ConfigMapConfig(
            name="lake",
            warehouse=f"s3a://{s3_bucket}/warehouse",
            namespace=kube_namespace,
            kubeconfig=str(kubernetes.kubeconfig),
            properties=s3.file_io_properties(),
        )
    )
    yield opened
    opened.close()


def stored(s3: S3Access, bucket: str) -> set[str]:
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {f"/{item['Key']}" for page in pages for item in page.get("Contents", ())}


def test_expiry_and_orphan_removal_leave_exactly_what_is_reachable(
    catalog: Catalog, s3: S3Access, s3_bucket: str
) -> None:
    table = create(catalog)
    ids = append(table, 2)
    tag(table, "audit", ids[0])
    table.overwrite(rows())
    expected = {each: data for each, data in read_all(table).items() if each in (ids[0], head(table).snapshot_id)}
    prefix = table.location().removeprefix(f"s3a://{s3_bucket}/")
    for name in ("data/lost#1?.parquet", "data/p=a b/x=%2F/lost.parquet", "metadata/lost.avro"):
        s3.client().put_object(Bucket=s3_bucket, Key=f"{prefix}/{name}", Body=b"x")
    now = later(table, days=20)

    expired = expire_snapshots(catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=now)
    marked = remove_orphans(catalog, IDENTIFIER, OrphanOptions(), now=now)
    deleted = remove_orphans(catalog, IDENTIFIER, OrphanOptions(), now=now + timedelta(days=7))

    table = catalog.load_table(IDENTIFIER)
    assert (expired.snapshots_expired, marked.files_marked, deleted.files_deleted) == (2, 3, 3)
    assert read_all(table) == expected
    assert stored(s3, s3_bucket) == reachable(table)


def test_thousands_of_files_go_in_batches_and_are_listed_in_parallel(s3: S3Access, s3_bucket: str) -> None:
    client, store = s3.client(), S3Store(s3_client(s3.file_io_properties()))
    keys = [f"t/data/{number % 7}/{number}" for number in range(1205)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=s3_bucket, Key=key, Body=b""), keys))
    client.put_object(Bucket=s3_bucket, Key="t2/data/other", Body=b"")

    listed = [file.location for file in store.files(f"s3://{s3_bucket}/t")]
    outcome = store.delete(listed)

    assert sorted(listed) == sorted(f"s3://{s3_bucket}/{key}" for key in keys)
    assert (len(outcome.deleted), outcome.failed) == (1205, {})
    assert stored(s3, s3_bucket) == {"/t2/data/other"}


Answer = tuple[int, bytes]


class Doorkeeper:
    """Stands before the S3 server, and answers some requests itself."""

    def __init__(self, endpoint: str, answer: Callable[[str, str, bytes], Answer | None]) -> None:

        class Handler(BaseHTTPRequestHandler):
            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if (own := answer(self.command, self.path, body)) is not None:
                    self._answer(*own)
                    return
                request = urllib.request.Request(endpoint + self.path, body or None, method=self.command)
                for name, value in self.headers.items():
                    request.add_header(name, value)
                try:
                    with urllib.request.urlopen(request) as forwarded:
                        self._answer(forwarded.status, forwarded.read())
                except HTTPError as error:
                    self._answer(error.code, error.read())

            do_GET = do_POST = do_PUT = _forward  # noqa: N815

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "application/xml")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Overloaded(Doorkeeper):
    """Turns requests away with 503 until it has done so a number of times."""

    def __init__(self, endpoint: str, refusals: int) -> None:
        self.refused = 0
        super().__init__(endpoint, lambda *_: self._turned_away(refusals))

    def _turned_away(self, refusals: int) -> Answer | None:
        if self.refused >= refusals:
            return None
        self.refused += 1
        return 503, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"


@pytest.mark.parametrize(("refusals", "patient_enough"), [(6, True), (1000, False)])
def test_a_store_that_asks_to_slow_down_is_waited_for(
    s3: S3Access, s3_bucket: str, refusals: int, patient_enough: bool
) -> None:
    for number in range(5):
        s3.client().put_object(Bucket=s3_bucket, Key=f"t/{number}", Body=b"")
    overloaded = Overloaded(s3.endpoint, refusals)
    waits: list[float] = []
    store = S3Store(s3_client(s3.file_io_properties() | {"s3.endpoint": overloaded.endpoint}), sleep=waits.append)
    locations = [f"s3://{s3_bucket}/t/{number}" for number in range(5)]
    try:
        if patient_enough:
            assert len(list(store.files(f"s3://{s3_bucket}/t"))) == 5
            overloaded.refused = 0
            assert len(store.delete(locations).deleted) == 5
            assert waits[:6] == sorted(waits[:6])
            assert stored(s3, s3_bucket) == set()
        else:
            with pytest.raises(StorageUnavailable, match="slow down"):
                list(store.files(f"s3://{s3_bucket}/t"))
            outcome = store.delete(locations)
            assert (outcome.deleted, set(outcome.failed)) == ((), set(locations))
            assert len(stored(s3, s3_bucket)) == 5
    finally:
        overloaded.close()


def test_a_refused_request_is_no_reason_to_wait(s3: S3Access) -> None:
    wrong = S3Store(
        s3_client(s3.file_io_properties() | {"s3.secret-access-key": "wrong"}), sleep=lambda _: pytest.fail("waited")
    )

    with pytest.raises(StorageUnavailable, match="refused"):
        list(wrong.files("s3://some-bucket/t"))


@pytest.fixture
def on_s3(tmp_path: Path, s3: S3Access, s3_bucket: str) -> Iterator[Table]:
    """A table with two snapshots of one file each, and a lost file."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"s3://{s3_bucket}/warehouse"
    catalog = open_catalog(SqlConfig(name="lake", uri=uri, warehouse=warehouse, properties=s3.file_io_properties()))
    table = create(catalog)
    append(table)
    table.overwrite(rows())
    prefix = table.location().removeprefix(f"s3://{s3_bucket}/")
    s3.client().put_object(Bucket=s3_bucket, Key=f"{prefix}/data/lost.parquet", Body=b"x")
    yield table
    catalog.close()


def store_behind(door: Doorkeeper, s3: S3Access) -> S3Store:
    return S3Store(s3_client(s3.file_io_properties() | {"s3.endpoint": door.endpoint}), sleep=lambda _: None)


def test_a_listing_that_fails_half_way_deletes_nothing(on_s3: Table, s3: S3Access, s3_bucket: str) -> None:
    """The folder itself can be listed; one of those in it cannot."""
    before = stored(s3, s3_bucket)
    listed: list[str] = []

    def answer(command: str, path: str, _: bytes) -> Answer | None:
        if command == "GET" and "list-type=2" in path:
            listed.append(path)
            if "%2Fdata%2F&" in path or path.endswith("%2Fdata%2F"):
                return 403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
        return None

    door = Doorkeeper(s3.endpoint, answer)
    options = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=0, allow_short_min_age=True)
    now = later(on_s3, hours=1)
    try:
        with pytest.raises(StorageUnavailable, match="AccessDenied"):
            remove_orphans(on_s3.catalog, IDENTIFIER, options, now=now, store=store_behind(door, s3))
    finally:
        door.close()

    assert len(listed) > 1
    assert stored(s3, s3_bucket) == before
    assert remove_orphans(on_s3.catalog, IDENTIFIER, options, now=now).files_deleted == 1


def test_files_that_may_not_be_deleted_are_named_and_go_when_they_may(
    on_s3: Table, s3: S3Access, s3_bucket: str
) -> None:
    def answer(command: str, path: str, body: bytes) -> Answer | None:
        """Data is protected; the rest goes."""
        if command != "POST" or "delete" not in path:
            return None
        keys = re.findall("<Key>(.*?)</Key>", body.decode())
        protected = [key for key in keys if "/data/" in key]
        for key in set(keys) - set(protected):
            s3.client().delete_object(Bucket=s3_bucket, Key=key)
        errors = "".join(f"<Error><Key>{key}</Key><Code>AccessDenied</Code></Error>" for key in protected)
        return 200, f"<DeleteResult>{errors}</DeleteResult>".encode()

    now, last = later(on_s3, hours=1), ExpiryOptions(max_snapshot_age_ms=0)
    door = Doorkeeper(s3.endpoint, answer)
    try:
        with pytest.raises(DeletionIncomplete, match="AccessDenied") as caught:
            expire_snapshots(on_s3.catalog, IDENTIFIER, last, now=now, store=store_behind(door, s3))
    finally:
        door.close()

    left = {path for path in stored(s3, s3_bucket) if "_tablewright" not in path} - reachable(on_s3.refresh())
    failed = {location.removeprefix(f"s3://{s3_bucket}") for location in caught.value.failed}
    assert failed == {path for path in left if "lost" not in path} != set()
    assert expire_snapshots(on_s3.catalog, IDENTIFIER, last, now=now).runs_resumed == 1
    assert stored(s3, s3_bucket) - reachable(on_s3.refresh()) == {path for path in left if "lost" in path}
