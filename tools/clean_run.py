"""Runs a command and fails if it leaves anything behind: a process, or a file outside the cache and the environment.

Usage: python tools/clean_run.py COMMAND...

The command gets a temporary folder of its own (TMPDIR) and a mark in its environment, which all its descendants
inherit; what still carries the mark afterwards was left behind. Leftovers are named, removed, and make the run fail.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

MARK = "TABLEWRIGHT_CLEAN_RUN"
# Java programs ignore TMPDIR. What other programs of the machine put into the shared folder meanwhile is not ours, and
# neither is what another run puts there: our own Python does as TMPDIR says.
STRAYS = ("tmp", "spark", "hsperfdata", "blockmgr", "lib", "jetty", "sqlite", "snappy")
SETTLE_SECONDS = 10  # a process that is on its way out may take this long; what others make for a moment goes, too


def main(command: list[str]) -> int:
    mark = uuid.uuid4().hex
    system_temp = Path(tempfile.gettempdir())
    scratch = Path(tempfile.mkdtemp(prefix="tablewright-run-"))
    # Outside CI other programs use these folders, and people edit the checkout, while a run goes on.
    before = _elsewhere(system_temp, scratch) if os.environ.get("CI") else None
    # What a shell starts in the background ignores Ctrl-C, and so would every process of the run: tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, env={**os.environ, MARK: mark, "TMPDIR": str(scratch)})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: process.send_signal(received))
    code = process.wait()

    deadline = time.monotonic() + SETTLE_SECONDS
    while (problems := _left_behind(mark, scratch, system_temp, before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid, _ in _marked(mark):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(scratch, ignore_errors=True)
    for problem in problems:
        print(f"left behind: {problem}", file=sys.stderr)
    return code or (1 if problems else 0)


def _left_behind(mark: str, scratch: Path, system_temp: Path, before: set[str] | None) -> list[str]:
    problems = [f"process {pid}: {line}" for pid, line in _marked(mark)]
    problems += [f"file {scratch / name}" for name in sorted(_names(scratch)) if not name.startswith("pytest-of-")]
    return problems + ([] if before is None else sorted(_elsewhere(system_temp, scratch) - before))


def _marked(mark: str) -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append((int(folder.name), line[:160]))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found


def _names(folder: Path) -> set[str]:
    """The user's own."""
    names = set()
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):  # removed meanwhile: others use these folders, too
            if entry.lstat().st_uid == os.geteuid():
                names.add(entry.name)
    return names


def _elsewhere(system_temp: Path, scratch: Path) -> set[str]:
    """What Java leaves; what programs keep at home unasked, each in a folder of its own; what a made-up path led to,
    run by root; and the checkout."""
    strays = {name for name in _names(system_temp) - {scratch.name} if name.startswith(STRAYS)}
    found = {f"file {system_temp / name}" for name in strays}
    for folder in (Path("/"), Path.home(), Path.home() / ".config", Path.home() / ".kube"):
        if folder.is_dir():
            found |= {f"file {folder / name}" for name in _names(folder)}
    command = ["git", "status", "--porcelain", "--ignored"]
    state = subprocess.run(command, capture_output=True, text=True).stdout
    return found | {f"change in the checkout: {line}" for line in state.splitlines()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
