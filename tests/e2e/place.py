"""A namespace of a test's own on a real cluster: its catalog, its tables, who writes to them, and what became of it."""

import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from kubernetes import client
from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tableformat.catalogs import ConfigMapConfig, DynamoDbConfig, open_catalog
from tableformat.catalogs.config import CatalogConfig
from tests.conftest import unique
from tests.e2e import writer
from tests.e2e.cluster import ClusterChoice
from tests.operators import Namespace
from tests.servers.dynamodb import DynamoDbAccess
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.s3 import REGION, S3Access
from tests.waiting import eventually

SYSTEM, JOBS_ACCOUNT = "tablewright-system", "tablewright-jobs"
# As the chart's notes say it: nothing else is done in a namespace for its tables.
GRANT = [f"--clusterrole=tablewright-{SYSTEM}-tables", f"--serviceaccount={SYSTEM}:tablewright"]
WRITER = Path(__file__).parent / "writer.py"
KEYS = "lake-keys"
IDENTIFIER = ("sales", "payments")
TABLE = "payments"

COLUMNS = [
    {"name": "txn_id", "type": "long", "required": True, "doc": "the payment's id"},
    {"name": "city", "type": "string"},
    {"name": "amount", "type": "int"},
]
# Two executors, however little there is to do, on a machine with two cores.
SPREAD: dict[str, Any] = {
    "executors": {"max": 2, "cores": 1, "cpu": "100m", "memory": "1536Mi", "bytesEach": "1Ki"},
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
}
ALONE: dict[str, Any] = {"executors": {"max": 0}, "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}


def restricted_namespace(api: client.ApiClient, name: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.CoreV1Api(api).create_namespace({"metadata": {"name": name, "labels": labels}})


def table_spec(**fields: Any) -> dict[str, Any]:
    return {
        "catalogRef": {"name": "lake"},
        "identifier": {"namespace": IDENTIFIER[0], "name": IDENTIFIER[1]},
        "schema": {"columns": COLUMNS, "identifierColumns": ["txn_id"]},
        "partitioning": [{"column": "city", "transform": "identity"}],
        "layout": {"targetFileSize": "64Mi"},
        "jobs": SPREAD,
        **fields,
    }


class Place:
    def __init__(
        self,
        access: KubernetesAccess,
        api: client.ApiClient,
        name: str,
        choice: ClusterChoice,
        s3: S3Access,
        dynamodb: DynamoDbAccess,
        kind: str,
    ) -> None:
        self.access, self.name, self.kind = access, name, kind
        self._s3, self._dynamodb, self._image = s3, dynamodb, choice.jobs_image
        self.core, self.batch = client.CoreV1Api(api), client.BatchV1Api(api)
        self.objects = Namespace(access, api, name)
        self.bucket = unique("bucket")
        s3.client().create_bucket(Bucket=self.bucket)
        restricted_namespace(api, name)
        self.kubectl("create", "rolebinding", "tablewright", *GRANT)
        self.write_keys(s3.secret_key)
        self.objects.apply("TableCatalog", "lake", self.catalog_spec())
        eventually(lambda: self.kubectl("get", "serviceaccounts", "-o", "name"), lambda names: JOBS_ACCOUNT in names)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return kubectl(self.access, "-n", self.name, *words, stdin=stdin)

    def remove(self) -> None:
        self.kubectl("delete", "namespace", self.name, "--wait=false", "--ignore-not-found")

    def write_keys(self, secret_key: str) -> None:
        keys = {"AWS_ACCESS_KEY_ID": self._s3.access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEYS}, "stringData": keys}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(secret))

    def catalog_spec(self, bucket: str | None = None) -> dict[str, Any]:
        stores = {
            "configMap": {},
            "dynamoDB": {"tableName": self.name, "endpoint": self._dynamodb.endpoint, "createTable": True},
        }
        return {
            self.kind: stores[self.kind],
            "warehouse": f"s3://{bucket or self.bucket}/warehouse",
            "storage": {
                "endpoint": self._s3.endpoint,
                "region": REGION,
                "credentialsSecretRef": {"name": KEYS},
            },
        }

    # -- tables

    def declare(self, name: str = TABLE, *, wait: bool = True, **fields: Any) -> None:
        self.objects.apply("ManagedTable", name, table_spec(**fields))
        if wait:
            generation = (self.objects.table(name) or {})["metadata"]["generation"]
            eventually(lambda: self.objects.status(name), lambda s: s.get("observedGeneration") == generation)
            eventually(lambda: self.conditions(name), lambda c: c["InSync"] == "True")  # a writer may win a few races

    def conditions(self, name: str = TABLE) -> dict[str, str]:
        return {kind: state.split("/")[0] for kind, state in self.objects.conditions(name).items()}

    def config(self, *, outside: bool) -> ConfigMapConfig | DynamoDbConfig:
        """How the catalog is opened: by a pod, or from outside of the cluster."""
        properties = self._s3.file_io_properties()
        warehouse = f"s3://{self.bucket}/warehouse"
        if self.kind == "configMap":
            kubeconfig = str(self.access.kubeconfig) if outside else None
            return ConfigMapConfig(
                name="lake", warehouse=warehouse, namespace=self.name, kubeconfig=kubeconfig, properties=properties
            )
        keys = {
            "dynamodb.access-key-id": self._dynamodb.access_key,
            "dynamodb.secret-access-key": self._dynamodb.secret_key,
        }
        return DynamoDbConfig(
            name="lake",
            warehouse=warehouse,
            table_name=self.name,
            region=REGION,
            endpoint=self._dynamodb.endpoint,
            properties=properties | keys,
        )

    def catalog(self) -> Catalog:
        return open_catalog(self.config(outside=True))

    def table(self) -> Table:
        return self.catalog().load_table(IDENTIFIER)

    def rows(self) -> pa.Table:
        return self.table().scan().to_arrow().sort_by("txn_id")

    def ids(self) -> list[int]:
        found: list[int] = self.rows()["txn_id"].to_pylist()
        return found

    # -- writers

    def start_writer(self, *, first: int = 0, commits: int, rows: int, pause: float = 0.0, after: str = "") -> str:
        """A pod that appends; what it has written is its termination message. If it is to go on `after` the table has
        a certain column, commits before that do not count."""
        name = unique("writer")
        work: dict[str, Any] = {"first": first, "commits": commits, "rows": rows, "identifier": list(IDENTIFIER)}
        work |= {"pause": pause, "after": after}
        config = TypeAdapter[Any](CatalogConfig).dump_python(self.config(outside=False), mode="json")
        env = [
            {"name": "WORK", "value": json.dumps(work)},
            {"name": "CATALOG", "value": json.dumps(config)},
        ]
        container = {
            "name": "writer",
            "image": self._image,
            "args": ["python", "-c", WRITER.read_text()],
            "env": env,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": {"requests": {"cpu": "50m"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec = {
            "restartPolicy": "Never",
            "serviceAccountName": JOBS_ACCOUNT,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
        self.core.create_namespaced_pod(self.name, {"metadata": {"name": name}, "spec": spec})
        return name

    def written_by(self, pod_name: str) -> list[int]:
        """The ids that it wrote, when it has come to its end."""
        pod = eventually(
            lambda: self.core.read_namespaced_pod(pod_name, self.name),
            lambda pod: pod.status.phase in ("Succeeded", "Failed"),
            seconds=240,
        )
        message = pod.status.container_statuses[0].state.terminated.message
        assert pod.status.phase == "Succeeded", message
        first, end = json.loads(message)
        return list(range(first, end))

    def write(self, *, first: int = 0, commits: int, rows: int, payload: int = 0) -> list[int]:
        """As a pod does, from outside of the cluster, which is quicker."""
        table = self.table()
        for start in range(first, first + commits * rows, rows):
            table.append(writer.rows(start, rows, payload))
        return list(range(first, first + commits * rows))

    # -- runs

    def ask_for(self, operation: str, *, table: str = TABLE) -> str:
        """A run by hand; returns its name."""
        name = unique(operation.lower())
        self.objects.apply("MaintenanceRun", name, {"tableRef": {"name": table}, "operation": operation})
        return name

    def run(self, name: str) -> dict[str, Any]:
        return self.objects.run_status(name)

    def wait_for_run(self, name: str, *, seconds: float = 300) -> dict[str, Any]:
        return eventually(
            lambda: self.run(name), lambda run: run.get("phase") in ("Succeeded", "Failed"), seconds=seconds
        )

    def done(
        self, operation: str, *, having: Callable[[list[dict[str, Any]]], bool] = bool, seconds: float = 300
    ) -> list[dict[str, Any]]:
        """The statuses of the runs of this operation that have succeeded, whoever asked for them; waits for them."""

        def succeeded() -> list[dict[str, Any]]:
            runs = [run for run in self.objects.runs() if run["spec"]["operation"] == operation]
            return [run["status"] for run in runs if (run.get("status") or {}).get("phase") == "Succeeded"]

        return eventually(succeeded, having, seconds=seconds)

    def pods(self, selector: str) -> list[Any]:
        return list(self.core.list_namespaced_pod(self.name, label_selector=selector).items)

    def executors(self) -> list[Any]:
        return self.pods("spark-role=executor")

    def driver(self, run: str) -> Any:
        found = eventually(lambda: self.pods(f"batch.kubernetes.io/job-name={run}"), bool)
        return max(found, key=lambda pod: pod.metadata.creation_timestamp)

    def wait_for_executors(self) -> list[Any]:
        """At least one of them runs."""
        return eventually(lambda: [pod for pod in self.executors() if pod.status.phase == "Running"], bool, seconds=120)

    def reasons(self) -> set[str]:
        return {event["reason"] for event in self.objects.events()}

    def describe(self) -> str:
        """For whoever has to find out why a test failed."""
        parts = []
        for words in (
            ["get", "mtbl,mrun,jobs,pods", "-o", "wide"],
            ["get", "events"],
            ["get", "mrun", "-o", 'jsonpath={range .items[*]}{.metadata.name} {.status}{"\\n"}{end}'],
            ["logs", "-l", "app.kubernetes.io/managed-by=tablewright", "--tail=40", "--prefix"],
        ):
            with contextlib.suppress(subprocess.CalledProcessError):
                parts.append(self.kubectl(*words))
        return "\n".join(parts)
