"""A proxy between a client and a real HTTP server that lets a test break chosen requests in chosen ways.

It stands on sockets of its own: the client sees real cuts, delays and answers, and the server sees exactly what was
let through. A request that the proxy delays goes through in the end, even if the client has given up on it. Watches
(`watch=true`) are relayed as they come, or late, and can be cut.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}


class Break(Enum):
    CUT_BEFORE = "the connection is cut before the server sees the request"
    CUT_DURING = "the connection is cut when the server has half of the request"
    CUT_AFTER = "the server answers, and the connection is cut before the client hears of it"
    CUT_ANSWER = "the connection is cut in the middle of the answer"
    DELAY = "the request reaches the server late"


@dataclass(frozen=True)
class Answer:
    """Instead of the server's answer; `applied` says whether the server sees the request all the same."""

    status: int
    applied: bool = False
    content: bytes = b"{}"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Fault:
    matches: Callable[[Request], bool]
    action: Break | Answer
    times: int | None = 1  # None: every time
    seconds: float = 0.0  # of a delay
    struck: int = 0

    def strikes(self, request: Request) -> bool:
        if (self.times is not None and self.struck >= self.times) or not self.matches(request):
            return False
        self.struck += 1
        return True


@dataclass
class FaultProxy:
    """`with FaultProxy(server) as proxy:` and then `proxy.url` instead of the server's address."""

    upstream: str
    certificate: Path | None = None
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)  # what reached the proxy, for a test's own failure message
    watch_delay: float = 0.0  # seconds by which watches lag behind
    applied: Callable[[Request], None] = lambda _: None  # told of each write that the server took, before the client is

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.streams: set[socket.socket] = set()
        self.closing = False
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "FaultProxy":
        self._thread.start()
        return self

    def cut_watches(self) -> int:
        """Cuts every watch that is open now; returns how many."""
        with self._lock:
            streams = list(self.streams)
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        return len(streams)

    def __exit__(self, *_: object) -> None:
        self.closing = True
        self._server.shutdown()
        self.cut_watches()
        self._server.hang_up_idle_clients()
        self._server.server_close()  # waits for the requests under way, the delayed ones too
        self._thread.join()

    def fault_for(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            return next((fault for fault in self.faults if fault.strikes(request)), None)

    def connect(self) -> http.client.HTTPConnection:
        address = urlsplit(self.upstream)
        host, port = str(address.hostname), int(address.port or 0)
        if address.scheme == "https":
            context = ssl.create_default_context(cafile=str(self.certificate))
            return http.client.HTTPSConnection(host, port, context=context, timeout=30)
        return http.client.HTTPConnection(host, port, timeout=30)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.idle: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def hang_up_idle_clients(self) -> None:
        for connection in list(self.idle):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what this proxy is about, not a failure of it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5.0  # of an idle connection, so that the proxy can end in any case
    server: _Server

    def handle_one_request(self) -> None:
        self.server.idle.add(self.connection)  # and then a look: whoever closes sees one of the two
        try:
            self.raw_requestline = b"" if self.server.proxy.closing else self.rfile.readline(65537)
        finally:
            self.server.idle.discard(self.connection)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self._read_body()
        request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        fault = self.server.proxy.fault_for(request)
        if fault is None:
            self._relay(request)
        elif isinstance(fault.action, Answer):
            if fault.action.applied:
                self._forward(request)
            self._send(fault.action.status, {"Content-Type": "application/json"}, fault.action.content)
        else:
            self._break(fault.action, request, fault.seconds)

    def _read_body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return body

    def _break(self, action: Break, request: Request, seconds: float) -> None:
        match action:
            case Break.CUT_BEFORE:
                self._cut()
            case Break.CUT_DURING:
                self._send_half(request)
                self._cut()
            case Break.CUT_AFTER:
                self._forward(request)
                self._cut()
            case Break.CUT_ANSWER:
                status, headers, content = self._forward(request)
                self._send(status, headers, content, only=len(content) // 2)
                self._cut()
            case Break.DELAY:
                time.sleep(seconds)
                self._relay(request)

    def _relay(self, request: Request) -> None:
        if "watch=true" in request.path:
            self._stream(request)
        else:
            self._send(*self._forward(request))

    def _stream(self, request: Request) -> None:
        connection = self.server.proxy.connect()
        connection.connect()
        upstream = connection.sock
        upstream.settimeout(None)
        self.server.proxy.streams.add(upstream)
        self.close_connection = True
        try:
            if self.server.proxy.closing:
                return
            connection.request(request.method, request.path, request.body, _forwarded(request))
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(65536):
                time.sleep(self.server.proxy.watch_delay)
                self.wfile.write(piece)
                self.wfile.flush()
        except (OSError, http.client.HTTPException):
            pass  # cut from either side
        finally:
            self.server.proxy.streams.discard(upstream)
            connection.close()
            self._cut()

    def _forward(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        connection = self.server.proxy.connect()
        try:
            connection.request(request.method, request.path, request.body, _forwarded(request))
            answer = connection.getresponse()
            content = answer.read()
            is_question = request.method == "GET" or "/selfsubject" in request.path  # of one's own rights: by POST
            if not is_question and answer.status < 300:
                self.server.proxy.applied(request)
            return answer.status, dict(answer.getheaders()), content
        finally:
            connection.close()

    def _send_half(self, request: Request) -> None:
        connection = self.server.proxy.connect()
        try:
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in _forwarded(request).items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(max(len(request.body), 1)))
            connection.endheaders()
            connection.send(request.body[: len(request.body) // 2])
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], content: bytes, only: int | None = None) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length", str(len(content))) if self.command == "HEAD" else str(len(content))
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content if only is None else content[:only])
        self.wfile.flush()

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client was faster
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests read `requests` instead."""


def _forwarded(request: Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
