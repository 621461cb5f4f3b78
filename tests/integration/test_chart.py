"""The Helm chart: rendered by a real helm, and taken by a real API server in a dry run."""

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tests.servers import binaries
from tests.servers.kubernetes import KubernetesAccess, kubectl

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "tablewright"
INSTALL = ROOT / "examples" / "install"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
NEEDED = [
    *["replicas", "image", "image.repository", "image.pullPolicy", "operator", "operator.tableMetrics"],
    *["podMonitor", "podMonitor.enabled", "podMonitor.interval", "alerts", "alerts.enabled"],
    *["operator.logFormat", "jobs", "jobs.image", "jobs.image.repository", "jobs.serviceAccount", "serviceAccount"],
]
"""What templates cannot do without: a null takes a default away."""


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(binaries.helm()), *arguments], capture_output=True, text=True)


def template(release: str, namespace: str, values: dict[str, Any], *options: str) -> "subprocess.CompletedProcess[str]":
    version = f"--kube-version={binaries.KUBERNETES_VERSION}"
    return helm("template", release, str(CHART), "-n", namespace, version, *_set(values), *options)


def rendered(namespace: str = "system", release: str = "tablewright", **values: Any) -> list[dict[str, Any]]:
    found = template(release, namespace, values)
    assert found.returncode == 0, found.stderr
    return [document for document in yaml.safe_load_all(found.stdout) if document]


def _set(values: dict[str, Any]) -> list[str]:
    return [part for name, value in values.items() for part in ("--set-json", f"{name}={json.dumps(value)}")]


def only(documents: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    [found] = [
        each for each in documents if each["kind"] == kind and (name is None or each["metadata"]["name"] == name)
    ]
    return found


def rules_in(path: Path, kind: str, name: str) -> list[dict[str, Any]]:
    return list(only(list(yaml.safe_load_all(path.read_text())), kind, name)["rules"])


def test_helm_finds_nothing_to_complain_of() -> None:
    found = helm("lint", "--strict", str(CHART))
    assert found.returncode == 0, found.stdout
    assert "0 chart(s) failed" in found.stdout


def test_a_package_holds_the_definitions_of_the_repository(tmp_path: Path) -> None:
    found = helm("package", str(CHART), "-d", str(tmp_path))
    assert found.returncode == 0, found.stderr
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as package:
        packed = {
            Path(member.name).name: (package.extractfile(member) or pytest.fail(member.name)).read()
            for member in package
            if member.isfile() and "/crds/" in member.name
        }
    assert packed == {path.name: path.read_bytes() for path in (ROOT / "crds").iterdir()}


def test_rights_over_the_whole_cluster_are_those_of_the_example() -> None:
    documents = rendered()
    for suffix, example in (("", "operator"), ("-tables", "tables"), ("-jobs", "jobs")):
        role = only(documents, "ClusterRole", f"tablewright-system{suffix}")
        expected = json.dumps(rules_in(INSTALL / "operator.yaml", "ClusterRole", f"tablewright-{example}"))
        assert role["rules"] == json.loads(expected.replace('"tablewright-jobs"', '"tablewright-system-jobs"'))
    bound = only(documents, "ClusterRoleBinding")["roleRef"]["name"]
    assert {group for rule in only(documents, "ClusterRole", bound)["rules"] for group in rule["apiGroups"]} == {
        "tablewright.dev"
    }
    lease = only(documents, "Role", "tablewright-lease")
    assert lease["rules"] == rules_in(INSTALL / "operator.yaml", "Role", "tablewright-lease")
    assert not [document for document in documents if document["metadata"]["name"] == "tablewright-jobs"]


def test_namespaces_with_tables_are_granted_by_a_binding_in_each() -> None:
    documents = rendered(tableNamespaces=["sales", "web"])
    [example] = yaml.safe_load_all((INSTALL / "tables.yaml").read_text())
    for namespace in ("sales", "web"):
        mine = [document for document in documents if document["metadata"].get("namespace") == namespace]
        binding = only(mine, "RoleBinding", "tablewright")
        assert binding["roleRef"] == {**example["roleRef"], "name": "tablewright-system-tables"}
        assert binding["subjects"] == [{**example["subjects"][0], "namespace": "system"}]
        assert only(mine, "ServiceAccount", "tablewright-jobs")
    arguments = container_of(documents)["args"]
    assert {"--tables-role=tablewright-system-tables", "--jobs-role=tablewright-system-jobs"} <= set(arguments)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"jobs.namespaces": ["sales"]}, "jobs.namespaces is called tableNamespaces now"),
        ({"watchNamespaces": ["sales"], "tableNamespaces": ["sales"]}, "leave one of them empty"),
    ],
)
def test_values_that_would_be_ignored_are_refused(values: dict[str, Any], said: str) -> None:
    found = template("tablewright", "system", values)
    assert found.returncode != 0
    assert said in found.stderr


def test_rights_over_namespaces_need_no_cluster_role() -> None:
    documents = rendered(watchNamespaces=["sales", "web"])
    assert not [document for document in documents if document["kind"].startswith("Cluster")]
    rules = rules_in(INSTALL / "namespaced.yaml", "Role", "tablewright-operator")[:-2]  # those of leases are apart
    assert "--jobs-role" not in " ".join(container_of(documents)["args"])
    jobs = rules_in(INSTALL / "jobs.yaml", "Role", "tablewright-jobs")
    for namespace in ("sales", "web"):
        mine = [document for document in documents if document["metadata"].get("namespace") == namespace]
        assert only(mine, "Role", "tablewright")["rules"] == rules
        assert only(mine, "Role", "tablewright-jobs")["rules"] == jobs
        assert only(mine, "ServiceAccount", "tablewright-jobs")
    [container] = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"--namespace=sales", "--namespace=web"} <= set(container["args"])


def test_the_pod_is_the_examples_own() -> None:
    example = only(list(yaml.safe_load_all((INSTALL / "operator.yaml").read_text())), "Deployment")
    expected, found = (each["spec"]["template"]["spec"] for each in (example, only(rendered(), "Deployment")))
    [wanted], [container] = expected["containers"], found["containers"]
    for field in ("env", "ports", "livenessProbe", "readinessProbe", "resources", "securityContext", "volumeMounts"):
        assert container[field] == wanted[field]
    assert found["volumes"] == expected["volumes"]
    assert found["terminationGracePeriodSeconds"] == expected["terminationGracePeriodSeconds"]


def container_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    [container] = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_large_numbers_of_a_file_of_values_stay_whole(tmp_path: Path) -> None:
    """Helm reads them as floating point, and writes a million as 1e+06."""
    path = tmp_path / "values.yaml"
    path.write_text("operator: {tableMetrics: 1000000, pollSeconds: 86400}\nreplicas: 3\n")
    found = template("tablewright", "system", {}, "-f", str(path))
    assert found.returncode == 0, found.stderr
    documents = [document for document in yaml.safe_load_all(found.stdout) if document]
    assert {"--table-metrics=1000000", "--poll-seconds=86400"} <= set(container_of(documents)["args"])


@pytest.mark.parametrize("name", ["123", "1e3", "true", "null"])
def test_names_that_yaml_would_take_for_something_else_stay_names(name: str) -> None:
    for document in rendered(name, name, watchNamespaces=[name], priorityClassName=name):
        assert document["metadata"]["namespace"] == name
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == name
        assert isinstance(document["metadata"]["name"], str)
        for subject in document.get("subjects", []):
            assert subject["namespace"] == name
    pod = only(rendered(priorityClassName=name), "Deployment")["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == name


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ({"repository": "registry.example:5000/tw", "tag": "1.2"}, "registry.example:5000/tw:1.2"),
        ({"repository": "tw", "digest": DIGEST}, f"tw@{DIGEST}"),
        ({"repository": "tw", "digest": DIGEST, "tag": "1.2"}, f"tw@{DIGEST}"),
    ],
)
def test_an_image_has_a_tag_or_a_digest(given: dict[str, str], image: str) -> None:
    values = {f"{place}.{name}": value for place in ("image", "jobs.image") for name, value in given.items()}
    container = container_of(rendered(**values))
    assert container["image"] == image
    assert f"--job-image={image}" in container["args"]


def test_jobs_may_pull_from_the_registry_that_the_operator_comes_from() -> None:
    secrets = [{"name": "registry"}, {"name": "mirror"}]
    documents = rendered(watchNamespaces=["sales", "web"], imagePullSecrets=secrets)
    assert only(documents, "Deployment")["spec"]["template"]["spec"]["imagePullSecrets"] == secrets
    accounts = [each for each in documents if each["metadata"]["name"] == "tablewright-jobs"]
    found = [each["imagePullSecrets"] for each in accounts if each["kind"] == "ServiceAccount"]
    assert found == [secrets, secrets]


EXTRA: dict[str, Any] = {
    "extraEnv": [{"name": "AWS_CA_BUNDLE", "value": "/etc/company-ca/ca.crt"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "company-ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/company-ca", "readOnly": True}],
}


def test_the_operator_may_have_more_in_its_container_beside_what_is_its_own() -> None:
    plain, more = rendered(), rendered(**EXTRA)
    for field, value in (("env", "extraEnv"), ("volumeMounts", "extraVolumeMounts")):
        own, found = container_of(plain)[field], container_of(more)[field]
        assert [each for each in found if each not in own] == EXTRA[value]
        assert all(each in found for each in own)
    assert container_of(more)["env"][-1]["name"] == "TABLEWRIGHT_IDENTITY", "of two of one name the last one holds"
    volumes = only(more, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert volumes == [{"name": "tmp", "emptyDir": {}}, *EXTRA["extraVolumes"]]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"replicas": 0}, "replicas"),
        ({"replicas": "two"}, "replicas"),
        ({"image.pullPolicy": "Sometimes"}, "pullPolicy"),
        ({"operator.logFormat": "xml"}, "logFormat"),
        ({"operator.leaseSeconds": 0}, "leaseSeconds"),
        ({"watchNamespaces": ["Sales"]}, "watchNamespaces"),
        ({"jobs.image.repository": ""}, "repository"),
        ({"jobz": {}}, "jobz"),
        ({"operator.concurency": 3}, "concurency"),
        ({"image.repository": f"registry.example/tablewright@{DIGEST}"}, "repository"),
        ({"jobs.image.repository": "registry.example/tablewright-jobs:1"}, "repository"),
        ({"jobs.image.digest": "sha256:abc"}, "digest"),
        ({"podMonitor.interval": "30"}, "interval"),
        ({"alerts.enabled": "yes"}, "enabled"),
        ({"extraEnv": [{"value": "x"}]}, "extraEnv"),
        ({"extraVolumeMounts": [{"name": "ca"}]}, "extraVolumeMounts"),
        *((({name: None}), name.rpartition(".")[2]) for name in NEEDED),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(values: dict[str, Any], field: str) -> None:
    found = template("tablewright", "system", values)
    assert found.returncode != 0
    assert field in found.stderr


MONITORED: dict[str, Any] = {
    "podMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
    "alerts": {"enabled": True, "labels": {"release": "prometheus"}},
}


def test_alerts_and_scraping_are_for_those_who_ask_for_them() -> None:
    assert not [each for each in rendered() if each["apiVersion"].startswith("monitoring")]
    documents = rendered(**MONITORED)
    rule, monitor = only(documents, "PrometheusRule"), only(documents, "PodMonitor")
    assert rule["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    pods = only(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pods.items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in container_of(documents)["ports"]]
    assert endpoint["interval"] == "15s"
    for each in (rule, monitor):
        assert each["metadata"]["labels"]["release"] == "prometheus"


def test_the_definitions_of_the_prometheus_operator_take_alerts_and_scraping(
    kubernetes: KubernetesAccess, kube_namespace: str
) -> None:
    definitions = [part for path in binaries.prometheus_operator_crds() for part in ("-f", str(path))]
    kubectl(kubernetes, "apply", "--server-side", *definitions)
    kubectl(kubernetes, "wait", "--for=condition=Established", "--timeout=30s", *definitions)
    documents = [each for each in rendered(kube_namespace, **MONITORED) if each["apiVersion"].startswith("monitoring")]
    stream = "\n---\n".join(json.dumps(document) for document in documents)
    command = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"]
    assert len(kubectl(kubernetes, *command, stdin=stream).splitlines()) == 2


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_draining_nodes_takes_one_replica_at_a_time_and_always_may(replicas: int) -> None:
    documents = rendered(replicas=replicas)
    budgets = [each["spec"] for each in documents if each["kind"] == "PodDisruptionBudget"]
    deployment = only(documents, "Deployment")["spec"]
    assert budgets == ([{"maxUnavailable": 1, "selector": deployment["selector"]}] if replicas > 1 else [])
    [spread] = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"] == deployment["selector"]


@pytest.mark.parametrize("namespaced", [False, True])
def test_the_api_server_takes_everything_at_the_restricted_level(
    namespaced: bool, kubernetes: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str
) -> None:
    level = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    client.CoreV1Api(kube_api).patch_namespace(kube_namespace, {"metadata": {"labels": level}})
    values: dict[str, Any] = {
        "watchNamespaces": [kube_namespace] if namespaced else [],
        "tableNamespaces": [] if namespaced else [kube_namespace],
        "jobs.serviceAccount.annotations": {"example.com/role": "tables"},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "batch", "operator": "Exists"}],
        "podLabels": {"team": "data"},
        **EXTRA,
    }
    documents = rendered(kube_namespace, **values)
    deployment = only(documents, "Deployment")
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **template["metadata"]},
        "spec": template["spec"],
    }
    pod["spec"]["serviceAccountName"] = "default"  # the dry run creates none
    stream = "\n---\n".join(json.dumps(document) for document in [*documents, pod])
    command = ["apply", "--server-side", "--dry-run=server", "-n", kube_namespace, "-f", "-"]
    taken = kubectl(kubernetes, *command, stdin=stream)
    assert len(taken.splitlines()) == len(documents) + 1
