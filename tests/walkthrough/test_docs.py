"""The commands that README and the quickstart show are run here, in order, in a folder that looks like a clone."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.cli.conftest import environment

ROOT = Path(__file__).parents[2]
# Two dozen commands, two of which start Spark: minutes on a machine that has other work.
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md"])
def test_the_commands_of_the_documentation_work(document: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks, f"{document} shows no commands"
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "demo"):
            (tmp_path / entry.name).symlink_to(entry)
    script = "set -euo pipefail\nset -x\n" + "\n".join(blocks)
    # As a person's shell: the path begins without our environment, and the document has to see to it.
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=850
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "rewrote" in done.stderr, "a table was compacted on the way"
