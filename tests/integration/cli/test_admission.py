"""What is refused here is refused by a real API server, and what passes here passes there: the same objects to both."""

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tablewright.api.admission import admit
from tests.servers import binaries
from tests.servers.kubernetes import KubernetesAccess

pytestmark = pytest.mark.xdist_group("operator")

ROOT = Path(__file__).parents[3]
API = {"apiVersion": "tablewright.dev/v1alpha1"}


def table(**spec: Any) -> dict[str, Any]:
    columns = [{"name": "id", "type": "long"}, {"name": "ts", "type": "timestamptz"}]
    basis = {"catalogRef": {"name": "lake"}, "schema": {"columns": columns}}
    return {**API, "kind": "ManagedTable", "metadata": {"name": "t"}, "spec": {**basis, **spec}}


def without(obj: dict[str, Any], *path: str) -> dict[str, Any]:
    found = copy.deepcopy(obj)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return found


def run(**spec: Any) -> dict[str, Any]:
    basis = {"tableRef": {"name": "t"}, "operation": "Compact"}
    return {**API, "kind": "MaintenanceRun", "metadata": {"name": "r"}, "spec": {**basis, **spec}}


def catalog(**spec: Any) -> dict[str, Any]:
    return {**API, "kind": "TableCatalog", "metadata": {"name": "lake"}, "spec": spec}


def policy(**spec: Any) -> dict[str, Any]:
    return {**API, "kind": "TablePolicy", "metadata": {"name": "p"}, "spec": spec}


def labelled(**metadata: Any) -> dict[str, Any]:
    return {**table(), "metadata": {"name": "t", **metadata}}


HOLD = {"name": "audit", "asOf": "2026-09-30T23:59:59Z", "until": "2033-09-30T00:00:00Z"}

OBJECTS: dict[str, dict[str, Any]] = {
    "a table": table(),
    "no schema": without(table(), "spec", "schema"),
    "no schema, maintained only": without(table(managementPolicy="MaintainOnly"), "spec", "schema"),
    "no catalog": without(table(), "spec", "catalogRef"),
    "no spec": without(table(), "spec"),
    "no name": labelled(name=None),
    "an unknown field": table(compactoin={}),
    "an unknown inner field": table(compaction={"triggers": {"smallfiles": 3}}),
    "a number for text": table(catalogRef={"name": 7}),
    "text for a number": table(compaction={"minInputFiles": "5"}),
    "too small": table(compaction={"minInputFiles": 1}),
    "too large": table(compaction={"minInputFiles": 10_000_000}),
    "a fraction": table(compaction={"minInputFiles": 2.5}),
    "a whole float": table(compaction={"minInputFiles": 5.0}),
    "a bad size": table(layout={"targetFileSize": "256 MB"}),
    "a good size": table(layout={"targetFileSize": "256Mi"}),
    "a size with a newline": table(layout={"targetFileSize": "256Mi\n"}),
    "a bad strategy": table(layout={"order": {"strategy": "sort"}}),
    "sort without columns": table(layout={"order": {"strategy": "Sort"}}),
    "sort with columns": table(layout={"order": {"strategy": "Sort", "columns": ["id"]}}),
    "z-order of one": table(layout={"order": {"strategy": "ZOrder", "columns": ["id"]}}),
    "nine columns": table(layout={"order": {"strategy": "Sort", "columns": [f"c{n}" for n in range(9)]}}),
    "no columns": table(schema={"columns": []}),
    "a column twice": table(schema={"columns": [{"name": "id", "type": "long"}] * 2}),
    "a column without a type": table(schema={"columns": [{"name": "id"}]}),
    "a null": table(layout=None),
    "a null with a default": table(deletionPolicy=None),
    "a list for an object": table(layout=[]),
    "identifier of no column": table(
        schema={"columns": [{"name": "id", "type": "long"}], "identifierColumns": ["other"]}
    ),
    "a bad transform": table(partitioning=[{"column": "ts", "transform": "days"}]),
    "a good transform": table(partitioning=[{"column": "ts", "transform": "bucket[16]"}]),
    "a bad duration": table(retention={"snapshots": {"maxAge": "7 days"}}),
    "a bad cron shape": table(compaction={"schedule": "daily"}),
    "format 4": table(formatVersion=4),
    "a hold": table(retention={"holds": [HOLD]}),
    "a hold that ends first": table(retention={"holds": [{**HOLD, "until": "2020-01-01T00:00:00Z"}]}),
    "a hold without a zone": table(retention={"holds": [{**HOLD, "until": "2033-01-01T00:00:00"}]}),
    "a hold at no time": table(retention={"holds": [{**HOLD, "until": "soon"}]}),
    "two holds of a name": table(retention={"holds": [HOLD, HOLD]}),
    "a window": table(windows=[{"start": "22:00", "duration": "8h"}]),
    "a bad window": table(windows=[{"start": "24:00", "duration": "8h"}]),
    "a bad day": table(windows=[{"start": "22:00", "duration": "8h", "days": ["Monday"]}]),
    "properties": table(properties={"a.b": "c"}),
    "a property that is no text": table(properties={"a": 1}),
    "labels": labelled(labels={"tablewright.dev/team": "a_b.c"}),
    "a bad label": labelled(labels={"team": "a b"}),
    "a bad label's key": labelled(labels={"-team": "a"}),
    "a label that is no text": labelled(labels={"team": 1}),
    "an upper-case name": labelled(name="Tables"),
    "an unknown field of metadata": labelled(lables={}),
    "a run": run(),
    "a run of nothing": run(operation="Compactify"),
    "a rollback without a place": run(operation="Rollback"),
    "a rollback": run(operation="Rollback", rollback={"snapshotId": 7}),
    "a rollback to two places": run(operation="Rollback", rollback={"snapshotId": 7, "tag": "x"}),
    "a cherry-pick without a snapshot": run(operation="CherryPick"),
    "a cherry-pick of no snapshot": run(operation="CherryPick", cherryPick={}),
    "a cherry-pick": run(operation="CherryPick", cherryPick={"snapshotId": 7}),
    "a compaction with a cherry-pick": run(cherryPick={"snapshotId": 7}),
    "a compaction with a rollback": run(rollback={"tag": "x"}),
    "a catalog": catalog(configMap={}, warehouse="s3://bucket/w"),
    "a catalog of no kind": catalog(warehouse="s3://bucket/w"),
    "a catalog of two kinds": catalog(configMap={}, dynamoDB={}, warehouse="s3://bucket/w"),
    "a catalog without a warehouse": catalog(configMap={}),
    "a policy": policy(selector={"matchLabels": {"a": "b"}}),
    "a policy with a bad operator": policy(selector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
    "a policy with In and no values": policy(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "another group": {**table(), "apiVersion": "tablewright.dev/v1"},
    "another kind": {**table(), "kind": "Table"},
}


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((ROOT / "examples").rglob("*.yaml")):
        for number, document in enumerate(yaml.safe_load_all(file.read_text())):
            if document and document.get("apiVersion") == API["apiVersion"]:
                yield f"{file.name} {number}", {**document, "metadata": {**document["metadata"], "namespace": "x"}}


def test_the_same_objects_are_taken_and_refused_here_and_by_an_api_server(
    crds: KubernetesAccess, kube_namespace: str, tmp_path: Path
) -> None:
    cases = {**OBJECTS, **dict(examples())}
    disagreements = []
    taken = 0
    for name, obj in cases.items():
        given = copy.deepcopy(obj)
        given["metadata"]["namespace"] = kube_namespace
        if given["metadata"].get("name") is None:
            given["metadata"].pop("name", None)
        mine = [str(problem) for problem in admit(given)]
        theirs = _server_verdict(crds, given)
        taken += not mine
        if bool(mine) != bool(theirs):
            disagreements.append((name, mine, theirs))
    assert disagreements == []
    assert 15 <= taken < len(cases) - 30, "both good and bad objects were tried"


def _server_verdict(access: KubernetesAccess, obj: dict[str, Any]) -> str:
    """What the API server refuses the object for; empty if it takes it."""
    command = [str(binaries.kubectl()), f"--kubeconfig={access.kubeconfig}", "create", "--dry-run=server"]
    command += ["--validate=strict", "-f", "-"]
    done = subprocess.run(command, input=json.dumps(obj), capture_output=True, text=True, timeout=60)
    return done.stderr if done.returncode else ""
