"""docs/operator.md names every flag, metric and right that there is; both installations ask for the same rights."""

from pathlib import Path
from typing import Any

import typer.main
import yaml

from tablewright.cli.main import app
from tablewright.runtime.metrics import Metrics
from tablewright.runtime.store import ObjectStore

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "operator.md").read_text()


def rules(file: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((ROOT / "examples" / "install" / file).read_text())
    return [rule for document in documents for rule in document.get("rules") or []]


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


def test_both_installations_ask_for_the_same_rights_and_each_is_described() -> None:
    cluster, namespaced = rules("operator.yaml"), rules("namespaced.yaml")
    assert cluster == namespaced
    resources = {resource for rule in cluster for resource in rule["resources"]}
    assert [resource for resource in resources if f"`{resource}`" not in DOCS] == []
