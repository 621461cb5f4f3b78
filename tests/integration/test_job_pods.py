"""What a driver learns from the pods before it, by the real API server."""

from pathlib import Path

import pytest
from kubernetes import client

from tableformat.catalogs import SqlConfig
from tableformat.maintenance.compaction import CompactionOptions
from tableformat.maintenance.job import CompactWork, MaintenanceJob, RunReference
from tablejobs.attempt import Attempt
from tablejobs.pods import DRIVER_LABEL

KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


@pytest.fixture
def killed_before(kube_api: client.ApiClient, kube_namespace: str) -> str:
    """A run whose Job has had a pod that was killed for want of memory."""
    core, labels = client.CoreV1Api(kube_api), {"batch.kubernetes.io/job-name": "compact"}
    container = {"name": "driver", "image": "jobs:1"}
    pod = {"metadata": {"name": "compact-aaaaa", "labels": labels}, "spec": {"containers": [container]}}
    core.create_namespaced_pod(kube_namespace, pod)
    ended = {**container, "imageID": "", "ready": False, "restartCount": 0, "state": KILLED}
    status = {"phase": "Failed", "containerStatuses": [ended]}
    core.patch_namespaced_pod_status("compact-aaaaa", kube_namespace, {"status": status})
    return "compact"


@pytest.mark.parametrize("beside_executors", [False, True])
def test_a_driver_knows_of_the_kill_before_it_and_whether_that_one_had_executors(
    beside_executors: bool,
    kube_api: client.ApiClient,
    kube_namespace: str,
    killed_before: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = {DRIVER_LABEL: "compact-aaaaa" if beside_executors else "of-another-run"}
    executor = {"metadata": {"name": "exec-1", "labels": labels}, "spec": {"containers": [{"name": "e", "image": "i"}]}}
    client.CoreV1Api(kube_api).create_namespaced_pod(kube_namespace, executor)
    monkeypatch.setattr("tablejobs.pods.api_client", lambda: kube_api)
    monkeypatch.setenv("TABLEWRIGHT_POD_NAME", "compact-bbbbb")
    monkeypatch.setenv("TABLEWRIGHT_POD_NAMESPACE", kube_namespace)
    job = MaintenanceJob(
        run_id="r",
        catalog=SqlConfig(name="lake", uri="sqlite://", warehouse=f"file://{tmp_path}"),
        identifier=("sales", "payments"),
        work=CompactWork(options=CompactionOptions()),
        out_of_memory=1,
        run=RunReference(namespace=kube_namespace, name=killed_before),
    )
    attempt = Attempt.of(job, cores=2)
    assert attempt.earlier_out_of_memory == 2, "of the run before, and of the pod before"
    assert attempt.driver_was_killed, "so it may end before it begins"
    assert attempt.beside_executors == beside_executors
    assert attempt.driver is None
