"""A run that cannot go on says why, in one word and in a sentence: on real servers, as people would get it wrong."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kubernetes import client

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.maintenance.job import InspectWork, JobReport, MaintenanceJob
from tablejobs.failures import ask_bucket
from tests.operators import INSTALL, Namespace, install_operator, operators
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.servers.s3 import S3Access
from tests.waiting import eventually

QUOTA = {"metadata": {"name": "none-left"}, "spec": {"hard": {"pods": "0"}}}


def test_storage_itself_says_what_is_wrong_with_it(s3: S3Access, s3_bucket: str) -> None:
    properties = s3.file_io_properties()
    assert ask_bucket(s3_bucket, properties) is None

    def reason(bucket: str, **wrong: str) -> str | None:
        found = ask_bucket(
            bucket, properties | {f"s3.{name.replace('_', '-')}": value for name, value in wrong.items()}
        )
        return None if found is None else found.reason

    assert reason("no-such-bucket") == "BucketNotFound"
    assert reason(s3_bucket, secret_access_key="wrong") == "BadCredentials"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody else gets the port, and nobody listens
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert reason(s3_bucket, endpoint=endpoint) == "StorageUnavailable"


@pytest.mark.parametrize(
    ("wrong", "reason", "code"),
    [({"s3.secret-access-key": "wrong"}, "BadCredentials", 2), ({"s3.access-key-id": "nobody"}, "BadCredentials", 2)],
)
def test_a_driver_with_wrong_keys_ends_with_that_reason_and_is_not_tried_again(
    wrong: dict[str, str], reason: str, code: int, s3: S3Access, s3_bucket: str, tmp_path: Path
) -> None:
    config = SqlConfig(
        name="lake",
        uri=f"sqlite:///{tmp_path}/lake.db",
        warehouse=f"s3://{s3_bucket}/warehouse",
        properties=s3.file_io_properties(),
    )
    catalog = open_catalog(config)
    catalog.create_namespace("sales")
    catalog.create_table(("sales", "events"), pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    broken = config.model_copy(update={"properties": config.properties | wrong})
    work = InspectWork(small_file_bytes=1000)
    job = MaintenanceJob(run_id="r", catalog=broken, identifier=("sales", "events"), work=work)
    log = tmp_path / "termination-log"
    environment = {"TABLEWRIGHT_JOB": job.model_dump_json(), "TABLEWRIGHT_TERMINATION_LOG": str(log)}
    ended = subprocess.run([sys.executable, "-m", "tablejobs"], env=os.environ | environment, capture_output=True)
    report = JobReport.model_validate_json(log.read_text())
    assert (ended.returncode, report.reason) == (code, reason), ended.stderr
    assert s3_bucket in report.message
    assert "Traceback" not in ended.stderr.decode()


@pytest.mark.xdist_group("operator")
def test_a_run_whose_pod_does_not_start_says_why_and_goes_on_when_that_is_mended(
    crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, tmp_path: Path
) -> None:
    core, objects = client.CoreV1Api(kube_api), Namespace(crds, kube_api, kube_namespace)
    account = install_operator(crds, kube_api, kube_namespace, tmp_path, granted=[kube_namespace])
    kubectl(crds, "apply", "-n", kube_namespace, "-f", str(INSTALL / "jobs.yaml"))
    core.create_namespaced_resource_quota(kube_namespace, QUOTA)
    status = {
        "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    }  # the quota controller's to write; none runs here
    core.patch_namespaced_resource_quota_status("none-left", kube_namespace, status)
    objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": f"file://{tmp_path}/warehouse"})
    columns = [{"name": "id", "type": "long"}]
    objects.apply("ManagedTable", "events", {"catalogRef": {"name": "lake"}, "schema": {"columns": columns}})

    def run_status() -> dict[str, Any]:
        return objects.run_status("by-hand")

    with operators(account, kube_namespace, tmp_path / "operator.log") as processes:
        processes.start("--no-leader-election")
        eventually(lambda: objects.conditions("events"), lambda found: found.get("InSync") == "True/AsDeclared")
        objects.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "events"}, "operation": "Inspect"})

        waiting = eventually(run_status, lambda status: status.get("reason") == "PodsNotCreated")
        assert waiting["phase"] == "Pending"
        assert "exceeded quota: none-left" in waiting["message"]

        core.delete_namespaced_resource_quota("none-left", kube_namespace)
        [pod] = eventually(lambda: core.list_namespaced_pod(kube_namespace).items, lambda pods: len(pods) == 1)
        container = {"name": "driver", "image": "none", "imageID": "", "ready": False, "restartCount": 0}

        def report(phase: str, state: dict[str, Any]) -> None:
            body = {"status": {"phase": phase, "containerStatuses": [{**container, "state": state}]}}
            core.patch_namespaced_pod_status(pod.metadata.name, kube_namespace, body)

        report("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
        waiting = eventually(run_status, lambda status: status.get("reason") == "ImageNotPulled")
        assert "no such image" in waiting["message"]
        [condition] = [each for each in waiting["conditions"] if each["type"] == "Succeeded"]
        assert (condition["status"], condition["reason"]) == ("Unknown", "ImageNotPulled")

        done = JobReport(succeeded=True, reason="Completed", message="all well").to_termination_message()
        report("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed", "message": done}})
        ended = eventually(run_status, lambda status: status.get("phase") == "Succeeded")
        assert (ended.get("reason"), ended["message"]) == (None, "all well")
    told = [event["note"] for event in objects.events() if event["reason"] == "RunHeldUp"]
    assert any("exceeded quota" in note for note in told)
    assert any("ImageNotPulled" in note for note in told)


@pytest.mark.xdist_group("operator")
def test_a_run_whose_pod_does_not_start_gets_another_job_when_its_table_is_corrected(
    crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, tmp_path: Path
) -> None:
    core, batch = client.CoreV1Api(kube_api), client.BatchV1Api(kube_api)
    objects = Namespace(crds, kube_api, kube_namespace)
    account = install_operator(crds, kube_api, kube_namespace, tmp_path, granted=[kube_namespace])
    kubectl(crds, "apply", "-n", kube_namespace, "-f", str(INSTALL / "jobs.yaml"))
    objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": f"file://{tmp_path}/warehouse"})
    table = {"catalogRef": {"name": "lake"}, "schema": {"columns": [{"name": "id", "type": "long"}]}}
    objects.apply("ManagedTable", "events", {**table, "jobs": {"image": "jobs:wrong"}})

    def pods() -> list[Any]:
        return list(core.list_namespaced_pod(kube_namespace).items)

    def job() -> Any:
        return batch.read_namespaced_job("by-hand", kube_namespace)

    with operators(account, kube_namespace, tmp_path / "operator.log") as processes:
        processes.start("--no-leader-election")
        eventually(lambda: objects.conditions("events"), lambda found: found.get("InSync") == "True/AsDeclared")
        objects.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "events"}, "operation": "Inspect"})
        [first] = eventually(pods, lambda found: len(found) == 1)
        old = job().metadata.uid
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        container = {"name": "driver", "image": "jobs:wrong", "imageID": "", "ready": False, "restartCount": 0}
        body = {"status": {"phase": "Pending", "containerStatuses": [{**container, "state": waiting}]}}
        core.patch_namespaced_pod_status(first.metadata.name, kube_namespace, body)
        eventually(
            lambda: objects.run_status("by-hand"), lambda status: status.get("reason") == "ImageNotPulled", seconds=60
        )

        objects.apply("ManagedTable", "events", {**table, "jobs": {"image": "jobs:right"}})
        images = eventually(
            lambda: [each.spec.containers[0].image for each in pods()],
            lambda found: found == ["jobs:right"],
            seconds=90,
        )
        assert images == ["jobs:right"]
        assert job().metadata.uid != old
        status = eventually(lambda: objects.run_status("by-hand"), lambda status: status.get("reason") is None)
        assert status["phase"] in ("Pending", "Running")
    assert "JobReplaced" in {event["reason"] for event in objects.events()}
