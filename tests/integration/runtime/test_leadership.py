"""Two operators and one Lease, on a real API server: one acts, the other takes over, and never both."""

import signal
from pathlib import Path

import pytest
from kubernetes import client

from tests.integration.runtime.conftest import spec
from tests.operators import Namespace, OperatorProcesses, Replica
from tests.servers.proxy import Break, Fault, FaultProxy
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")


def declare(namespace: Namespace, name: str) -> None:
    namespace.apply("ManagedTable", name, spec(name))


def ready(namespace: Namespace, name: str) -> None:
    eventually(lambda: namespace.conditions(name), lambda c: c.get("Ready") == "True/Available")


def leader_and_standby(processes: OperatorProcesses, *options: str) -> tuple[Replica, Replica]:
    leader = processes.start_replica("first", *options)
    eventually(leader.leads, bool)
    standby = processes.start_replica("second", *options)
    eventually(lambda: standby.get("/readyz"), lambda answer: answer == (200, "ok\n"))
    return leader, standby


def taken_over(leader: Replica, standby: Replica) -> bool:
    """The standby is asked first: what the leader says then is of a later moment, at which it must not lead."""
    taken = standby.leads()
    assert not (taken and leader.leads()), "never two"
    return taken


def lease_holder(kube_api: client.ApiClient, namespace: str) -> str:
    lease = client.CoordinationV1Api(kube_api).read_namespaced_lease("tablewright", namespace)
    return str(lease.spec.holder_identity or "")


def test_a_standby_is_ready_does_nothing_and_takes_over_when_the_leader_dies(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient
) -> None:
    leader, standby = leader_and_standby(processes, "--lease-seconds", "8")
    declare(namespace, "one")
    ready(namespace, "one")
    assert standby.get("/healthz") == (200, "ok\n")
    assert standby.metric('tablewright_reconcile_seconds_count{kind="ManagedTable",outcome="ok"}') is None
    assert leader.metric('tablewright_tables{condition="Ready",status="True"}') == 1
    assert standby.metric('tablewright_tables{condition="Ready",status="True"}') is None
    leader.process.kill()
    declare(namespace, "two")
    ready(namespace, "two")
    assert standby.leads()
    assert lease_holder(kube_api, namespace.name) == "second"


def test_a_leader_that_is_told_to_stop_ends_well_and_its_standby_takes_over_at_once(
    namespace: Namespace, processes: OperatorProcesses
) -> None:
    leader, standby = leader_and_standby(processes, "--lease-seconds", "120")
    leader.process.send_signal(signal.SIGTERM)
    assert leader.process.wait(30) == 0
    eventually(standby.leads, bool, seconds=60)  # half of the lease's time
    declare(namespace, "after")
    ready(namespace, "after")


def test_a_leader_that_was_frozen_writes_nothing_when_it_wakes_up(
    namespace: Namespace, processes: OperatorProcesses
) -> None:
    leader, standby = leader_and_standby(processes, "--lease-seconds", "8")
    leader.process.send_signal(signal.SIGSTOP)
    declare(namespace, "meanwhile")
    ready(namespace, "meanwhile")
    passes = 'tablewright_reconcile_seconds_count{kind="ManagedTable",outcome="ok"}'
    leader.process.send_signal(signal.SIGCONT)
    eventually(leader.leads, lambda leads: not leads)
    declare(namespace, "later")
    ready(namespace, "later")
    assert standby.leads()
    assert leader.metric(passes) is None, "it has seen both tables, and touched neither"
    assert "stands by" in leader.log.read_text()


def test_a_leader_that_is_cut_off_stops_acting_before_its_lease_runs_out(
    namespace: Namespace, processes: OperatorProcesses, tmp_path: Path
) -> None:
    with FaultProxy(namespace.access.server, namespace.access.certificate) as proxy:
        behind = namespace.access.kubeconfig_with_token("admin-token", tmp_path / "behind.json", server=proxy.url)
        leader = processes.start_replica("first", "--lease-seconds", "12", kubeconfig=behind)
        eventually(leader.leads, bool)
        standby = processes.start_replica("second", "--lease-seconds", "12")
        eventually(lambda: standby.get("/readyz")[0], lambda status: status == 200)
        proxy.faults.append(Fault(lambda _: True, Break.CUT_BEFORE, times=None))
        proxy.cut_watches()
        eventually(lambda: taken_over(leader, standby), bool)
        assert leader.get("/healthz")[0] == 200, "a server that is away is no reason to be restarted"
        proxy.faults.clear()
        declare(namespace, "after")
        ready(namespace, "after")
        assert not leader.leads()
        assert leader.process.poll() is None


def test_a_single_replica_needs_no_lease(
    namespace: Namespace, processes: OperatorProcesses, kube_api: client.ApiClient
) -> None:
    only = processes.start_replica("only", "--no-leader-election")
    declare(namespace, "alone")
    ready(namespace, "alone")
    assert only.leads()
    assert client.CoordinationV1Api(kube_api).list_namespaced_lease(namespace.name).items == []
