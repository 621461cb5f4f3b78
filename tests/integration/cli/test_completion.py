"""Tab in bash, zsh and fish: names of tables, runs, catalogs and namespaces, and nothing where there are none."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, environment, rows, run_here
from tests.servers.kubernetes import KubernetesAccess, kubectl

PROGRAM = str(Path(sys.executable).parent / "tablewright")


def complete(*words: str | Path, home: Path, shell: str = "bash", given: dict[str, str] | None = None) -> list[str]:
    """What the shell gets for the last word; it must say nothing else."""
    typed = " ".join(map(str, ("tablewright", *words)))
    asked = {
        "bash": {"COMP_WORDS": typed, "COMP_CWORD": str(len(words))},
        "zsh": {"_TYPER_COMPLETE_ARGS": typed},
        "fish": {"_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    variables = {"_TABLEWRIGHT_COMPLETE": f"complete_{shell}", "XDG_CACHE_HOME": str(home), **asked}
    variables |= {"TABLEWRIGHT_COMPLETION_SECONDS": "60", **(given or {})}  # this machine may be slow
    done = subprocess.run(
        [PROGRAM], env=environment(**variables), cwd=home, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    text = done.stdout.strip().removeprefix("_arguments '*: :((").removesuffix("))'")
    return [word.strip('"') for word in text.split()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "events.yaml").write_text(TABLES)
    (path / "orders.yaml").write_text(TABLES.replace("name: events, namespace: sales", "name: orders, namespace: hr"))
    return path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_declared_tables_are_offered_in_every_shell(folder: Path, shell: str, tmp_path: Path) -> None:
    assert complete("inspect", "-f", folder, "e", home=tmp_path, shell=shell) == ["events"]


def test_objects_and_namespaces_of_a_folder_are_offered_even_if_parts_of_it_cannot_be_read(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "broken.yaml").write_text("a: [")
    (folder / "wrong.yaml").write_text(TABLES.replace("name: events", "name: other").replace("spec:", "spice:"))
    assert complete("get", "tables", "-f", folder, "o", home=tmp_path) == ["orders", "other"]
    assert complete("get", "tables", "-f", folder, "-n", "h", home=tmp_path) == ["hr"]
    assert complete("describe", "table", "-f", folder, "-n", "hr", "o", home=tmp_path) == ["orders"]


def test_what_the_shell_would_expand_is_expanded(folder: Path, tmp_path: Path) -> None:
    for written in ("~/folder", "$PLACE/folder"):
        found = complete(
            "inspect", "-f", written, "e", home=tmp_path, given={"HOME": str(tmp_path), "PLACE": str(tmp_path)}
        )
        assert found == ["events"], written


def test_tables_runs_and_namespaces_of_a_catalog_are_offered_and_remembered(folder: Path, tmp_path: Path) -> None:
    apply_here(folder)
    table = embedded_catalog(folder).load_table(("sales", "events"))
    for first in (0, 10):
        table.append(rows(first, 10))
    done = run_here("run", "rewrite-manifests", "events", "-f", folder)
    name = done.out.splitlines()[-1].removeprefix("run ")
    uri = ("--catalog-uri", f"sqlite:///{folder}/.tablewright/catalog.db")
    pond = {"PYICEBERG_CATALOG__POND__URI": uri[1]}
    assert complete("inspect", "--catalog", "p", home=tmp_path, given=pond) == ["pond"]
    assert complete("list", *uri, "s", home=tmp_path) == ["sales"]
    assert complete("inspect", *uri, "s", home=tmp_path) == ["sales.events"]
    assert complete("rollback", "sales.events", *uri, "--before-run", "e", home=tmp_path) == [name]
    assert complete("rollback", "sales.events", *uri, "--to-tag", "m", home=tmp_path) == ["main"]
    assert complete("describe", "run", "-f", folder, "e", home=tmp_path) == [name]

    (folder / ".tablewright" / "catalog.db").rename(folder / "away.db")
    assert complete("inspect", *uri, "s", home=tmp_path) == ["sales.events"], "as a moment ago"
    for file in (tmp_path / "tablewright" / "completion").iterdir():
        os.utime(file, (0, 0))
    assert complete("inspect", *uri, "s", home=tmp_path) == []


def test_what_cannot_be_found_is_not_offered_and_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / ".pyiceberg.yaml").write_text("catalog: [")
    for words in (
        ("inspect", "-f", "/nowhere", ""),
        ("inspect", "-f", "empty", "e"),
        ("inspect", "--catalog-uri", "sqlite:////nowhere.db", "s"),
        ("inspect", "--catalog", "x"),
        ("get", "nonsense", "-f", "empty", "e"),
        ("get", "tables", "--kubeconfig", "/nowhere", "e"),
        ("rollback", "nothing", "--before-run", "e"),
    ):
        assert complete(*words, home=tmp_path) == [], words


def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began, given = time.monotonic(), {"TABLEWRIGHT_COMPLETION_SECONDS": "1"}
        assert complete("inspect", "--catalog-uri", address, "s", home=tmp_path, given=given) == []
    assert time.monotonic() - began < 50, "of which most is this machine's, while others use it"


def test_objects_of_a_cluster_are_offered(crds: KubernetesAccess, kube_namespace: str, tmp_path: Path) -> None:
    document = yaml.safe_load(TABLES)
    document["metadata"]["namespace"] = kube_namespace
    kubectl(crds, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))
    where = ("--kubeconfig", crds.kubeconfig)
    assert complete("get", "tables", *where, "-n", kube_namespace, "ev", home=tmp_path) == ["events"]
    assert complete("get", "tables", *where, "-n", kube_namespace[:-1], home=tmp_path) == [kube_namespace]
