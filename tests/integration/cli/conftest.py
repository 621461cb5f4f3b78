"""The command line as a user runs it: as a process, in a pipe and in a terminal."""

import io
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tableformat.catalogs import open_catalog
from tablewright.cli.main import main
from tablewright.embedded import catalogs as embedded
from tablewright.embedded.apply import apply_folder
from tablewright.embedded.folder import read_folder
from tablewright.embedded.state import EmbeddedState
from tests.servers import toolchain

TABLES = """\
apiVersion: tablewright.dev/v1alpha1
kind: ManagedTable
metadata: {name: events, namespace: sales}
spec:
  catalogRef: {name: lake}
  schema:
    columns:
      - {name: id, type: long, required: true}
      - {name: name, type: string}
  layout: {targetFileSize: 16Mi}
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """The user's own, without what would change how things look; with the Java that the tests have."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYICEBERG_")}
    for name in ("NO_COLOR", "FORCE_COLOR", "KUBECONFIG"):
        plain.pop(name, None)
    java_home = str(Path(toolchain.java()).resolve().parent.parent)
    return {**plain, "TERM": "xterm", "COLUMNS": "120", "JAVA_HOME": java_home, **more}


def run_cli(*arguments: str | Path, **more: str) -> Ended:
    command = [sys.executable, "-m", "tablewright", *map(str, arguments)]
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=240)
    return Ended(done.returncode, done.stdout, done.stderr)


def run_here(*arguments: str | Path) -> Ended:
    """In this process, which has the libraries loaded: for claims that do not depend on how a process begins."""
    out, err = io.StringIO(), io.StringIO()
    typed = ["tablewright", *map(str, arguments)]
    with mock.patch.object(sys, "argv", typed), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def run_in_terminal(*arguments: str | Path, **more: str) -> Ended:
    """With a terminal as all three of its streams."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "tablewright", *map(str, arguments)]
    process = subprocess.Popen(command, env=environment(**more), stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    try:
        while chunk := os.read(leader, 65536):
            shown += chunk
    except OSError:  # Linux says so when the last writer has gone
        pass
    finally:
        os.close(leader)
    return Ended(process.wait(60), shown.decode().replace("\r\n", "\n"), "")


def embedded_catalog(folder: Path) -> Catalog:
    return open_catalog(embedded.embedded_catalog("sales", "lake", folder / ".tablewright").config({}))


def rows(first: int, count: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    numbers = range(first, first + count)
    return pa.Table.from_pydict({"id": list(numbers), "name": [f"n{n}" for n in numbers]}, schema=schema)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one declared table, applied, and three commits in it. Read only: tests share it."""
    path = tmp_path_factory.mktemp("folder")
    (path / "events.yaml").write_text(TABLES)
    apply_here(path)
    table = embedded_catalog(path).load_table(("sales", "events"))
    for first in (0, 10, 20):
        table.append(rows(first, 10))
    apply_here(path)
    return path


def apply_here(path: Path) -> None:
    """As the command does, in this process: for tests that are about what comes after it."""
    list(apply_folder(read_folder(path), EmbeddedState(path / ".tablewright")))
