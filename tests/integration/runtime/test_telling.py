"""What the operator tells people and machines: events, logs, probes and metrics; and what it never tells anybody."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes import client

from tests.integration.runtime.conftest import COLUMNS, spec
from tests.operators import INSTALL, Namespace, OperatorProcesses, kubeconfig_of
from tests.servers.kubelet import Ending, Kubelet
from tests.servers.kubernetes import kubectl
from tests.servers.s3 import S3Access
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")


def ready(namespace: Namespace, name: str) -> None:
    eventually(lambda: namespace.conditions(name), lambda c: c.get("InSync") == "True/AsDeclared")


def reasons(namespace: Namespace) -> list[str]:
    return [event["reason"] for event in namespace.events()]


def test_each_thing_that_happens_is_told_once_even_over_a_restart(
    namespace: Namespace, processes: OperatorProcesses
) -> None:
    operator = processes.start()
    namespace.apply("ManagedTable", "told", spec("told", deletionPolicy="Drop"))
    ready(namespace, "told")
    columns = [*COLUMNS, {"name": "n", "type": "int"}]
    namespace.apply("ManagedTable", "told", spec("told", deletionPolicy="Drop", schema={"columns": columns}))
    eventually(lambda: reasons(namespace), lambda found: "Evolved" in found)
    operator.kill()
    operator.wait()
    processes.start()
    smaller = [{"name": "id", "type": "int"}, *columns[1:]]
    namespace.apply("ManagedTable", "told", spec("told", deletionPolicy="Drop", schema={"columns": smaller}))
    eventually(lambda: reasons(namespace), lambda found: "Refused" in found)
    namespace.delete("managedtable", "told")
    eventually(lambda: namespace.table("told"), lambda obj: obj is None)
    assert reasons(namespace) == ["Created", "Available", "Evolved", "Refused", "Dropped"]
    [refused] = [event for event in namespace.events() if event["reason"] == "Refused"]
    assert refused["type"] == "Warning"
    assert "schema.columns[id].type" in refused["note"]
    assert refused["regarding"]["name"] == "told"


def test_a_run_is_told_of_counted_and_logged(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient
) -> None:
    replica = processes.start_replica("json", "--log-format", "json")
    namespace.apply("ManagedTable", "counted", spec("counted"))
    ready(namespace, "counted")
    namespace.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "counted"}, "operation": "Compact"})
    report = {"succeeded": True, "reason": "Compacted", "message": "nothing to do"}
    with Kubelet(kube_api, namespace.name, lambda _: Ending(0, json.dumps(report))):
        eventually(namespace.runs, lambda runs: (runs[0].get("status") or {}).get("phase") == "Succeeded")
    assert "RunSucceeded" in eventually(lambda: reasons(namespace), lambda found: "RunSucceeded" in found)
    assert replica.metric('tablewright_runs_total{operation="Compact",outcome="Succeeded"}') == 1
    eventually(lambda: replica.metric("tablewright_queue_depth"), lambda depth: depth == 0)
    assert (replica.metric('tablewright_api_requests_total{method="PATCH"}') or 0) > 0
    health = f'{{namespace="{namespace.name}",table="counted"}}'
    assert replica.metric(f"tablewright_table_data_files{health}") == 0
    lines = [json.loads(line) for line in replica.log.read_text().splitlines()]
    [line] = [line for line in lines if line.get("reason") == "RunSucceeded"]
    assert (line["table"], line["run"], line["operation"]) == (f"{namespace.name}/counted", "by-hand", "Compact")


def test_credentials_are_taken_up_without_a_restart_and_are_told_to_nobody(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient, s3: S3Access, s3_bucket: str
) -> None:
    core = client.CoreV1Api(kube_api)

    def keys(secret: str) -> dict[str, object]:
        values = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": secret}
        return {"metadata": {"name": "keys"}, "stringData": values}

    core.create_namespaced_secret(namespace.name, keys("wrong-and-confidential"))
    storage = {"endpoint": s3.endpoint, "region": "us-east-1", "credentialsSecretRef": {"name": "keys"}}
    warehouse = f"s3://{s3_bucket}/warehouse"
    namespace.apply("TableCatalog", "s3", {"configMap": {}, "warehouse": warehouse, "storage": storage})
    processes.start("--log-format", "json")
    namespace.apply("ManagedTable", "rotated", spec("rotated", catalogRef={"name": "s3"}))
    eventually(lambda: processes.log.read_text(), lambda log: "rotated" in log)
    assert namespace.conditions("rotated").get("Ready") != "True/Available"
    core.replace_namespaced_secret("keys", namespace.name, keys(s3.secret_key))
    ready(namespace, "rotated")
    namespace.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "rotated"}, "operation": "Compact"})
    batch = client.BatchV1Api(kube_api)
    jobs = eventually(lambda: batch.list_namespaced_job(namespace.name).items, bool)
    told = [
        processes.log.read_text(),
        *(str(obj) for obj in (namespace.table("rotated"), namespace.runs(), namespace.events(), jobs)),
        kubectl(namespace.access, "get", "tablecatalogs,configmaps", "-n", namespace.name, "-o", "yaml"),
    ]
    for secret in ("wrong-and-confidential", s3.secret_key):
        assert not any(secret in text for text in told)


class Blabbermouth(BaseHTTPRequestHandler):
    """A catalog's server that refuses a token, and repeats it."""

    def do_GET(self) -> None:
        words = f"this is no token of ours: {self.headers.get('Authorization')}"
        content = json.dumps({"error": {"message": words, "type": "NotAuthorizedException", "code": 401}}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the base class's way

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing."""


def test_a_credential_that_a_server_repeats_is_told_to_nobody(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient
) -> None:
    token = "very-confidential-token"
    body = {"metadata": {"name": "token"}, "stringData": {"ICEBERG_TOKEN": token}}
    client.CoreV1Api(kube_api).create_namespaced_secret(namespace.name, body)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blabbermouth)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        rest = {"uri": f"http://127.0.0.1:{server.server_port}", "credentialsSecretRef": {"name": "token"}}
        namespace.apply("TableCatalog", "blabs", {"rest": rest})
        namespace.apply("ManagedTable", "hushed", spec("hushed", catalogRef={"name": "blabs"}))
        processes.start()
        eventually(lambda: namespace.conditions("hushed"), lambda c: c.get("Ready", "True").startswith("False"))
        assert "this is no token of ours" in str(namespace.table("hushed")), "what the server says is told"
        told = [
            processes.log.read_text(),
            *(str(obj) for obj in (namespace.table("hushed"), namespace.events())),
            kubectl(namespace.access, "get", "tablecatalogs", "-n", namespace.name, "-o", "yaml"),
        ]
        assert not any(token in text for text in told)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_namespaced_installation_needs_no_cluster_role(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient, tmp_path: Path
) -> None:
    kubectl(namespace.access, "apply", "-n", namespace.name, "-f", str(INSTALL / "namespaced.yaml"))
    account = kubeconfig_of(namespace.access, kube_api, namespace.name, "tablewright", tmp_path)
    replica = processes.start_replica("namespaced", "--lease-namespace", namespace.name, kubeconfig=account)
    namespace.apply("ManagedTable", "modest", spec("modest", deletionPolicy="Purge"))
    ready(namespace, "modest")
    namespace.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "modest"}, "operation": "Compact"})
    report = {"succeeded": True, "reason": "Compacted", "message": "nothing to do"}
    with Kubelet(kube_api, namespace.name, lambda _: Ending(0, json.dumps(report))):
        eventually(namespace.runs, lambda runs: (runs[0].get("status") or {}).get("phase") == "Succeeded")
    namespace.delete("managedtable", "modest")
    eventually(lambda: namespace.table("modest"), lambda obj: obj is None)
    assert {"Created", "RunSucceeded", "Purged"} <= set(reasons(namespace))
    assert "forbidden" not in replica.log.read_text().lower()
