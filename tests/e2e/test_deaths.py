"""Whatever dies while a run is under way, the run ends well, and nothing is lost."""

import pytest

from tests.e2e.place import Place
from tests.servers.kubernetes import kubectl
from tests.servers.node import Node
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(600)
NOW = ("--grace-period=0", "--force")


def begun_run(place: Place) -> tuple[str, list[int]]:
    """A compaction whose executors are there, and what is in the table."""
    place.declare()
    written = place.write(commits=10, rows=40)
    run = place.ask_for("Compact")
    place.wait_for_executors()
    return run, written


def ends_well(place: Place, run: str, written: list[int]) -> None:
    status = place.wait_for_run(run)
    assert status["phase"] == "Succeeded", status
    assert status["result"]["rewrittenFiles"] >= 40
    table = place.table()
    assert sum(1 for each in table.snapshots() if each.summary and each.summary.operation.value == "replace") == 1
    assert len(list(table.scan().plan_files())) == 4
    assert place.ids() == written


def test_a_driver_that_is_deleted_is_followed_by_another(place: Place) -> None:
    run, written = begun_run(place)
    first = place.driver(run).metadata
    place.kubectl("delete", "pod", first.name, *NOW)
    eventually(lambda: place.driver(run).metadata.uid, lambda uid: uid != first.uid)
    ends_well(place, run, written)


def test_an_executor_that_is_deleted_is_replaced_by_spark(place: Place) -> None:
    run, written = begun_run(place)
    place.kubectl("delete", "pod", place.wait_for_executors()[0].metadata.name, *NOW)
    ends_well(place, run, written)


def test_an_operator_that_is_deleted_leaves_the_run_to_its_standby(place: Place, operator: str) -> None:
    run, written = begun_run(place)
    leader = _leader(place, operator)
    kubectl(place.access, "delete", "pod", "-n", operator, leader, *NOW)
    ends_well(place, run, written)
    assert _leader(place, operator) != leader


def test_containers_outlive_a_restart_of_the_nodes_runtime(place: Place, node: Node | None) -> None:
    if node is None:
        pytest.skip("the suite restarts the runtime of its own node only")
    run, written = begun_run(place)
    node.restart_containerd()
    ends_well(place, run, written)


@pytest.mark.parametrize("catalog_kind", ["dynamoDB"], indirect=True)
def test_a_run_whose_job_is_deleted_fails_and_says_so(place: Place) -> None:
    run, written = begun_run(place)
    place.kubectl("delete", "job", run)
    status = place.wait_for_run(run)
    assert (status["phase"], status["reason"]) == ("Failed", "JobDeleted")
    assert place.ids() == written
    eventually(place.executors, lambda left: not left)


@pytest.mark.parametrize("catalog_kind", ["configMap"], indirect=True)
def test_a_standby_takes_over_when_the_leader_is_killed(place: Place, operator: str) -> None:
    place.declare()
    leader = _leader(place, operator)
    kubectl(place.access, "delete", "pod", "-n", operator, leader, *NOW)
    eventually(lambda: _leader(place, operator), lambda now: now not in ("", leader), seconds=60)
    place.declare(properties={"write.parquet.compression-codec": "gzip"})
    assert place.table().properties["write.parquet.compression-codec"] == "gzip"


def _leader(place: Place, operator: str) -> str:
    path = "jsonpath={.spec.holderIdentity}"
    return kubectl(place.access, "get", "lease", "tablewright", "-n", operator, "-o", path)
