"""What the documentation tells people to apply is what the API server takes and the command line reads."""

import re
from pathlib import Path

import pytest
import yaml

from tablewright.embedded.folder import read_folder
from tests.servers.kubernetes import KubernetesAccess, kubectl

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("operator")


@pytest.mark.parametrize("folder", ["cluster", "quickstart"])
def test_the_examples_are_taken_by_the_api_server(crds: KubernetesAccess, kube_namespace: str, folder: str) -> None:
    documents = [
        document
        for file in sorted((ROOT / "examples" / folder).glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
    ]
    for document in documents:
        document["metadata"]["namespace"] = kube_namespace
        kubectl(crds, "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(document))
    assert documents


def test_the_quickstart_is_read_by_the_command_line() -> None:
    assert len(read_folder(ROOT / "examples" / "quickstart").tables) == 2


def test_the_table_in_the_readme_is_taken_by_both(crds: KubernetesAccess, kube_namespace: str, tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "table.yaml").write_text(text)
    assert len(read_folder(tmp_path).tables) == 1
    document = yaml.safe_load(text)
    document["metadata"]["namespace"] = kube_namespace
    kubectl(crds, "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(document))
