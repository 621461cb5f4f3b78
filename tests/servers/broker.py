"""Starts each server once a test run, whichever worker of the run asks first, and stops them when the run ends.

The broker lives in the process that began the run. Workers of pytest-xdist ask it over a Unix socket and get the
server's access (a small picklable value) back. All servers are started from the broker's own thread, because they
end with the thread that started them.
"""

import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, Protocol

from tests.servers.databases import MariaDbServer, PostgresServer
from tests.servers.dynamodb import DynamoDbServer
from tests.servers.kubernetes import ControlPlane
from tests.servers.s3 import S3Server


class _Server(Protocol):
    access: Any

    def stop(self) -> None: ...


_KINDS: dict[str, Callable[[Path], _Server]] = {
    "dynamodb": DynamoDbServer,
    "kubernetes": ControlPlane,
    "mariadb": MariaDbServer,
    "postgresql": PostgresServer,
    "s3": S3Server,
}
_STOP = "stop"


class ServerBroker:
    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="tablewright-servers-")
        self.folder = Path(self._temporary.name)
        """Goes with the run."""
        self.address = str(self.folder / "broker.sock")
        self._listener = Listener(self.address, "AF_UNIX")
        self._servers: dict[str, _Server] = {}
        self._thread = threading.Thread(target=self._serve, name="server-broker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with Client(self.address, "AF_UNIX") as connection:
            connection.send(_STOP)
        self._thread.join()
        self._listener.close()
        self._temporary.cleanup()

    def _serve(self) -> None:
        while True:
            with self._listener.accept() as connection:
                kind = connection.recv()
                if kind == _STOP:
                    for server in reversed(self._servers.values()):
                        server.stop()
                    return
                connection.send(self._answer(kind))

    def _answer(self, kind: str) -> Any:
        try:
            if kind not in self._servers:
                self._servers[kind] = _KINDS[kind](self.folder / kind)
            return self._servers[kind].access
        except Exception as error:  # whatever it is, the asking test must fail with it, not hang
            return error


def ask(address: str, kind: str) -> Any:
    with Client(address, "AF_UNIX") as connection:
        connection.send(kind)
        answer = connection.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer
