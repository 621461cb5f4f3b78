"""A server process of a test run: started on free ports, known by its id, and gone when the run is gone.

The kernel ends the child when the run dies, however it dies (PR_SET_PDEATHSIG), so not even a killed run leaves a
server behind. Start servers from a thread that lives as long as the run: the signal follows the thread.
"""

import contextlib
import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Server = TypeVar("Server")

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ServerError(RuntimeError):
    """A server did not start or did not stay up; the message has the end of its log."""


def free_port(address: str = "127.0.0.1") -> int:
    [port] = free_ports(address)
    return port


def free_ports(*addresses: str) -> list[int]:
    """One of each address, all held until the last is found: one that was let go might be chosen again."""
    with contextlib.ExitStack() as probes:
        held = [probes.enter_context(socket.socket()) for _ in addresses]
        for probe, address in zip(held, addresses, strict=True):
            probe.bind((address, 0))
        return [probe.getsockname()[1] for probe in held]


class ServerProcess:
    def __init__(self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                start_new_session=True,  # Ctrl-C reaches the run, which stops its servers in order
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool], *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None:
                raise ServerError(
                    f"{self.name} ended with code {self._process.returncode} while starting: {self.tail()}"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise ServerError(f"{self.name} was not ready after {seconds:.0f} s: {self.tail()}")
            time.sleep(0.05)

    def tail(self, lines: int = 5) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return " | ".join(text.strip().splitlines()[-lines:]) or "(no output)"

    def stop(self, *, grace: float = 5) -> None:
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def accepts_connections(port: int, address: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def start_on_free_ports(start: Callable[[], Server], *, attempts: int = 3) -> Server:
    """Between choosing a free port and using it another program may take it: then choose again."""
    for attempt in range(attempts):
        try:
            return start()
        except ServerError as error:
            if "address already in use" not in str(error).lower() or attempt == attempts - 1:
                raise
    raise AssertionError("unreachable")


def die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
