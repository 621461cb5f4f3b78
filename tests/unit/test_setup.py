"""Set-up that cannot go on says so in one line, and what servers leave when a run dies: nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import toolchain
from tests.servers.cache import SetupError
from tests.servers.process import ServerError, ServerProcess, start_on_free_ports
from tests.waiting import eventually

ROOT = Path(__file__).parent.parent.parent


def run_setup(**environment: str) -> "subprocess.CompletedProcess[str]":
    keep = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.servers.binaries", "test"]
    return subprocess.run(command, cwd=ROOT, env={**keep, **environment}, capture_output=True, text=True)


def test_a_missing_tool_is_named_with_the_package_that_brings_it(tmp_path: Path) -> None:
    result = run_setup(PATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "error: Java 17 or later is needed: install it (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless)"
    )


def test_no_network_is_said_at_the_end(tmp_path: Path) -> None:
    offline = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOMODCACHE": str(tmp_path / "mod")}
    own = {"GOCACHE": str(tmp_path / "go"), "XDG_CONFIG_HOME": str(tmp_path / "config")}  # Go counts its uses there
    result = run_setup(XDG_CACHE_HOME=str(tmp_path / "cache"), **own, **offline)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1].startswith("error: could not make versitygw: ")
    assert "is the network there?" in result.stderr
    assert not list((tmp_path / "cache" / "tablewright").glob("versitygw*/versitygw"))


def test_a_long_step_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "at compiling one" in line:
            (tmp_path / "heard").touch()

    monkeypatch.setattr(toolchain, "say", tell)
    script = "echo compiling one; until [ -e heard ]; do sleep 0.01; done"
    toolchain.run(["sh", "-c", script], what="a server", cwd=tmp_path, seconds_between_signs=0.05)
    assert re.fullmatch(r"a server: going on after \d+ s, at compiling one", told[-1])


def test_a_step_that_fails_shows_the_end_of_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    script = "for number in range(100): print(f'line {number}')\nraise SystemExit(1)"
    with pytest.raises(SetupError, match="could not make a server: "):
        toolchain.run([sys.executable, "-c", script], what="a server")
    assert capsys.readouterr().err.splitlines() == [f"line {number}" for number in range(80, 100)]


def test_a_server_that_does_not_start_is_reported_with_its_own_words(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        script = f"import socket; socket.socket().bind(('127.0.0.1', {busy.getsockname()[1]}))"
        server = ServerProcess("test server", [sys.executable, "-c", script], log=tmp_path / "log")
        with pytest.raises(ServerError, match=r"test server ended with code 1 .*Address already in use"):
            server.wait_until(lambda: False)


def test_a_port_that_was_taken_meanwhile_is_chosen_again() -> None:
    attempts: list[int] = []

    def start() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ServerError("bind: Address already in use")
        return "started"

    assert start_on_free_ports(start) == "started"
    assert len(attempts) == 2


def test_a_run_that_is_killed_leaves_no_server_behind(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib; from tests.servers.process import ServerProcess\n"
        "server = ServerProcess('s', ['sleep', '300'], log=pathlib.Path(sys.argv[1]) / 'log')\n"
        "print(server.pid, flush=True); time.sleep(300)"
    )
    run = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    run.send_signal(signal.SIGKILL)
    run.communicate()
    eventually(lambda: _is_running(pid), lambda running: not running)


def _is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return False
