"""The same on an S3 server with the pointer in a ConfigMap; and a store that asks for patience."""

import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError

import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tableformat.maintenance.errors import StorageUnavailable
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.orphans import OrphanOptions, remove_orphans
from tableformat.maintenance.storage.s3 import S3Store, s3_client
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


class Overloaded:
    """Stands before the S3 server and turns requests away with 503 until it has done so a number of times."""

    def __init__(self, endpoint: str, refusals: int) -> None:
        self.refused = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if outer.refused < refusals:
                    outer.refused += 1
                    self._answer(
                        503, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
                    )
                    return
                request = urllib.request.Request(endpoint + self.path, body or None, method=self.command)
                for name, value in self.headers.items():
                    request.add_header(name, value)
                try:
                    with urllib.request.urlopen(request) as answer:
                        self._answer(answer.status, answer.read())
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
