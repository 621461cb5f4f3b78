"""One declared table, the whole way: API server, operator, Job, driver, Spark, S3, and back to the status."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from kubernetes import client
from pyiceberg.catalog import Catalog

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tests.operators import Namespace, OperatorProcesses, kubeconfig_of, operators
from tests.reading import rows_in_files
from tests.servers.kubelet import Kubelet, LocalProcesses
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.s3 import S3Access
from tests.waiting import eventually

INSTALL = Path(__file__).parents[2] / "examples" / "install"
CITIES = ("Delhi", "Kochi", "Pune", "Surat", "Agra")
pytestmark = pytest.mark.xdist_group("spark")

SPEC = """
catalogRef: {name: lake}
identifier: {namespace: sales, name: payments}
schema:
  columns:
    - {name: txn_id, type: long, required: true, doc: "the payment's id"}
    - {name: city, type: string}
    - {name: items, type: "list<struct<sku: string, qty: int>>"}
partitioning:
  - {column: city, transform: identity}
layout: {targetFileSize: 64Mi}
compaction:
  triggers: {smallFiles: 180}
"""
MOST_RACING_FILES = 100  # with which the table is healthy still, however long a busy machine takes for the run


class Scene:
    """A namespace with a catalog on S3, and the table's own view from outside: PyIceberg."""

    def __init__(self, objects: Namespace, api: client.ApiClient, s3: S3Access, bucket: str) -> None:
        self.objects, self.namespace, self.access = objects, objects.name, objects.access
        self.batch = client.BatchV1Api(api)
        core = client.CoreV1Api(api)
        kubectl(objects.access, "apply", "-n", self.namespace, "-f", str(INSTALL / "jobs.yaml"))
        credentials = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        core.create_namespaced_secret(self.namespace, {"metadata": {"name": "lake-keys"}, "stringData": credentials})
        warehouse = f"s3://{bucket}/warehouse"
        storage = {"endpoint": s3.endpoint, "region": "us-east-1", "credentialsSecretRef": {"name": "lake-keys"}}
        objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": warehouse, "storage": storage})
        self._config = ConfigMapConfig(
            name="lake",
            warehouse=warehouse,
            namespace=self.namespace,
            kubeconfig=str(self.access.kubeconfig),
            properties=s3.file_io_properties(),
        )

    def catalog(self) -> Catalog:
        return open_catalog(self._config)

    def declare(self, *, suspend: bool) -> None:
        self.objects.apply("ManagedTable", "payments", yaml.safe_load(SPEC) | {"suspend": suspend})

    def conditions(self) -> dict[str, str]:
        return {kind: state.split("/")[0] for kind, state in self.objects.conditions("payments").items()}


@pytest.fixture
def scene(
    crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, s3: S3Access, s3_bucket: str
) -> Scene:
    return Scene(Namespace(crds, kube_api, kube_namespace), kube_api, s3, s3_bucket)


@pytest.fixture
def operator_processes(scene: Scene, tmp_path: Path) -> Iterator[OperatorProcesses]:
    with operators(scene.access.kubeconfig, scene.namespace, tmp_path / "operator.log") as processes:
        yield processes


def rows(first: int, count: int) -> pa.Table:
    items = pa.list_(pa.struct([pa.field("sku", pa.string()), pa.field("qty", pa.int32())]))
    numbers = range(first, first + count)
    return pa.table(
        {
            "txn_id": pa.array(numbers, pa.int64()),
            "city": pa.array([CITIES[number % len(CITIES)] for number in numbers], pa.string()),
            "items": pa.array([[] if n % 3 == 0 else [{"sku": f"s{n}", "qty": n % 7}, None] for n in numbers], items),
        },
        schema=pa.schema(
            [pa.field("txn_id", pa.int64(), nullable=False), pa.field("city", pa.string()), pa.field("items", items)]
        ),
    )


class RacingWriter:
    """Appends until it is told to stop, or has done enough: writers must never notice maintenance."""

    def __init__(self, scene: Scene, first: int) -> None:
        self.rows = 0
        self._scene, self._first = scene, first
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "RacingWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        table = self._scene.catalog().load_table(("sales", "payments"))
        while self.rows < MOST_RACING_FILES and not self._stopped.wait(0.3):
            table.refresh()
            table.append(rows(self._first + self.rows, 1))
            self.rows += 1


@pytest.mark.timeout(900)  # its limits are for a machine that has other work, too
def test_a_declared_table_is_created_and_compacted_while_writers_write_and_the_operator_dies(
    scene: Scene, kube_api: client.ApiClient, operator_processes: OperatorProcesses, tmp_path: Path
) -> None:
    operator = operator_processes.start()
    scene.declare(suspend=True)
    eventually(scene.conditions, lambda conditions: conditions.get("Ready") == "True")
    assert scene.conditions()["InSync"] == "True"

    table = scene.catalog().load_table(("sales", "payments"))
    for first in range(0, 400, 10):  # 40 appends to 5 partitions: 200 files
        table.append(rows(first, 10))
    status = eventually(lambda: scene.objects.status("payments"), lambda status: status["health"]["dataFiles"] == 200)
    assert status["health"]["smallFiles"] == 200
    assert status["identity"]["uuid"] == str(table.metadata.table_uuid)
    assert scene.conditions()["Healthy"] == "False"
    assert scene.objects.runs() == [], "a suspended table is left alone"

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    account = kubeconfig_of(scene.access, kube_api, scene.namespace, "tablewright-jobs", tmp_path)
    processes = LocalProcesses(kube_api, {"KUBECONFIG": str(account), "PATH": path})
    with Kubelet(kube_api, scene.namespace, processes), RacingWriter(scene, first=1000) as writer:
        scene.declare(suspend=False)
        eventually(lambda: processes.running, lambda running: len(running) == 1)
        operator.kill()
        operator.wait()
        eventually(lambda: processes.logs, lambda logs: len(logs) == 1, seconds=240)
        operator_processes.start()
        runs = eventually(scene.objects.runs, lambda runs: runs[0]["status"].get("phase") == "Succeeded", seconds=240)
    [log] = processes.logs.values()
    assert len(runs) == 1, log
    assert runs[0]["status"]["result"]["rewrittenFiles"] >= 200
    assert runs[0]["status"]["result"]["addedFiles"] <= len(CITIES)
    assert runs[0]["status"]["progress"]["tasksDone"] == len(CITIES)
    job = scene.batch.read_namespaced_job(runs[0]["metadata"]["name"], scene.namespace)
    assert job.metadata.owner_references[0].uid == runs[0]["metadata"]["uid"]

    assert writer.rows > 0, "the race was one"
    expected = pa.concat_tables([rows(0, 400), rows(1000, writer.rows)]).sort_by("txn_id")
    final = scene.catalog().load_table(("sales", "payments"))
    assert rows_in_files(final).sort_by("txn_id").to_pylist() == expected.to_pylist()
    status = eventually(
        lambda: scene.objects.status("payments"),
        lambda status: status["identity"].get("snapshotId") == final.metadata.current_snapshot_id,
    )
    assert status["health"]["dataFiles"] <= len(CITIES) + writer.rows
    assert scene.conditions() == {"Ready": "True", "InSync": "True", "Healthy": "True", "Maintained": "True"}
    assert "test-secret" not in str(scene.objects.table("payments")) + str(runs) + str(job) + log
