"""Every rule between fields that the CRDs have, broken once at a real API server: it refuses in the rule's words."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import GROUP, VERSION, KubernetesResource
from tablewright.api.policy import TablePolicy
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tests.conftest import unique
from tests.definitions import KINDS, Schema, schema
from tests.operators import API_VERSION
from tests.servers.kubernetes import KubernetesAccess

pytestmark = pytest.mark.xdist_group("operator")

COLUMNS = {"columns": [{"name": "id", "type": "long"}]}
TABLE = {"catalogRef": {"name": "lake"}, "schema": COLUMNS}
RUN = {"tableRef": {"name": "t"}, "operation": "Compact"}
CATALOG = {"configMap": {}, "warehouse": "s3://bucket"}
REFERENCE = {"name": "a", "key": "b"}
HOLD = {"name": "a", "asOf": "2026-01-02T00:00:00Z"}

# What breaks each rule, by the path of its field and the beginning of its message: a spec that is refused, or a spec
# and what it may not become. The last of several that have one path and one beginning stand for all.
JOBS: dict[str, Any] = {
    "nodeSelector: each key": {"nodeSelector": {"a b": "x"}},
    "labels: each key": {"labels": {"-": "x"}},
    "labels: keys that begin": {"labels": {"tablewright.dev/run": "x"}},
    "annotations: each key": {"annotations": {"a/b/c": "x"}},
    "annotations: keys that begin": {"annotations": {"app.kubernetes.io/name": "x"}},
    "env[]: variables that begin": {"env": [{"name": "TABLEWRIGHT_JOB", "value": ""}]},
    "env[]: give exactly one": {"env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": REFERENCE}}]},
    "env[].valueFrom: give exactly one": {"env": [{"name": "A", "valueFrom": {}}]},
    "volumes[]: name exactly one source": {"volumes": [{"name": "a", "mountPath": "/a"}]},
    "volumes[]: tmp is the name": {"volumes": [{"name": "tmp", "mountPath": "/a", "emptyDir": {}}]},
    "executors: memory of an executor": {"executors": {"memory": "575Mi"}},
    "tolerations[]: without a key": {"tolerations": [{"effect": "NoSchedule"}]},
    "tolerations[]: operator Exists": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "tolerations[]: tolerationSeconds": {"tolerations": [{"key": "a", "tolerationSeconds": 1}]},
}
BROKEN: dict[type[KubernetesResource], dict[str, dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]]] = {
    ManagedTable: {
        "spec: identifier is immutable": (TABLE, {**TABLE, "identifier": {"namespace": "a", "name": "b"}}),
        "spec: schema is required": {"catalogRef": {"name": "lake"}},
        "spec: formatVersion only": ({**TABLE, "formatVersion": 3}, {**TABLE, "formatVersion": 2}),
        "spec: location cannot": ({**TABLE, "location": "s3://a/b"}, TABLE),
        "spec.catalogRef: catalogRef is immutable": (TABLE, {**TABLE, "catalogRef": {"name": "other"}}),
        "spec.identifier: identifier is immutable": (
            {**TABLE, "identifier": {"namespace": "a", "name": "b"}},
            {**TABLE, "identifier": {"namespace": "a", "name": "c"}},
        ),
        "spec.schema: identifierColumns": {**TABLE, "schema": {**COLUMNS, "identifierColumns": ["idx"]}},
        "spec.properties: each key": {**TABLE, "properties": {"k" * 256: ""}},
        "spec.layout.order: columns have": {**TABLE, "layout": {"order": {"strategy": "None", "columns": ["id"]}}},
        "spec.layout.order: strategy Sort": {**TABLE, "layout": {"order": {"strategy": "Sort"}}},
        "spec.layout.order: strategy ZOrder": {**TABLE, "layout": {"order": {"strategy": "ZOrder", "columns": ["id"]}}},
        "spec.orphanFiles: minAge below 1d": {**TABLE, "orphanFiles": {"minAge": "23h"}},
        "spec.retention.holds[]: until": {**TABLE, "retention": {"holds": [{**HOLD, "until": HOLD["asOf"]}]}},
        **{f"spec.jobs.{rule}": {**TABLE, "jobs": jobs} for rule, jobs in JOBS.items()},
    },
    MaintenanceRun: {
        "spec: the spec of a MaintenanceRun": (RUN, {**RUN, "dryRun": True}),
        "spec: rollback says": {**RUN, "rollback": {"tag": "a"}},
        "spec: cherryPick says": {**RUN, "cherryPick": {"snapshotId": 1}},
        "spec: an Inspect run": {**RUN, "operation": "Inspect", "dryRun": True},
        "spec.rollback: name exactly one": {**RUN, "operation": "Rollback", "rollback": {"tag": "a", "snapshotId": 1}},
        "spec.rollback: name exactly one place": {
            **RUN,
            "operation": "Rollback",
            "rollback": {"tag": "a", "undo": True},
        },
    },
    TableCatalog: {
        ": the name of a REST catalog": {"rest": {"uri": "https://a"}},
        "spec: name exactly one kind": {**CATALOG, "glue": {}},
        "spec: give warehouse with every kind of catalog but rest": {"configMap": {}},
        "spec.maintenance.orphanFiles: minAge below 1d": {
            **CATALOG,
            "maintenance": {"orphanFiles": {"minAge": "86399s", "allowShortMinAge": False}},
        },
        **{f"spec.jobs.{rule}": {**CATALOG, "jobs": jobs} for rule, jobs in JOBS.items()},
    },
    TablePolicy: {
        "spec.selector.matchLabels: each key": {"selector": {"matchLabels": {"a b": "c"}}},
        "spec.selector.matchExpressions[]: In and NotIn": {
            "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}
        },
        "spec.orphanFiles: minAge below 1d": {"orphanFiles": {"minAge": "0d"}},
        **{f"spec.jobs.{rule}": {"jobs": jobs} for rule, jobs in JOBS.items()},
    },
}


def rules(path: str, node: Schema) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, child in node.get("properties", {}).items():
        yield from rules(f"{path}.{name}" if path else name, child)
    if "items" in node:
        yield from rules(f"{path}[]", node["items"])


def message_of(kind: type[KubernetesResource], case: str) -> str:
    [message] = {text for path, text in rules("", schema(kind)) if f"{path}: {text}".startswith(case)}
    return message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
def test_there_is_a_case_for_every_rule(kind: type[KubernetesResource]) -> None:
    for path, message in rules("", schema(kind)):
        assert any(f"{path}: {message}".startswith(case) for case in BROKEN[kind]), f"{path}: {message}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
def test_what_breaks_a_rule_is_refused_in_its_words(
    crds: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    kind: type[KubernetesResource],
) -> None:
    for case, given in BROKEN[kind].items():
        before, after = given if isinstance(given, tuple) else (None, given)
        scene = Scene(kube_api, kube_namespace, kind, unique("a.b" if "REST" in case else "a"))
        if before is not None:
            scene.create(before)
        with pytest.raises(client.ApiException) as refusal:
            scene.create(after) if before is None else scene.change(after)
        assert refusal.value.status == 422, case
        assert message_of(kind, case) in str(refusal.value.body), case


def test_to_undo_is_one_place_to_go_back_to(
    crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str
) -> None:
    scene = Scene(kube_api, kube_namespace, MaintenanceRun, unique("undo"))
    scene.create({**RUN, "operation": "Rollback", "rollback": {"undo": True}})


class Scene:
    """One object of a kind, as it is created and changed."""

    def __init__(self, api: client.ApiClient, namespace: str, kind: type[KubernetesResource], name: str) -> None:
        self._custom = client.CustomObjectsApi(api)
        self._place = (GROUP, VERSION, namespace, kind.plural)
        self._body = {"apiVersion": API_VERSION, "kind": kind.kind_name, "metadata": {"name": name}}
        self._name = name

    def create(self, spec: dict[str, Any]) -> None:
        self._custom.create_namespaced_custom_object(*self._place, {**self._body, "spec": spec})

    def change(self, spec: dict[str, Any]) -> None:
        change = [{"op": "replace", "path": "/spec", "value": spec}]
        self._custom.patch_namespaced_custom_object(
            *self._place, self._name, change, _content_type="application/json-patch+json"
        )
