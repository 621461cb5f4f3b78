"""Faults on a real API server: whatever happens to the operator and its connections, the end state is the same."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config
from pyiceberg.catalog import Catalog

from tests.integration.runtime.conftest import spec
from tests.lives import dying_operator, live
from tests.operators import Namespace, OperatorProcesses, operators
from tests.servers.kubernetes import ControlPlane, kubectl
from tests.servers.proxy import Answer, Fault, FaultProxy, Request
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("deletion", ["Drop", "Purge"])
def test_an_operator_that_dies_after_every_single_write_leads_a_table_through_its_life(
    namespace: Namespace,
    processes: OperatorProcesses,
    catalog: Catalog,
    kube_api: client.ApiClient,
    tmp_path: Path,
    deletion: str,
) -> None:
    with dying_operator(namespace, processes, tmp_path, dies=lambda _: True) as undertaker:
        life = live(namespace, catalog, kube_api, seconds=240, deletion=deletion)
    assert undertaker.deaths >= 10
    assert (life.files == 0) == (deletion == "Purge")
    assert len(life.uuids) == 1, "the table was created once"
    assert (life.runs, life.jobs) == (1, 1), "no run was doubled"
    assert max(life.told.values()) == 1, life.told


def test_what_was_deleted_while_the_watches_were_away_is_not_waited_for(
    namespace: Namespace, processes: OperatorProcesses, tmp_path: Path
) -> None:
    """A run that nobody tells of any more must not hold its table up: a new leader lists before it acts."""
    with FaultProxy(namespace.access.server, namespace.access.certificate) as proxy:
        behind = namespace.access.kubeconfig_with_token("admin-token", tmp_path / "behind.json", server=proxy.url)
        replica = processes.start_replica("cut", "--lease-seconds", "3", kubeconfig=behind)
        namespace.apply("ManagedTable", "held", spec("held"))
        eventually(lambda: namespace.conditions("held"), lambda c: c.get("Ready") == "True/Available")
        namespace.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "held"}, "operation": "Compact"})
        eventually(namespace.runs, lambda runs: bool((runs[0].get("status") or {}).get("jobName")))
        away = threading.Event()
        proxy.faults.append(_away(away))
        proxy.cut_watches()
        eventually(replica.leads, lambda leads: not leads)
        namespace.delete("maintenancerun", "by-hand")
        namespace.apply("MaintenanceRun", "next", {"tableRef": {"name": "held"}, "operation": "Inspect"})
        away.set()
        status = eventually(lambda: namespace.run_status("next"), lambda status: "jobName" in status)
    assert status.get("message") != "waits for run by-hand"


def test_a_table_is_told_to_be_dropped_and_no_more_though_its_object_is_edited_meanwhile(
    namespace: Namespace, processes: OperatorProcesses, tmp_path: Path
) -> None:
    with FaultProxy(namespace.access.server, namespace.access.certificate) as proxy:
        behind = namespace.access.kubeconfig_with_token("admin-token", tmp_path / "behind.json", server=proxy.url)
        processes.start_replica("edited", kubeconfig=behind)
        namespace.apply("ManagedTable", "edited", spec("edited", deletionPolicy="Drop"))
        eventually(lambda: namespace.conditions("edited"), lambda c: c.get("InSync") == "True/AsDeclared")

        def edit(request: Request) -> None:
            """Between the drop, which is told of first, and the object's release."""
            if request.method == "POST" and request.path.partition("?")[0].endswith("/events"):
                kubectl(namespace.access, "-n", namespace.name, "annotate", "managedtable", "edited", "by=hand")

        proxy.applied = edit
        namespace.delete("managedtable", "edited")
        eventually(lambda: namespace.table("edited"), lambda obj: obj is None)
    reasons = [event["reason"] for event in namespace.events()]
    assert reasons[-1] == "Dropped"
    assert "Released" not in reasons


@pytest.mark.timeout(600)
def test_an_operator_whose_watches_lag_behind_does_nothing_twice(
    namespace: Namespace,
    processes: OperatorProcesses,
    catalog: Catalog,
    kube_api: client.ApiClient,
    tmp_path: Path,
) -> None:
    """What it sees is always seconds old: its own runs, Jobs and statuses, and what others commit."""
    with FaultProxy(namespace.access.server, namespace.access.certificate, watch_delay=3) as proxy:
        behind = namespace.access.kubeconfig_with_token("admin-token", tmp_path / "behind.json", server=proxy.url)
        processes.start_replica("stale", kubeconfig=behind)
        life = live(namespace, catalog, kube_api, seconds=240)
        processes.stop_all()
    assert len(life.uuids) == 1, "the table was created once"
    assert (life.runs, life.jobs) == (1, 1), "no run was doubled"
    assert max(life.told.values()) == 1, life.told


def test_cut_watches_lose_no_change(namespace: Namespace, processes: OperatorProcesses, tmp_path: Path) -> None:
    with FaultProxy(namespace.access.server, namespace.access.certificate) as proxy:
        behind = namespace.access.kubeconfig_with_token("admin-token", tmp_path / "behind.json", server=proxy.url)
        replica = processes.start_replica("cut", kubeconfig=behind)
        eventually(replica.leads, bool)
        eventually(lambda: len(proxy.streams), lambda streams: streams >= 6)
        cut = 0
        for number in range(6):
            namespace.apply("ManagedTable", f"t{number}", spec(f"t{number}"))
            cut += proxy.cut_watches()
            time.sleep(0.1 * number)
        names = [f"t{number}" for number in range(6)]
        eventually(
            lambda: [namespace.conditions(name).get("Ready") for name in names],
            lambda found: found == ["True/Available"] * 6,
        )
        assert cut >= 6
        assert replica.process.poll() is None


def test_somebody_who_keeps_changing_the_object_is_not_fought_with(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient, catalog: Catalog
) -> None:
    """A person edits labels, finalizers and even the status all the while; what is theirs stays, what is ours wins."""
    processes.start()
    custom = client.CustomObjectsApi(kube_api)
    where = ("tablewright.dev", "v1alpha1", namespace.name, "managedtables", "busy")
    namespace.apply("ManagedTable", "busy", spec("busy", deletionPolicy="Drop"))
    for number in range(15):
        custom.patch_namespaced_custom_object(
            *where,
            {"metadata": {"labels": {"n": str(number)}, "annotations": {"note": str(number)}}},
            _content_type="application/merge-patch+json",
        )
        custom.patch_namespaced_custom_object_status(
            *where, {"status": {"observedGeneration": -1}}, _content_type="application/merge-patch+json"
        )
    eventually(lambda: namespace.conditions("busy"), lambda c: c.get("InSync") == "True/AsDeclared")
    status = eventually(lambda: namespace.status("busy"), lambda status: status.get("observedGeneration") == 1)
    assert status["identity"]["uuid"] == str(catalog.load_table(("sales", "busy")).metadata.table_uuid)
    table = namespace.table("busy")
    assert table is not None
    assert (table["metadata"]["labels"]["n"], table["metadata"]["annotations"]["note"]) == ("14", "14")
    assert table["metadata"]["finalizers"] == ["tablewright.dev/table"]
    assert len([event for event in namespace.events() if event["reason"] == "Created"]) == 1


@pytest.fixture
def own_control_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path / "plane")
    yield plane
    plane.stop()


def test_a_restarted_api_server_is_survived(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    access, crds = own_control_plane.access, Path(__file__).parents[3] / "crds"
    kubectl(access, "apply", "--server-side", "-f", str(crds))
    kubectl(access, "wait", "--for=condition=Established", "--timeout=30s", "-f", str(crds))
    with config.new_client_from_config(str(access.kubeconfig)) as api:
        objects = Namespace(access, api, "default")
        objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": f"file://{tmp_path}/warehouse"})
        with operators(access.kubeconfig, "default", tmp_path / "operator.log") as processes:
            replica = processes.start_replica("survivor", "--lease-seconds", "6")
            objects.apply("ManagedTable", "before", spec("before"))
            eventually(lambda: objects.conditions("before"), lambda c: c.get("Ready") == "True/Available")
            own_control_plane.restart_api_server(away=12)
            eventually(replica.leads, bool)
            objects.apply("ManagedTable", "after", spec("after"))
            eventually(lambda: objects.conditions("after"), lambda c: c.get("Ready") == "True/Available")
            assert replica.process.poll() is None, "the same process"
            assert replica.get("/healthz")[0] == 200


def _away(back: threading.Event) -> Fault:
    return Fault(lambda _: not back.is_set(), Answer(503), times=None)
