"""DuckDB as an independent reader of Iceberg tables, in an environment of its own beside the server binaries.

Its releases that have the Iceberg extension as a package are older than the DuckDB that anything else might want, so
it never comes into the project's own environment. It reads a table by its metadata file, in a process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers import toolchain
from tests.servers.cache import ensure_entry, say

VERSION = "1.5.5"
_PACKAGES = [f"{name}=={VERSION}" for name in ("duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg")]
_PACKAGES.append("pytz==2026.6")  # without it DuckDB gives no timestamps with a zone to Python

_READ = """
import importlib.util, json, pathlib, sys
import duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for extension in ("avro", "iceberg"):  # iceberg needs avro to be there
    package = pathlib.Path(importlib.util.find_spec(f"duckdb_extension_{extension}").origin).parent
    (library,) = package.glob(f"extensions/*/{extension}.duckdb_extension")
    connection.execute(f"LOAD '{library}'")
found = connection.execute("SELECT * FROM iceberg_scan(?) ORDER BY id", [sys.argv[1]])
names = [column[0] for column in found.description]
json.dump([dict(zip(names, row)) for row in found.fetchall()], sys.stdout, default=str)
"""


def _environment() -> Path:
    def make(folder: Path) -> None:
        say(f"installing DuckDB {VERSION} with its Iceberg extension")
        toolchain.run([sys.executable, "-m", "venv", str(folder)], what="an environment for DuckDB")
        python = str(folder / "bin" / "python")
        toolchain.run([python, "-m", "pip", "install", "--quiet", *_PACKAGES], what=f"DuckDB {VERSION}")

    return ensure_entry(f"duckdb-{VERSION}-zones-python{sys.version_info[0]}.{sys.version_info[1]}", make)


def read_with_duckdb(metadata_location: str) -> list[dict[str, Any]]:
    """The rows of the table, in the order of their column `id`, as JSON has them: decimals are texts."""
    python = str(_environment() / "bin" / "python")
    command = [python, "-I", "-B", "-c", _READ, metadata_location.removeprefix("file://")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    rows: list[dict[str, Any]] = json.loads(answer.stdout)
    return rows


def as_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as `read_with_duckdb` gives them."""
    same: list[dict[str, Any]] = json.loads(json.dumps(rows, default=str))
    return same
