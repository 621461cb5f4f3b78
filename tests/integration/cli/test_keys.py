"""Whose keys go where: what is configured of one catalog must not be sent to the address of another."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.cli.conftest import TABLES, run_cli

CONFIGURED = """\
catalog:
  lake:
    uri: https://lake.example
    token: the-lakes-token
    credential: the:lakes-credential
    header.X-Key: the-lakes-header
"""
DECLARED = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {{name: lake, namespace: sales}}
spec: {{rest: {{uri: "{uri}"}}}}
---
"""


class Listener(ThreadingHTTPServer):
    """A REST catalog that has no tables, and remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.heard: list[str] = []

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert isinstance(self.server, Listener)
        self.server.heard.append(f"{self.path}\n{self.headers}\n{body.decode()}")
        missing = {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}
        found = {"/v1/config": {"defaults": {}, "overrides": {}}, "/v1/namespaces": {"namespaces": []}}.get(self.path)
        answer = json.dumps(found or missing).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_POST = do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Nothing: it would be on the terminal of whoever runs the tests."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a catalog `lake` in PyIceberg's own configuration."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".pyiceberg.yaml").write_text(CONFIGURED)
    return tmp_path / "home"


def test_an_address_is_sent_no_key_of_a_configured_catalog(home: Path, listener: Listener) -> None:
    keys = {"PYICEBERG_CATALOG__LAKE__TOKEN": "the-lakes-other-token", "PYICEBERG_HOME": str(home)}
    ended = run_cli("history", "sales.events", "--catalog-uri", listener.uri, **keys)
    assert ended.code == 2
    assert "there is no table sales.events" in ended.err
    assert listener.heard
    assert "the-lakes" not in "".join(listener.heard)


def test_a_declared_catalog_is_sent_no_key_of_one_that_is_configured_under_its_name(
    tmp_path: Path, home: Path, listener: Listener
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "events.yaml").write_text(DECLARED.format(uri=listener.uri) + TABLES)
    ended = run_cli("plan", "-f", folder, PYICEBERG_HOME=str(home))
    assert "+ create table sales.events" in ended.out
    assert listener.heard
    assert "the-lakes" not in "".join(listener.heard)

    ended = run_cli("plan", "-f", folder, PYICEBERG_HOME=str(home), PYICEBERG_CATALOG__LAKE__TOKEN="given-for-it")
    assert "+ create table sales.events" in ended.out
    assert "Bearer given-for-it" in listener.heard[-1], "the environment names the catalog on purpose"


def test_an_address_that_is_given_for_a_named_catalog_is_sent_its_keys(home: Path, listener: Listener) -> None:
    address = ("--catalog", "lake", "--catalog-uri", listener.uri)
    run_cli("history", "sales.events", *address, PYICEBERG_HOME=str(home))
    assert "the-lakes-header" in listener.heard[-1]
