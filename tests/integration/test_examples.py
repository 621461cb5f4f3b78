"""What the documentation tells people to apply is what the API server takes and the command line reads."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tablewright.embedded.folder import read_folder
from tests.definitions import KINDS, schema
from tests.servers.kubernetes import KubernetesAccess, kubectl

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("operator")


def documents(*folders: str) -> list[dict[str, Any]]:
    return [
        document
        for folder in folders
        for file in sorted((ROOT / "examples" / folder).glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
    ]


def named(document: dict[str, Any]) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


@pytest.mark.parametrize("document", documents("api", "cluster", "quickstart"), ids=named)
def test_an_example_comes_back_as_it_was_applied_and_applying_it_again_changes_nothing(
    crds: KubernetesAccess, kube_namespace: str, document: dict[str, Any]
) -> None:
    """As Argo CD, Flux and `kubectl diff` look at it: no difference that nobody made.

    The status that a new object begins with is a default, which the server stores at the next write of any kind. An
    operator's first pass is one; here, where none runs, it is the second apply.
    """
    mine = {**document, "metadata": {**document["metadata"], "namespace": kube_namespace}}
    first, stored, again = apply(crds, mine), apply(crds, mine), apply(crds, mine)
    [kind] = [kind for kind in KINDS if kind.kind_name == document["kind"]]
    assert surplus(mine["spec"], first["spec"]) <= defaulted(schema(kind)["properties"]["spec"])
    assert stored["spec"] == first["spec"]
    assert stored["status"] == first["status"] == {"observedGeneration": -1}
    assert stored["metadata"]["generation"] == first["metadata"]["generation"]
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert kubectl(crds, "diff", "--server-side", "-f", "-", stdin=json.dumps(mine)) == ""


def apply(access: KubernetesAccess, document: dict[str, Any]) -> dict[str, Any]:
    text = kubectl(access, "apply", "--server-side", "-o", "json", "-f", "-", stdin=json.dumps(document))
    applied: dict[str, Any] = json.loads(text)
    return applied


def surplus(applied: Any, live: Any, path: str = "spec") -> set[str]:
    """The fields that came on top of what was applied; everything that was applied must be there as it was."""
    if not isinstance(applied, dict):
        assert applied == live, path
        return set()
    assert applied.keys() <= live.keys(), path
    found = {f"{path}.{name}" for name in live.keys() - applied.keys()}
    return found.union(*(surplus(applied[name], live[name], f"{path}.{name}") for name in applied))


def defaulted(node: dict[str, Any], path: str = "spec") -> set[str]:
    """The fields to which the CRD gives a default."""
    found = {path} if "default" in node else set()
    return found.union(*(defaulted(child, f"{path}.{name}") for name, child in node.get("properties", {}).items()))


def test_the_quickstart_is_read_by_the_command_line() -> None:
    assert len(read_folder(ROOT / "examples" / "quickstart").tables) == 2


def test_the_table_in_the_readme_is_taken_by_both(crds: KubernetesAccess, kube_namespace: str, tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "table.yaml").write_text(text)
    assert len(read_folder(tmp_path).tables) == 1
    document = yaml.safe_load(text)
    document["metadata"]["namespace"] = kube_namespace
    kubectl(crds, "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(document))
