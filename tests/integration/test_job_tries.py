"""How often a run is tried: the real Job controller, on pods whose drivers end as the test says."""

from collections.abc import Iterator

import pytest
from kubernetes import client

from tablejobs.__main__ import GIVE_UP, TRY_AGAIN
from tablewright.act.jobs import JobSettings, build_job
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import parse
from tablewright.api.run import MaintenanceRun
from tablewright.api.table import ManagedTable
from tablewright.decide.policy import effective_policy
from tests.servers.kubelet import Ending, Kubelet, Pod
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.waiting import eventually

GAVE_UP, FAILED, SUCCEEDED = Ending(GIVE_UP), Ending(TRY_AGAIN), Ending(0)
EVICTED, EVICTED_BY_FORCE, KILLED = Ending(143, disrupted=True), Ending(137, disrupted=True), Ending(137)
TABLE = {"catalogRef": {"name": "lake"}, "schema": {"columns": [{"name": "id", "type": "long"}]}}
LAKE = {"configMap": {}, "warehouse": "s3://bucket/warehouse"}


def job(namespace: str, settings: JobSettings, operation: str) -> dict[str, object]:
    def metadata(name: str) -> dict[str, str]:
        return {"name": name, "namespace": namespace, "uid": name}

    table = parse(ManagedTable, {"metadata": metadata("payments"), "spec": TABLE})
    lake = parse(TableCatalog, {"metadata": metadata("lake"), "spec": LAKE})
    spec = {"tableRef": {"name": "payments"}, "operation": operation}
    run = parse(MaintenanceRun, {"metadata": metadata("run"), "spec": spec})
    made = build_job(run, table, effective_policy(table, [], lake), lake, settings)
    del made["metadata"]["ownerReferences"]  # the run itself is not there
    return made


@pytest.mark.parametrize(
    ("operation", "endings", "reason"),
    [
        ("Compact", [GAVE_UP], "PodFailurePolicy"),
        ("Compact", [FAILED, FAILED], "BackoffLimitExceeded"),
        ("Compact", [EVICTED, EVICTED, SUCCEEDED], None),
        ("Compact", [KILLED, SUCCEEDED], None),
        ("ExpireSnapshots", [KILLED], "PodFailurePolicy"),
        ("ExpireSnapshots", [EVICTED_BY_FORCE, SUCCEEDED], None),
    ],
)
def test_a_driver_that_gives_up_is_the_last_and_one_that_was_disrupted_does_not_count(
    operation: str,
    endings: list[Ending],
    reason: str | None,
    kubernetes: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
) -> None:
    batch = client.BatchV1Api(kube_api)
    kubectl(kubernetes, "create", "serviceaccount", "tablewright-jobs", "-n", kube_namespace)
    left: Iterator[Ending] = iter(endings)
    ended: list[str] = []

    def run(pod: Pod) -> Ending:
        ended.append(pod.metadata.name)
        return next(left)

    def conditions() -> dict[str, str]:
        found = batch.read_namespaced_job("run", kube_namespace).status.conditions or []
        return {each.type: each.reason for each in found if each.status == "True"}

    with Kubelet(kube_api, kube_namespace, run):
        settings = JobSettings(image="jobs:1", backoff_limit=1)
        batch.create_namespaced_job(kube_namespace, job(kube_namespace, settings, operation))
        final = eventually(conditions, lambda found: bool({"Complete", "Failed"} & found.keys()), seconds=120)
    assert final.get("Failed") == reason
    assert len(ended) == len(endings)
