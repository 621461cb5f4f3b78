"""`get` by labels, of all namespaces, and by names alone: in a folder and in a cluster, as kubectl does it."""

from pathlib import Path

import pytest
import yaml

from tests.integration.cli.conftest import TABLES, run_here
from tests.servers.kubernetes import KubernetesAccess, kubectl

LABELS = {
    "gold": {"team": "sales", "tier": "gold"},
    "plain": {},
    "silver": {"team": "sales", "tier": "silver"},
    "work": {"team": "hr", "example.com/draft": ""},
}
SELECTORS = {
    "team=sales": ["gold", "silver"],
    "team==sales,tier!=gold": ["silver"],
    "tier in (gold, silver)": ["gold", "silver"],
    "tier notin (gold)": ["plain", "silver", "work"],
    "team": ["gold", "silver", "work"],
    "!team": ["plain"],
    "example.com/draft=": ["work"],
    " team = hr , tier notin ( gold , silver ) ": ["work"],
    "team=nobody": [],
}


def documents(namespace: str) -> str:
    found = []
    for name, labels in LABELS.items():
        document = yaml.safe_load(TABLES)
        document["metadata"] = {"name": name, "namespace": namespace, "labels": labels}
        found.append(yaml.safe_dump(document))
    return "---\n".join(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled")
    (path / "tables.yaml").write_text(documents("sales"))
    (path / "other.yaml").write_text(TABLES.replace("namespace: sales", "namespace: other"))
    return path


def names(*words: str | Path) -> list[str]:
    shown = run_here("get", "tables", *words, "-o", "name")
    assert shown.code == 0, shown.err
    assert all(line.startswith("managedtable.tablewright.dev/") for line in shown.out.splitlines())
    return [line.partition("/")[2] for line in shown.out.splitlines()]


@pytest.mark.parametrize(("selector", "expected"), SELECTORS.items())
def test_a_folders_objects_are_selected_by_their_labels(folder: Path, selector: str, expected: list[str]) -> None:
    assert names("-f", folder, "-n", "sales", "-l", selector) == expected


def test_a_cluster_selects_the_same_and_names_are_kubectls(crds: KubernetesAccess, kube_namespace: str) -> None:
    kubectl(crds, "apply", "--server-side", "-f", "-", stdin=documents(kube_namespace))
    where = ("--kubeconfig", crds.kubeconfig)
    for selector, expected in SELECTORS.items():
        assert names(*where, "-n", kube_namespace, "-l", selector) == expected, selector
    theirs = kubectl(crds, "-n", kube_namespace, "get", "managedtables", "-o", "name", "-l", "team=sales").split()
    ours = run_here("get", "tables", *where, "-n", kube_namespace, "-l", "team=sales", "-o", "name").out.split()
    assert ours == theirs
    assert {*LABELS} <= {*names(*where, "-A")}


def test_all_namespaces_are_the_default_and_can_be_asked_for(folder: Path) -> None:
    assert names("-f", folder, "-A") == names("-f", folder) == ["events", *LABELS]
    listed = run_here("get", "tables", "-f", folder, "-A").out.splitlines()
    assert listed[0].startswith("NAMESPACE ")
    for words in (("-A", "-n", "sales"), ("gold", "-l", "team")):
        refused = run_here("get", "tables", *words, "-f", folder)
        assert (refused.code, "not both" in refused.err) == (2, True), refused


@pytest.mark.parametrize(
    "selector", ["", ",", "team=a,", "team in gold", "team in (gold", "=a", "a=b=c", "te am", "a//b"]
)
def test_what_is_no_selector_is_refused(folder: Path, selector: str) -> None:
    refused = run_here("get", "tables", "-f", folder, "-l", selector)
    assert (refused.code, refused.out) == (2, ""), refused
    assert refused.err.startswith(f"error: --selector: {selector!r} is not a label selector"), refused.err
