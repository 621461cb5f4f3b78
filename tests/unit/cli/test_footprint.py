"""What a command does not load: whoever typed it waits for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.conftest import TABLES

PROGRAM = """
import sys
from tablewright.cli.main import main

try:
    main()
finally:
    print(*sys.modules)
"""


def loaded_by(*arguments: str | Path) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("command", [["--version"], ["apply", "--help"], ["run", "compact", "--help"]])
def test_help_waits_for_no_library_of_tables(command: list[str]) -> None:
    loaded = loaded_by(*command)
    assert "tablewright.cli.main" in loaded
    assert {"tablewright.api", "yaml", "pyiceberg", "pyarrow", "kubernetes"}.isdisjoint(loaded)


def test_objects_are_listed_without_what_maintains_their_tables(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    loaded = loaded_by("get", "tables", "-f", tmp_path)
    assert {"tableformat.commits", "tableformat.maintenance.job"}.isdisjoint(loaded)
