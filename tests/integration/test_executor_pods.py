"""Executors as pods: Spark's own Kubernetes scheduler, the real API server at the restricted Pod Security level with
the jobs' own rights, and every container a process of this machine that the jobs image's entry point starts."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from kubernetes import client
from pyiceberg.table import Table

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tableformat.declaration import ManagementMode, apply_declaration
from tableformat.maintenance.job import JobReport
from tablewright.act.jobs import JobSettings, build_job
from tablewright.api.catalog import TableCatalog
from tablewright.api.declaration import declaration_of
from tablewright.api.objects import parse
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.decide.policy import effective_policy
from tests.operators import API_VERSION, kubeconfig_of
from tests.reading import rows_in_files
from tests.servers.kubelet import Ending, Kubelet, LocalProcesses, Pod
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.s3 import S3Access
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
RUN = "by.hand"  # a name may have dots, and a hostname may not
CITIES = ("Delhi", "Kochi", "Pune", "Surat")
pytestmark = pytest.mark.xdist_group("spark")

TABLE_SPEC = """
catalogRef: {name: lake}
identifier: {namespace: sales, name: payments}
schema:
  columns: [{name: id, type: long, required: true}, {name: city, type: string}]
partitioning: [{column: city, transform: identity}]
jobs:
  executors: {max: 2, cores: 1, bytesEach: "10000"}
"""


class Machine:
    """Runs containers as the jobs image would, and remembers the pods."""

    def __init__(self, processes: LocalProcesses) -> None:
        self._processes = processes
        self.pods: dict[str, Pod] = {}
        self.endings: dict[str, Ending] = {}

    def __call__(self, pod: Pod) -> Ending:
        self.pods[pod.metadata.name] = pod
        ending = self._processes(pod)
        self.endings[pod.metadata.name] = ending
        return ending

    def executors(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.spec.containers[0].name == "executor"]


def image_in(folder: Path) -> str:
    """A path on which the image's entry point is found, and what it needs."""
    import pyspark

    home, entry_point = Path(pyspark.__file__).parent, ROOT / "spark_images" / "entrypoint.sh"
    scripts = {
        "executor": f"export SPARK_HOME={home} SPARK_CLASS_DATA=none\nexec sh {entry_point} executor",
        "tini": 'shift 2\nexec "$@"',
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])


def rows(first: int, count: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string())])
    numbers = range(first, first + count)
    return pa.table({"id": list(numbers), "city": [CITIES[n % len(CITIES)] for n in numbers]}, schema=schema)


@pytest.mark.timeout(600)
def test_a_large_plan_is_spread_over_executor_pods_that_belong_to_the_driver(
    crds: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    s3: S3Access,
    s3_bucket: str,
    tmp_path: Path,
) -> None:
    core, batch = client.CoreV1Api(kube_api), client.BatchV1Api(kube_api)
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.patch_namespace(kube_namespace, {"metadata": {"labels": level}})
    kubectl(crds, "apply", "-n", kube_namespace, "-f", str(ROOT / "examples" / "install" / "jobs.yaml"))
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    core.create_namespaced_secret(kube_namespace, {"metadata": {"name": "lake-keys"}, "stringData": keys})
    warehouse = f"s3://{s3_bucket}/warehouse"
    config = ConfigMapConfig(
        name="lake",
        warehouse=warehouse,
        namespace=kube_namespace,
        kubeconfig=str(crds.kubeconfig),
        properties=s3.file_io_properties(),
    )
    spec = yaml.safe_load(TABLE_SPEC)
    declared = object_of(ManagedTable, kube_namespace, "payments", spec)
    table = create_table(config, declared)
    for first in range(0, 12_000, 2_000):
        table.append(rows(first, 2_000))
    storage = {"endpoint": s3.endpoint, "region": "us-east-1", "credentialsSecretRef": {"name": "lake-keys"}}
    lake = object_of(
        TableCatalog, kube_namespace, "lake", {"configMap": {}, "warehouse": warehouse, "storage": storage}
    )
    run = {"tableRef": {"name": "payments"}, "operation": "Compact"}
    kubectl(
        crds,
        *("apply", "-n", kube_namespace, "-f", "-"),
        stdin=json.dumps({"apiVersion": API_VERSION, "kind": "MaintenanceRun", "metadata": {"name": RUN}, "spec": run}),
    )
    made = client.CustomObjectsApi(kube_api).get_namespaced_custom_object(
        "tablewright.dev", "v1alpha1", kube_namespace, "maintenanceruns", RUN
    )
    policy = effective_policy(declared, [], lake)
    job = build_job(parse(MaintenanceRun, made), declared, policy, lake, JobSettings(image="jobs:1"))

    host, _, port = crds.server.removeprefix("https://").partition(":")
    (tmp_path / "bin").mkdir()
    environment = {
        "KUBECONFIG": str(kubeconfig_of(crds, kube_api, kube_namespace, "tablewright-jobs", tmp_path)),
        "PATH": image_in(tmp_path / "bin"),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
    }
    processes = LocalProcesses(kube_api, environment)
    machine = Machine(processes)
    with Kubelet(kube_api, kube_namespace, machine):
        batch.create_namespaced_job(kube_namespace, job)
        eventually(lambda: list(machine.endings), lambda ended: any(_is_driver(name) for name in ended), seconds=300)
        [driver] = [name for name in machine.endings if _is_driver(name)]
        log = processes.logs[driver]
        report = JobReport.model_validate_json(machine.endings[driver].message or "{}")
        assert report.succeeded, log
        eventually(lambda: _executor_pods(core, kube_namespace), lambda left: left == [])
        eventually(lambda: batch.read_namespaced_job(RUN, kube_namespace).status.succeeded, lambda count: count == 1)
        eventually(lambda: processes.running, lambda running: not running)

    assert report.compaction is not None
    assert report.compaction.files_rewritten == 24
    assert len(machine.executors()) == 2, log
    for pod in machine.executors():
        [owner] = pod.metadata.owner_references
        assert (owner.kind, owner.uid) == ("Pod", machine.pods[driver].metadata.uid)
        assert pod.spec.automount_service_account_token is False
        assert pod.metadata.labels["tablewright.dev/table"] == "payments"
    final = open_catalog(config).load_table(("sales", "payments"))
    assert len(list(final.scan().plan_files())) == len(CITIES)
    expected = rows(0, 12_000).to_pylist()
    assert rows_in_files(final).sort_by("id").to_pylist() == expected
    assert s3.secret_key not in log + str(job)


def object_of(model: Any, namespace: str, name: str, spec: dict[str, Any]) -> Any:
    return parse(model, {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec})


def create_table(config: ConfigMapConfig, declared: ManagedTable) -> Table:
    full = ManagementMode.FULL
    applied = apply_declaration(open_catalog(config), declaration_of(declared), mode=full, known_uuid=None)
    assert applied.table is not None
    return applied.table


def _is_driver(name: str) -> bool:
    return name.startswith(f"{RUN}-") and "-exec-" not in name


def _executor_pods(core: client.CoreV1Api, namespace: str) -> list[str]:
    found = core.list_namespaced_pod(namespace, label_selector="spark-role=executor").items
    return [pod.metadata.name for pod in found]
