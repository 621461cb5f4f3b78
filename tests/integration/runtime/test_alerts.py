"""The alerts: Prometheus's own tool judges them, a real Prometheus raises one, and people find each in the docs."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tablewright.runtime.metrics import Metrics
from tablewright.runtime.store import ObjectStore
from tests.integration.runtime.conftest import COLUMNS, spec
from tests.operators import Namespace, OperatorProcesses
from tests.servers import toolchain
from tests.servers.prometheus import PrometheusServer
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
RULES = ROOT / "charts" / "tablewright" / "files" / "alerts.yaml"
SCENARIOS = Path(__file__).with_name("alerts_test.yaml")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(toolchain.prometheus() / "promtool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_each_alert_fires_when_it_should_and_not_before() -> None:
    found = promtool("test", "rules", str(SCENARIOS))
    assert found.returncode == 0, found.stdout + found.stderr
    tried = {
        case["alertname"]
        for scenario in yaml.safe_load(SCENARIOS.read_text())["tests"]
        for case in scenario["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert tried == {rule["alert"] for rule in rules()}


def test_alerts_speak_of_metrics_that_the_operator_has() -> None:
    metrics = Metrics()
    metrics.watch_queue(lambda: 0, lambda: 0.0)
    metrics.watch_tables(ObjectStore(), lambda: True, most_tables=1)
    kinds = dict(re.findall(r"^# TYPE (tablewright_\w+) (\w+)$", metrics.text().decode(), re.MULTILINE))
    known = {f"{name}_count" if kind == "histogram" else name for name, kind in kinds.items()}
    used = {name for rule in rules() for name in re.findall(r"tablewright_\w+", rule["expr"])}
    assert used
    assert used <= known


def test_people_find_every_alert_in_the_documents() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "alerts.md").read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules()]


def names(alerts: list[dict[str, Any]]) -> list[str]:
    return [alert["labels"]["alertname"] for alert in alerts]


@pytest.mark.xdist_group("operator")
def test_prometheus_raises_an_alert_that_names_the_refused_table(
    namespace: Namespace, processes: OperatorProcesses, tmp_path: Path
) -> None:
    replica = processes.start_replica("watched")
    namespace.apply("ManagedTable", "narrowed", spec("narrowed"))
    eventually(lambda: namespace.conditions("narrowed"), lambda c: c.get("InSync") == "True/AsDeclared")
    target = f"127.0.0.1:{replica.port()}"
    prometheus = PrometheusServer(tmp_path, rules=RULES, target=target, labels={"namespace": "tablewright-system"})
    try:
        narrower = {"columns": [{"name": "id", "type": "int"}, *COLUMNS[1:]]}
        namespace.apply("ManagedTable", "narrowed", spec("narrowed", schema=narrower))
        [alert] = eventually(prometheus.alerts, lambda found: names(found) == ["TablewrightTableNotInSync"])
    finally:
        prometheus.stop()
    assert alert["annotations"]["summary"] == f"Table {namespace.name}/narrowed is not as declared"
    assert alert["annotations"]["description"].endswith(f"kubectl describe mtbl -n {namespace.name} narrowed")
