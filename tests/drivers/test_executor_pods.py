"""Executors as pods: Spark's own Kubernetes scheduler, the real API server at the restricted Pod Security level with
the jobs' own rights, and every container a process of this machine that the jobs image's entry point starts."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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

TABLE_SPEC = """
catalogRef: {name: lake}
identifier: {namespace: sales, name: payments}
schema:
  columns: [{name: id, type: long, required: true}, {name: city, type: string}]
partitioning: [{column: city, transform: identity}]
jobs:
  executors: {max: 2, cores: 1, bytesEach: "10000"}
"""


# The driver, as it is but for how long it waits.
IMPATIENT = """
import functools, sys
from tablejobs import __main__, executor_watch, operations
patience = executor_watch.Patience(tell=2, give_up=10, between_looks=1)
operations.SparkExecutor = functools.partial(operations.SparkExecutor, patience=patience)
sys.exit(__main__.main())
"""


class Machine:
    """Runs containers as the jobs image would, and remembers the pods."""

    def __init__(self, processes: LocalProcesses) -> None:
        self._processes = processes
        self.executors_end_at_once = False
        self.pods: dict[str, Pod] = {}
        self.endings: dict[str, Ending] = {}

    def __call__(self, pod: Pod) -> Ending:
        self.pods[pod.metadata.name] = pod
        broken = self.executors_end_at_once and pod.spec.containers[0].name == "executor"
        ending = Ending(1) if broken else self._processes(pod)
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


@dataclass(frozen=True)
class Cluster:
    """A namespace with a table to compact, of 24 small files, and a MaintenanceRun that asks for it."""

    core: client.CoreV1Api
    batch: client.BatchV1Api
    custom: client.CustomObjectsApi
    namespace: str
    config: ConfigMapConfig
    job: dict[str, Any]
    processes: LocalProcesses
    machine: Machine

    def run_to_the_end(self) -> tuple[str, JobReport]:
        """The driver's pod and its report. Nothing is left running, and no pod of an executor either."""
        with Kubelet(self.core.api_client, self.namespace, self.machine):
            self.batch.create_namespaced_job(self.namespace, self.job)
            ended = self.machine.endings
            eventually(lambda: list(ended), lambda names: any(_is_driver(name) for name in names), seconds=300)
            [driver] = [name for name in ended if _is_driver(name)]
            report = JobReport.model_validate_json(ended[driver].message or "{}")
            assert report.succeeded, self.processes.logs[driver]
            eventually(self.executor_pods, lambda left: left == [])
            eventually(
                lambda: self.batch.read_namespaced_job(RUN, self.namespace).status.succeeded, lambda count: count == 1
            )
            eventually(lambda: self.processes.running, lambda running: not running)
        return driver, report

    def executor_pods(self) -> list[str]:
        found = self.core.list_namespaced_pod(self.namespace, label_selector="spark-role=executor").items
        return [pod.metadata.name for pod in found]

    def progress(self) -> dict[str, Any]:
        return dict(self.status().get("progress", {}))

    def status(self) -> dict[str, Any]:
        """As the driver writes it: there is no operator here."""
        run = self.custom.get_namespaced_custom_object(
            "tablewright.dev", "v1alpha1", self.namespace, "maintenanceruns", RUN
        )
        return dict(run["status"])

    def assert_compacted(self) -> None:
        final = open_catalog(self.config).load_table(("sales", "payments"))
        assert len(list(final.scan().plan_files())) == len(CITIES)
        assert rows_in_files(final).sort_by("id").to_pylist() == rows(0, 12_000).to_pylist()


@pytest.fixture
def cluster(
    crds: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    s3: S3Access,
    s3_bucket: str,
    tmp_path: Path,
) -> Cluster:
    core = client.CoreV1Api(kube_api)
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
    custom = client.CustomObjectsApi(kube_api)
    made = custom.get_namespaced_custom_object("tablewright.dev", "v1alpha1", kube_namespace, "maintenanceruns", RUN)
    policy = effective_policy(declared, [], lake)
    job = build_job(parse(MaintenanceRun, made), declared, policy, lake, JobSettings(image="jobs:1"))
    assert s3.secret_key not in str(job)

    host, _, port = crds.server.removeprefix("https://").partition(":")
    (tmp_path / "bin").mkdir()
    environment = {
        "KUBECONFIG": str(kubeconfig_of(crds, kube_api, kube_namespace, "tablewright-jobs", tmp_path)),
        "PATH": image_in(tmp_path / "bin"),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
    }
    processes = LocalProcesses(kube_api, environment)
    batch = client.BatchV1Api(kube_api)
    return Cluster(core, batch, custom, kube_namespace, config, job, processes, Machine(processes))


@pytest.mark.timeout(600)
def test_a_large_plan_is_spread_over_executor_pods_that_belong_to_the_driver(cluster: Cluster, s3: S3Access) -> None:
    driver, report = cluster.run_to_the_end()

    log = cluster.processes.logs[driver]
    assert report.compaction is not None
    assert report.compaction.files_rewritten == 24
    assert cluster.status()["result"]["rewrittenFiles"] == 24, "which outlives the pod"
    assert len(cluster.machine.executors()) == 2, log
    for pod in cluster.machine.executors():
        [owner] = pod.metadata.owner_references
        assert (owner.kind, owner.uid) == ("Pod", cluster.machine.pods[driver].metadata.uid)
        assert pod.spec.automount_service_account_token is False
        assert pod.metadata.labels["tablewright.dev/table"] == "payments"
        assert [volume.name for volume in pod.spec.volumes] == ["spark-local-dir-1"], "Spark adds none of its own"
        assert [mount.mount_path for mount in pod.spec.containers[0].volume_mounts] == ["/tmp"]
    cluster.assert_compacted()
    assert s3.secret_key not in log


@pytest.mark.timeout(600)
def test_executors_that_a_quota_has_no_room_for_are_told_of_and_then_done_without(cluster: Cluster) -> None:
    hard = {"pods": "1"}  # the driver's
    quota = {"metadata": {"name": "tight"}, "spec": {"hard": hard}}
    cluster.core.create_namespaced_resource_quota(cluster.namespace, quota)
    counted = {"status": {"hard": hard, "used": {"pods": "0"}}}  # at first a controller counts, which is not there
    cluster.core.patch_namespaced_resource_quota_status("tight", cluster.namespace, counted)
    cluster.job["spec"]["template"]["spec"]["containers"][0]["args"] = ["python", "-c", IMPATIENT]
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(cluster.run_to_the_end)
        waiting = eventually(cluster.progress, lambda told: "reason" in told, seconds=120)
        driver, report = ending.result()

    assert waiting["reason"] == "ExecutorsNotCreated"
    assert waiting["message"].startswith("no executor can be created: ")
    assert "exceeded quota: tight" in waiting["message"]
    assert cluster.machine.executors() == []
    assert "by the driver alone: no executor can be created: " in report.message, cluster.processes.logs[driver]
    assert "exceeded quota: tight" in report.message
    assert cluster.progress().keys() == {"tasks", "tasksDone", "bytes", "bytesDone"}
    cluster.assert_compacted()


@pytest.mark.timeout(600)
def test_executors_that_end_as_soon_as_they_start_are_told_of_and_then_done_without(cluster: Cluster) -> None:
    cluster.machine.executors_end_at_once = True
    cluster.job["spec"]["template"]["spec"]["containers"][0]["args"] = ["python", "-c", IMPATIENT]

    driver, report = cluster.run_to_the_end()

    assert len(cluster.machine.executors()) > 4, "more than Spark itself puts up with"
    assert "by the driver alone: executors end as soon as they start, as pod " in report.message, (
        cluster.processes.logs[driver]
    )
    assert report.message.endswith(": Error, code 1)")
    cluster.assert_compacted()


def object_of(model: Any, namespace: str, name: str, spec: dict[str, Any]) -> Any:
    return parse(model, {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec})


def create_table(config: ConfigMapConfig, declared: ManagedTable) -> Table:
    full = ManagementMode.FULL
    applied = apply_declaration(open_catalog(config), declaration_of(declared), mode=full, known_uuid=None)
    assert applied.table is not None
    return applied.table


def _is_driver(name: str) -> bool:
    return name.startswith(f"{RUN}-") and "-exec-" not in name
