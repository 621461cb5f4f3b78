"""docs/operator.md names every flag, metric and right that there is; the code asks for the rights that are given."""

from pathlib import Path
from typing import Any

import typer.main
import yaml

from tablewright.cli.main import app
from tablewright.runtime.grants import POINTERS, RUNS
from tablewright.runtime.metrics import Metrics
from tablewright.runtime.store import ObjectStore

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "operator.md").read_text()


def documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "examples" / "install" / file).read_text()))


def rules(file: str) -> list[dict[str, Any]]:
    return [rule for document in documents(file) for rule in document.get("rules") or []]


def test_every_flag_is_described() -> None:
    [command] = [found for found in typer.main.get_command(app).commands.values() if found.name == "operator"]  # type: ignore[attr-defined]
    flags = [(option.secondary_opts or option.opts)[0] for option in command.params if option.name != "help"]
    assert len(flags) > 10
    assert [flag for flag in flags if f"`{flag}`" not in DOCS] == []


def test_every_metric_is_described() -> None:
    metrics = Metrics()
    metrics.watch_queue(lambda: 0, lambda: 0.0)
    metrics.watch_tables(ObjectStore(), lambda: True, most_tables=1)
    lines = metrics.text().decode().splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE tablewright_")]
    names = [name for name in names if not name.endswith("_created")]
    assert len(names) > 15
    assert [n for n in names if f"`{n}`" not in DOCS and f"`{n.removeprefix('tablewright_table')}`" not in DOCS] == []


def verbs(found: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(g, r, v) for rule in found for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def test_every_right_is_described_and_a_single_namespace_takes_no_more_than_a_cluster() -> None:
    cluster, namespaced = verbs(rules("operator.yaml")), verbs(rules("namespaced.yaml"))
    assert namespaced <= cluster
    assert [resource for _, resource, _ in cluster if f"`{resource}`" not in DOCS] == []


def test_the_operator_asks_for_what_the_role_of_a_namespace_has() -> None:
    """But for the deletion of pointers and the jobs' account, which it does without where they are withheld."""
    [tables] = [
        each["rules"] for each in documents("operator.yaml") if each["metadata"]["name"] == "tablewright-tables"
    ]
    withheld = {("", "configmaps", "delete"), ("", "serviceaccounts", "get"), ("", "serviceaccounts", "create")}
    rbac = {each for each in verbs(tables) if each[0] == "rbac.authorization.k8s.io"}
    asked = {(right.group, right.resource, right.verb) for right in RUNS | POINTERS}
    assert asked | {("", "secrets", "get")} == verbs(tables) - withheld - rbac


def test_the_operator_may_bind_nothing_but_the_role_of_jobs() -> None:
    binding = [rule for rule in rules("operator.yaml") if "bind" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in binding] == [["tablewright-jobs"]]


def test_jobs_have_the_same_rights_in_both_installations() -> None:
    [jobs] = [each["rules"] for each in documents("operator.yaml") if each["metadata"]["name"] == "tablewright-jobs"]
    assert jobs == rules("jobs.yaml")
