"""When the operator maintains a table, on a real API server: a test plays the drivers, and says how each run ends."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from kubernetes import client
from pyiceberg.catalog import Catalog

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tableformat.maintenance.job import MaintenanceJob
from tests.conftest import new_namespace
from tests.operators import INSTALL, Namespace, kubeconfig_of, operators
from tests.servers.kubelet import Ending, Kubelet, Pod
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")

COLUMNS = [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}]
DONE: dict[str, Any] = {"succeeded": True, "reason": "Completed", "message": "rewrote 9 files into 1"}
FAILED: dict[str, Any] = {"succeeded": False, "reason": "OutOfMemory", "message": "no memory"}


class Drivers:
    """Ends each run's pod as the test says, by table; until it says so, the pod runs."""

    def __init__(self) -> None:
        self.jobs: dict[str, MaintenanceJob] = {}  # by run
        self._reports: dict[str, dict[str, Any]] = {}  # by table
        self._changed = threading.Condition()
        self._over = False

    def end(self, table: str, report: dict[str, Any] | None) -> None:
        """All of the table's runs from now on end so; None: they go on."""
        with self._changed:
            if report is None:
                self._reports.pop(table, None)
            else:
                self._reports[table] = report
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def __call__(self, pod: Pod) -> Ending:
        [given] = [each.value for each in pod.spec.containers[0].env if each.name == "TABLEWRIGHT_JOB"]
        job = MaintenanceJob.model_validate_json(given)
        table = job.identifier[-1]
        with self._changed:
            if job.run is not None:
                self.jobs[job.run.name] = job
            self._changed.wait_for(lambda: self._over or table in self._reports)
            report = self._reports.get(table, FAILED)
        return Ending(0 if report["succeeded"] else 2, json.dumps(report))


class Scene:
    def __init__(self, objects: Namespace, drivers: Drivers, catalog: Catalog, core: client.CustomObjectsApi) -> None:
        self.objects, self.drivers, self.catalog, self._custom = objects, drivers, catalog, core

    def declare(self, name: str, **spec: Any) -> None:
        identifier = {"namespace": "sales", "name": name}
        whole = {"catalogRef": {"name": "lake"}, "identifier": identifier, "schema": {"columns": COLUMNS}, **spec}
        self.objects.apply("ManagedTable", name, whole)
        ready = {"InSync": "True/AsDeclared"}
        # The first is declared while the operator starts, which takes long on a busy machine.
        eventually(lambda: self.objects.conditions(name), lambda c: ready.items() <= c.items(), seconds=180)

    def write(self, name: str, files: int = 1) -> None:
        table = self.catalog.load_table(("sales", name))
        for number in range(files):
            table.append(pa.table({"id": [number], "city": ["Pune"]}))

    def annotate(self, name: str, operation: str) -> None:
        command = ("annotate", "-n", self.objects.name, "managedtable", name, f"tablewright.dev/run={operation}")
        kubectl(self.objects.access, *command, "--overwrite")

    def runs(self, table: str) -> list[dict[str, Any]]:
        found = [run for run in self.objects.runs() if run["spec"]["tableRef"]["name"] == table]
        return sorted(found, key=lambda run: str(run["metadata"]["creationTimestamp"]))

    def phases(self, table: str) -> list[str]:
        return [(run.get("status") or {}).get("phase", "") for run in self.runs(table)]

    def operation(self, table: str, operation: str) -> dict[str, Any]:
        known = self.objects.status(table).get("operations") or []
        return next((dict(each) for each in known if each["operation"] == operation), {})

    def make_run(self, name: str, table: str, operation: str, **spec: Any) -> None:
        self.objects.apply("MaintenanceRun", name, {"tableRef": {"name": table}, "operation": operation, **spec})

    def ends(self, table: str, count: int, phase: str = "Succeeded") -> list[dict[str, Any]]:
        eventually(lambda: self.phases(table), lambda phases: phases.count(phase) == count)
        return self.runs(table)


@pytest.fixture(scope="module")
def scene(
    crds: KubernetesAccess, kube_api: client.ApiClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """Two catalogs, of which one allows a single run; an operator that allows four."""
    folder, drivers = tmp_path_factory.mktemp("maintenance"), Drivers()
    kubectl(crds, "apply", "-f", str(INSTALL / "operator.yaml"))
    account = kubeconfig_of(crds, kube_api, "tablewright-system", "tablewright", folder)
    with new_namespace(kube_api) as name:
        objects = Namespace(crds, kube_api, name)
        kubectl(crds, "apply", "-n", name, "-f", str(INSTALL / "tables.yaml"))
        place = f"file://{folder}/warehouse"
        objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": place, "maxConcurrentRuns": 50})
        narrow = {"configMap": {}, "warehouse": f"{place}-narrow", "maxConcurrentRuns": 1}
        objects.apply("TableCatalog", "narrow", narrow)
        config = ConfigMapConfig(name="lake", warehouse=place, namespace=name, kubeconfig=str(crds.kubeconfig))
        with operators(account, name, folder / "operator.log") as processes, Kubelet(kube_api, name, drivers):
            processes.start("--no-leader-election", "--jobs-role", "tablewright-jobs")  # it creates the jobs' account
            yield Scene(objects, drivers, open_catalog(config), client.CustomObjectsApi(kube_api))
            drivers.stop()


def test_an_annotation_starts_one_run_and_is_removed(scene: Scene) -> None:
    scene.declare("asked")
    scene.drivers.end("asked", {**DONE, "after": {"data_files": 1}})
    scene.annotate("asked", "Inspect")
    [run] = scene.ends("asked", 1)
    assert run["status"]["cause"] == "Annotation"
    assert run["status"]["after"]["dataFiles"] == 1
    assert scene.drivers.jobs[run["metadata"]["name"]].work.operation == "Inspect"
    metadata = (scene.objects.table("asked") or {})["metadata"]
    assert "tablewright.dev/run" not in metadata.get("annotations", {})
    eventually(lambda: scene.operation("asked", "Inspect"), lambda status: "lastSuccess" in status)
    assert len(scene.runs("asked")) == 1


def test_a_table_with_a_long_name_is_maintained_all_the_same(scene: Scene) -> None:
    """A Job's name becomes a label's value, which may have 63 characters."""
    name = f"a-table-{'with-a-long-name-' * 4}indeed"
    scene.declare(name)
    scene.drivers.end(name, DONE)
    scene.annotate(name, "RemoveOrphanFiles")
    scene.ends(name, 1)


def test_an_annotation_that_names_no_operation_is_answered_with_those_that_are(scene: Scene) -> None:
    scene.declare("misasked")
    scene.annotate("misasked", "Compress")
    conditions = eventually(lambda: scene.objects.conditions("misasked"), lambda c: "RunAccepted" in c)
    assert conditions["RunAccepted"] == "False/UnknownOperation"
    [found] = [c for c in scene.objects.status("misasked")["conditions"] if c["type"] == "RunAccepted"]
    assert "Compact, ExpireSnapshots, RemoveOrphanFiles, RewriteManifests" in found["message"]
    assert scene.runs("misasked") == []


@pytest.mark.parametrize(
    ("operation", "spec"),
    [
        ("RewriteManifests", {}),
        ("DeleteExpiredRows", {"retention": {"rows": {"column": "id", "maxAge": "30d"}}}),
        ("Rollback", {}),
        ("CherryPick", {}),
        ("Inspect", {}),
        ("RemoveOrphanFiles", {}),
        ("ExpireSnapshots", {}),
        ("Compact", {}),
    ],
)
def test_every_operation_can_be_run_by_hand_even_while_the_table_is_suspended(
    scene: Scene, operation: str, spec: dict[str, Any]
) -> None:
    name = f"by-hand-{operation.lower()}"
    scene.declare(name, suspend=True, **spec)
    scene.drivers.end(name, DONE)
    where: dict[str, dict[str, Any]] = {
        "Rollback": {"rollback": {"tag": "before"}},
        "CherryPick": {"cherryPick": {"snapshotId": 7}},
    }
    scene.make_run(name, name, operation, **where.get(operation, {}))
    [run] = scene.ends(name, 1)
    assert run["status"]["cause"] == "Manual"
    assert scene.drivers.jobs[name].work.operation == operation


def test_a_dry_run_plans_and_changes_no_bookkeeping(scene: Scene) -> None:
    scene.declare("rehearsed", managementPolicy="Full")
    plan = {"files": 3, "bytes": 10, "rows": 0, "snapshots": 2, "lines": ["ref old"]}
    scene.drivers.end("rehearsed", {**DONE, "plan": plan})
    scene.make_run("rehearsal", "rehearsed", "ExpireSnapshots", dryRun=True)
    [run] = scene.ends("rehearsed", 1)
    assert run["status"]["plan"] == plan
    assert scene.drivers.jobs["rehearsal"].dry_run
    assert scene.operation("rehearsed", "ExpireSnapshots").get("lastRun") is None


def test_a_table_that_is_only_observed_refuses_runs_that_would_change_it(scene: Scene) -> None:
    scene.catalog.create_namespace_if_not_exists("sales")
    scene.catalog.create_table(("sales", "observed"), pa.schema([pa.field("id", pa.int64())]))
    scene.objects.apply(
        "ManagedTable",
        "observed",
        {
            "catalogRef": {"name": "lake"},
            "identifier": {"namespace": "sales", "name": "observed"},
            "managementPolicy": "ObserveOnly",
        },
    )
    scene.make_run("forbidden", "observed", "Compact")
    [run] = scene.ends("observed", 1, "Failed")
    assert "ObserveOnly changes nothing" in run["status"]["message"]


def test_a_trigger_compacts_once_and_then_the_table_is_quiet(scene: Scene) -> None:
    scene.declare("triggered", compaction={"triggers": {"smallFiles": 3}})
    result = {"files_rewritten": 3, "files_added": 1, "snapshot_id": 1}
    scene.drivers.end("triggered", {**DONE, "compaction": result})
    scene.write("triggered", 3)
    [run] = scene.ends("triggered", 1)
    assert run["status"]["cause"] == "Trigger"
    record = eventually(
        lambda: scene.operation("triggered", "Compact").get("record", {}), lambda r: r.get("state") == "Ended"
    )
    assert record["smallFiles"] == 3, "what the compaction left is what growth is counted from"

    def versions() -> list[str]:
        """Of the object, before and after three seconds."""
        before = (scene.objects.table("triggered") or {})["metadata"]["resourceVersion"]
        time.sleep(3)
        return [before, (scene.objects.table("triggered") or {})["metadata"]["resourceVersion"]]

    eventually(versions, lambda found: len(set(found)) == 1, seconds=15)  # what its end led to may still come
    assert len(scene.runs("triggered")) == 1


def test_history_keeps_as_many_finished_runs_as_the_policy_says_and_forgets_nothing(scene: Scene) -> None:
    scene.declare("historic", runHistory={"succeeded": 1})
    scene.drivers.end("historic", DONE)

    def ended_after(last: str | None) -> str:
        scene.annotate("historic", "Inspect")
        status = eventually(
            lambda: scene.operation("historic", "Inspect"),
            lambda found: found.get("lastRun") != last and found.get("record", {}).get("state") == "Ended",
        )
        return str(status["lastRun"])

    first = ended_after(None)
    second = ended_after(first)
    third = ended_after(second)
    assert len({first, second, third}) == 3
    eventually(lambda: [run["metadata"]["name"] for run in scene.runs("historic")], lambda names: names == [third])
    assert scene.operation("historic", "Inspect")["lastSuccess"]


def test_a_run_that_is_deleted_takes_its_job_along_and_is_not_started_again(
    scene: Scene, kube_api: client.ApiClient
) -> None:
    scene.declare("cancelled", compaction={"triggers": {"smallFiles": 2}})
    scene.write("cancelled", 2)
    eventually(lambda: scene.phases("cancelled"), lambda phases: phases == ["Running"])
    [run] = scene.runs("cancelled")
    eventually(lambda: scene.operation("cancelled", "Compact").get("record", {}), lambda r: r.get("state") == "Seen")
    scene.objects.delete("maintenancerun", run["metadata"]["name"])
    gone = eventually(
        lambda: scene.operation("cancelled", "Compact").get("record", {}), lambda r: r.get("state") == "Gone"
    )
    assert gone["pausedUntil"]
    batch = client.BatchV1Api(kube_api)
    jobs: Callable[[], list[str]] = lambda: [  # noqa: E731
        job.metadata.name for job in batch.list_namespaced_job(scene.objects.name).items
    ]
    eventually(jobs, lambda found: run["metadata"]["name"] not in found)
    scene.write("cancelled", 1)
    eventually(lambda: scene.objects.status("cancelled")["health"]["dataFiles"], lambda count: count == 3)
    assert scene.runs("cancelled") == []


def test_a_failure_is_told_and_tried_again_only_after_a_while(scene: Scene) -> None:
    scene.declare("failing", compaction={"triggers": {"smallFiles": 2}})
    scene.drivers.end("failing", FAILED)
    scene.write("failing", 2)
    scene.ends("failing", 1, "Failed")
    conditions = eventually(lambda: scene.objects.conditions("failing"), lambda c: c["Maintained"].startswith("False"))
    assert conditions["Maintained"] == "False/RunFailed"
    status = scene.operation("failing", "Compact")
    assert (status["consecutiveFailures"], status["stopped"]) == (1, False)
    assert "OutOfMemory: no memory" in status["message"]
    assert status["nextRun"] > datetime.now(UTC).isoformat()
    assert len(scene.runs("failing")) == 1


def test_a_catalogs_limit_makes_runs_wait_in_line_and_say_so(scene: Scene) -> None:
    names = ["narrow-a", "narrow-b", "narrow-c"]
    for name in names:
        scene.declare(name, catalogRef={"name": "narrow"})
    for name in names:
        scene.make_run(name, name, "Inspect")
    eventually(lambda: [scene.phases(name) for name in names], lambda p: p.count(["Running"]) == 1)

    def waiting() -> list[str]:
        return [
            str(scene.objects.run_status(name).get("message"))
            for name in names
            if not scene.objects.run_status(name).get("jobName")
        ]

    messages = eventually(waiting, lambda found: len(found) == 2 and "None" not in found)
    assert all("TableCatalog narrow allows at once" in message for message in messages)
    for name in names:
        scene.drivers.end(name, DONE)
    eventually(lambda: [scene.phases(name) for name in names], lambda p: p == [["Succeeded"]] * 3)


def test_runs_of_one_table_follow_each_other(scene: Scene) -> None:
    scene.declare("serial")
    scene.make_run("serial-a", "serial", "Inspect")
    eventually(lambda: scene.objects.run_status("serial-a").get("phase"), lambda phase: phase == "Running")
    scene.make_run("serial-b", "serial", "Compact")
    message = eventually(lambda: scene.objects.run_status("serial-b").get("message"), bool)
    assert message == "waits for run serial-a"
    scene.drivers.end("serial", DONE)
    scene.ends("serial", 2)


def test_a_hold_is_set_as_a_tag_told_in_the_status_and_released(scene: Scene) -> None:
    scene.declare("held")
    scene.write("held", 2)
    table = scene.catalog.load_table(("sales", "held"))
    first = table.metadata.snapshots[0]
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000 + 0.001, UTC).isoformat()
    hold = {"name": "audit", "asOf": moment, "until": "2199-01-01T00:00:00Z"}
    early = {"name": "early", "asOf": "2001-01-01T00:00:00Z", "until": "2199-01-01T00:00:00Z"}
    scene.declare("held", retention={"holds": [hold, early]})
    states = eventually(
        lambda: {each["name"]: each["state"] for each in scene.objects.status("held").get("holds") or []},
        lambda found: found.get("audit") == "Held",
    )
    assert states == {"audit": "Held", "early": "Refused"}
    assert table.refresh().metadata.refs["tablewright-hold-audit"].snapshot_id == first.snapshot_id
    scene.declare("held")
    eventually(lambda: list(table.refresh().metadata.refs), lambda refs: refs == ["main"])
    eventually(lambda: scene.objects.status("held").get("holds") or [], lambda holds: holds == [])


def test_a_scheduled_run_starts_when_its_time_has_come(scene: Scene) -> None:
    scene.drivers.end("scheduled", DONE)
    scene.declare("scheduled", orphanFiles={"schedule": "* * * * *"})
    scene.write("scheduled", 1)
    runs = eventually(lambda: scene.runs("scheduled"), bool, seconds=100)
    assert runs[0]["metadata"]["annotations"]["tablewright.dev/cause"] == "Schedule"
    status = eventually(lambda: scene.operation("scheduled", "RemoveOrphanFiles"), lambda s: "lastSuccess" in s)
    assert status["record"]["scheduledUntil"]


@pytest.mark.parametrize(("kind", "condition"), [("tablepolicy", "Valid"), ("tablecatalog", "Ready")])
def test_policies_and_catalogs_say_whether_they_can_be_used(
    scene: Scene, kube_api: client.ApiClient, kind: str, condition: str
) -> None:
    custom = client.CustomObjectsApi(kube_api)
    name, plural = f"said-{kind}", f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"

    def said() -> str:
        group = ("tablewright.dev", "v1alpha1", scene.objects.name, plural, name)
        status = custom.get_namespaced_custom_object(*group).get("status") or {}
        found = {each["type"]: f"{each['status']}/{each['reason']}" for each in status.get("conditions") or []}
        return found.get(condition, "")

    def spec(zone: str) -> dict[str, Any]:
        if kind == "tablepolicy":
            return {"selector": {"matchLabels": {"nobody": "nobody"}}, "timeZone": zone}
        return {"configMap": {}, "warehouse": "file:///nowhere", "maintenance": {"timeZone": zone}}

    declared_kind = "TablePolicy" if kind == "tablepolicy" else "TableCatalog"
    scene.objects.apply(declared_kind, name, spec("Mars/Olympus"))
    eventually(said, lambda found: found in ("False/Invalid", "False/CatalogInvalid"))
    scene.objects.apply(declared_kind, name, spec("Asia/Kolkata"))
    eventually(said, lambda found: found == "True/Usable")
