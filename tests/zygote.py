"""Operators that start at once: a process that has imported everything and done nothing forks one for each test.

What a test gets is the real command in a process of its own, with its own signals, log and end. Importing is most of
an operator's start, and tests of its deaths start dozens.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.servers.process import die_with_parent


class ForkedProcess:
    """As much of `subprocess.Popen` as tests of operators use."""

    def __init__(self, zygote: "Zygote", pid: int, log: Path) -> None:
        self._zygote, self.pid, self.log = zygote, pid, log
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._zygote.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("tablewright operator", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Zygote:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.zygote"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )

    def start(self, arguments: Sequence[str], log: Path) -> ForkedProcess:
        pid = self.ask({"start": list(arguments), "log": str(log)})
        assert pid is not None
        return ForkedProcess(self, pid, log)

    def ask(self, request: dict[str, object]) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: int | None = json.loads(self._process.stdout.readline())
            return answer

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@cache
def shared_zygote() -> Zygote:
    """One for all tests of this process; it ends with it."""
    zygote = Zygote()
    atexit.register(zygote.stop)
    return zygote


def main() -> None:
    import pyiceberg.io.pyarrow

    import tableformat.catalogs.configmap
    import tablewright.cli.main
    import tablewright.runtime.operator

    assert pyiceberg.io.pyarrow
    assert tableformat.catalogs.configmap
    assert tablewright.runtime.operator
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            asked = request["poll"]
            pid, status = (0, 0) if asked in ended else os.waitpid(asked, os.WNOHANG)
            if pid:
                ended[pid] = os.waitstatus_to_exitcode(status)
            answer = ended.get(asked)
        else:
            answer = os.fork()
            if answer == 0:
                _become(request["start"], request["log"])
        print(json.dumps(answer), flush=True)


def _become(arguments: list[str], log: str) -> None:
    import tablewright.cli.main

    die_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    code = 1
    try:
        tablewright.cli.main.app(arguments, prog_name="tablewright", standalone_mode=False)
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
