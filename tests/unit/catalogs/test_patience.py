"""A server that takes connections and never answers is given up on, by every client that would wait for ever."""

import socket
import time
from collections.abc import Iterator

import pytest

from tableformat.catalogs import PyIcebergConfig, bounded_rest, open_catalog


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(10)
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("credential", [{}, {"credential": "a:b", "oauth2-server-uri": "http://SILENT"}])
def test_a_rest_server_that_says_nothing_is_given_up_on(
    silent: str, monkeypatch: pytest.MonkeyPatch, credential: dict[str, str]
) -> None:
    monkeypatch.setattr(bounded_rest, "ANSWER_SECONDS", 0.2)
    given = {key: value.replace("SILENT", silent) for key, value in credential.items()}
    began = time.monotonic()
    with pytest.raises(OSError, match="timed out"):
        open_catalog(PyIcebergConfig(name="r", properties={"type": "rest", "uri": f"http://{silent}", **given}))
    assert time.monotonic() - began < 10


def test_a_hive_server_that_says_nothing_is_given_up_on(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # By its name: Hive's client takes seconds to load, which every collection of the tests would pay.
    monkeypatch.setattr("tableformat.catalogs.bounded_hive.ANSWER_SECONDS", 0.2)
    catalog = open_catalog(PyIcebergConfig(name="h", properties={"type": "hive", "uri": f"thrift://{silent}"}))
    began = time.monotonic()
    with pytest.raises(Exception, match="timeout"):
        catalog.load_table(("db", "t"))
    assert time.monotonic() - began < 10
