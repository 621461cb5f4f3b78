"""Passes over objects as the API server and its refusals lead them, without a server."""

import base64
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from kubernetes.client.exceptions import ApiException
from pyiceberg.exceptions import ForbiddenError

from tableformat.secrets import KnownSecrets
from tablewright.act.jobs import JobSettings
from tablewright.observe.tables import HealthMemory
from tablewright.runtime.catalogs import OpenCatalogs
from tablewright.runtime.claims import Claims
from tablewright.runtime.cluster import Cluster
from tablewright.runtime.events import EventRouter
from tablewright.runtime.keys import Key
from tablewright.runtime.leadership import NotLeadingError
from tablewright.runtime.line import RunLine
from tablewright.runtime.locations import KnownLocations
from tablewright.runtime.metrics import Metrics
from tablewright.runtime.reconciler import Reconciler
from tablewright.runtime.recorder import Recorder
from tablewright.runtime.store import ObjectStore
from tests.unit.operator.values import NOW

FINALIZER = "tablewright.dev/table"
CATALOG = {
    "sql": {"uri": "sqlite:///:memory:"},
    "warehouse": "file:///nowhere",
    "storage": {"credentialsSecretRef": {"name": "keys"}},
}
TABLE = {"catalogRef": {"name": "lake"}, "schema": {"columns": [{"name": "id", "type": "long"}]}}
RUN = {"tableRef": {"name": "events"}, "operation": "Compact"}
UUID = "0b5f5c3e-0000-0000-0000-000000000000"


class Request(NamedTuple):
    method: str
    path: str
    body: Any


class Answer(NamedTuple):
    status: int
    content: dict[str, Any]

    def read(self) -> bytes:
        return json.dumps(self.content).encode()


class Server:
    """Stands for the client of the API server: answers by the path, keeps what was asked, and else has nothing."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: dict[str, Answer] = {}

    def param_serialize(self, method: str, path: str, *parts: Any, **_: Any) -> tuple[str, str, Any]:
        return method, path, parts[3]

    def call_api(self, method: str, path: str, body: Any, **_: Any) -> Answer:
        self.requests.append(Request(method, path, body))
        found = next((self.answers[pattern] for pattern in self.answers if re.search(pattern, path)), None)
        if found is not None:
            return found
        return Answer(404, {"message": "there is no such object"}) if method == "GET" else Answer(201, {"kind": "any"})

    def written(self, pattern: str) -> list[Any]:
        """What was sent to a path."""
        return [r.body for r in self.requests if r.method != "GET" and re.search(pattern, r.path)]


class World:
    """A store with a catalog in it, and the reconciler that works on it."""

    def __init__(self, catalog: dict[str, Any] | None = CATALOG, *, most_runs: int = 10) -> None:
        self.store, self.server, self.now, self.woken = ObjectStore(), Server(), NOW, list[Key]()
        claims, line, memory = Claims(), RunLine(self.store, most_runs), HealthMemory()
        self.locations = KnownLocations(self.store, memory.places_at)
        cluster = Cluster(
            self.server,
            fence=lambda: None,
            wrote=lambda *_: None,
            secrets=KnownSecrets(),
        )
        self.catalogs = OpenCatalogs(self.store, cluster.read_secret, None)
        self.router = EventRouter(self.store, claims, line, self.locations, self.catalogs)
        self.reconciler = Reconciler(
            self.store,
            claims,
            line,
            cluster,
            self.catalogs,
            JobSettings(image="jobs"),
            lambda: self.now,
            wake=self.woken.extend,
            recorder=Recorder(cluster, Metrics(), "test"),
            locations=self.locations,
            memory=memory,
        )
        if catalog is not None:
            self.see("TableCatalog", "lake", catalog)

    def see(self, kind: str, name: str, spec: dict[str, Any], **parts: Any) -> list[Key]:
        """What is to be looked at when a watch tells of this object."""
        metadata = {
            "name": name,
            "namespace": "sales",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": NOW.isoformat(),
        }
        obj = {"metadata": metadata | parts.pop("metadata", {}), "spec": spec, **parts}
        return self.router.notice(kind, obj, deleted=False)

    def reconcile(self, kind: str, name: str) -> float | None:
        return self.reconciler.reconcile(Key(kind, "sales", name))


def forbidden(world: World) -> None:
    world.server.answers["/secrets/keys"] = Answer(403, {"message": "secrets is forbidden"})


def unforeseen(world: World) -> None:
    world.server.answers["/secrets/keys"] = Answer(500, {"message": "it cannot be decrypted"})


def test_a_secret_that_may_not_be_read_is_a_reason_that_the_table_and_the_catalog_tell() -> None:
    world = World()
    forbidden(world)
    world.see("ManagedTable", "events", TABLE)
    assert world.reconcile("ManagedTable", "events") is not None, "it is tried again"
    assert world.reconcile("TableCatalog", "lake") is not None
    for path in ("/managedtables/events/status", "/tablecatalogs/lake/status"):
        [body] = world.server.written(path)
        ready = json.loads(body)["status"]["conditions"][0]
        assert (ready["type"], ready["reason"]) == ("Ready", "SecretForbidden")
        assert "spec.storage.credentialsSecretRef: the operator may not read Secret keys" in ready["message"]


@pytest.mark.parametrize("trouble", [forbidden, unforeseen])
def test_whatever_keeps_a_table_from_being_looked_at_does_not_trap_its_object(
    trouble: Callable[[World], None],
) -> None:
    world = World()
    trouble(world)
    identity = {"uuid": UUID, "location": "file:///t", "metadataLocation": "file:///t/m", "schemaId": 0, "specId": 0}
    going = {"deletionTimestamp": NOW.isoformat(), "finalizers": [FINALIZER]}
    status = {"observedGeneration": 1, "identity": identity}
    world.see("ManagedTable", "events", {**TABLE, "deletionPolicy": "Drop"}, metadata=going, status=status)
    assert world.reconcile("ManagedTable", "events") is not None, "it is tried again"
    assert world.server.written("/managedtables/events$") == []
    world.now += timedelta(minutes=16)
    world.reconcile("ManagedTable", "events")
    [released] = world.server.written("/managedtables/events$")
    assert released["metadata"]["finalizers"] == []


def test_a_pass_that_fails_for_a_reason_that_nobody_foresaw_is_told_and_tried_again() -> None:
    world = World()
    unforeseen(world)
    healthy = {"type": "Healthy", "status": "True", "reason": "WithinPolicy", "message": "as it was"}
    world.see("ManagedTable", "events", TABLE, status={"observedGeneration": 1, "conditions": [healthy]})
    with pytest.raises(ApiException):
        world.reconcile("ManagedTable", "events")
    [body] = world.server.written("/managedtables/events/status")
    found = {each["type"]: each for each in json.loads(body)["status"]["conditions"]}
    assert {kind: (each["status"], each["reason"]) for kind, each in found.items()} == {
        "Healthy": ("True", "WithinPolicy"),
        "Ready": ("Unknown", "PassFailed"),
        "InSync": ("Unknown", "PassFailed"),
        "Reconciling": ("True", "PassFailed"),
    }
    assert "it cannot be decrypted" in found["Ready"]["message"]


def test_a_replica_that_does_not_lead_any_more_tells_nothing_of_its_last_pass() -> None:
    world = World()
    world.see("ManagedTable", "events", TABLE)

    def resign() -> None:
        raise NotLeadingError("another replica leads")

    world.reconciler._cluster.require_leadership = resign  # type: ignore[method-assign]
    with pytest.raises(NotLeadingError):
        world.reconcile("ManagedTable", "events")
    assert world.server.written("/managedtables/events/status") == []


def test_what_is_no_text_in_a_secret_keeps_nobody_from_its_keys() -> None:
    world = World()
    encoded = {
        "AWS_ACCESS_KEY_ID": base64.b64encode(b"id").decode(),
        "keystore": base64.b64encode(b"\xff\xfe").decode(),
    }
    world.server.answers["/secrets/keys"] = Answer(200, {"data": encoded})
    assert world.reconcile("TableCatalog", "lake") == 60.0, "nobody tells us when that changes"
    [body] = world.server.written("/tablecatalogs/lake/status")
    assert json.loads(body)["status"]["conditions"][0]["reason"] == "Usable"


def catalog_reasons(world: World) -> list[str]:
    bodies = world.server.written("/tablecatalogs/lake/status")
    return [json.loads(body)["status"]["conditions"][0]["reason"] for body in bodies]


def test_a_catalog_whose_secret_is_gone_does_not_go_on_saying_that_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tablewright.runtime.catalogs.CREDENTIALS_SECONDS", 0)
    world = World()
    world.server.answers["/secrets/keys"] = Answer(200, {"data": {}})
    world.reconcile("TableCatalog", "lake")
    status = json.loads(world.server.written("/tablecatalogs/lake/status")[0])["status"]
    world.see("TableCatalog", "lake", CATALOG, status=status, metadata={"resourceVersion": "2"})
    del world.server.answers["/secrets/keys"]
    world.see("ManagedTable", "events", TABLE)
    world.reconcile("ManagedTable", "events")
    assert world.woken == [Key("TableCatalog", "sales", "lake")], "at once, not at its next look"
    world.reconcile("TableCatalog", "lake")
    assert catalog_reasons(world) == ["Usable", "SecretNotFound"]


def test_a_catalog_whose_server_stops_answering_says_so() -> None:
    world = World({"sql": {"uri": "sqlite:///:memory:"}, "warehouse": "file:///nowhere"})
    world.reconcile("TableCatalog", "lake")
    opened = world.reconciler._catalogs.open("sales", "lake")

    def away() -> None:
        raise OSError("no route to host")

    opened.list_namespaces = away  # type: ignore[method-assign,assignment]
    assert world.reconcile("TableCatalog", "lake") == 30.0
    assert catalog_reasons(world) == ["Usable", "CatalogUnreachable"]

    def forbidden() -> None:
        raise ForbiddenError("you may not list namespaces")

    opened.list_namespaces = forbidden  # type: ignore[method-assign,assignment]
    world.reconcile("TableCatalog", "lake")
    assert catalog_reasons(world)[-1] == "Usable", "it answered"


def phases(world: World) -> list[str]:
    return [json.loads(body)["status"]["phase"] for body in world.server.written("/maintenanceruns/by-hand/status")]


def test_a_run_of_a_table_that_is_not_there_is_refused() -> None:
    world = World()
    world.see("MaintenanceRun", "by-hand", RUN)
    world.reconcile("MaintenanceRun", "by-hand")
    assert phases(world) == ["Failed"]


@pytest.mark.parametrize("late", ["ManagedTable", "TableCatalog"])
def test_a_run_that_is_seen_before_its_table_or_its_catalog_waits_for_them(late: str) -> None:
    """Each kind has a watch of its own, and none of them waits for another."""
    specs: dict[str, tuple[str, dict[str, Any]]] = {
        "TableCatalog": ("lake", CATALOG),
        "ManagedTable": ("events", TABLE),
    }
    world = World(catalog=None)
    for kind, (name, spec) in specs.items():
        if kind != late:
            world.see(kind, name, spec)
    world.server.answers[f"/{specs[late][0]}$"] = Answer(200, {"metadata": {"name": specs[late][0]}})
    world.see("MaintenanceRun", "by-hand", RUN)
    world.reconcile("MaintenanceRun", "by-hand")
    assert phases(world) == [], "what a watch has not told yet is no reason to refuse it for good"
    assert Key("MaintenanceRun", "sales", "by-hand") in world.see(late, *specs[late])
    world.reconcile("MaintenanceRun", "by-hand")
    assert phases(world) == ["Pending"]
    assert len(world.server.written("/jobs$")) == 1


def test_a_run_that_steps_aside_makes_way_for_the_next_at_once() -> None:
    """Its status may say so already, as after a restart: then no event tells the others."""
    world = World(most_runs=1)
    world.see("ManagedTable", "asleep", {**TABLE, "identifier": {"namespace": "db", "name": "other"}, "suspend": True})
    world.see("ManagedTable", "events", TABLE)
    scheduled = {"annotations": {"tablewright.dev/cause": "Schedule"}}
    world.see("MaintenanceRun", "at-rest", {**RUN, "tableRef": {"name": "asleep"}}, metadata=scheduled)
    world.see("MaintenanceRun", "by-hand", RUN)
    world.reconcile("MaintenanceRun", "by-hand")
    assert world.server.written("/jobs$") == [], "the other one is first in line"
    world.reconcile("MaintenanceRun", "at-rest")
    assert world.woken == [Key("MaintenanceRun", "sales", "by-hand")]
    world.reconcile("MaintenanceRun", "by-hand")
    assert len(world.server.written("/jobs$")) == 1
    world.reconcile("MaintenanceRun", "at-rest")
    assert len(world.woken) == 1, "that is no news any more"


def test_a_job_that_a_quota_does_not_allow_is_told_tried_again_and_holds_up_nobody() -> None:
    world = World(most_runs=1)
    world.see("ManagedTable", "events", TABLE)
    world.see("ManagedTable", "others", {**TABLE, "identifier": {"namespace": "db", "name": "other"}})
    world.see("MaintenanceRun", "by-hand", RUN)
    world.see("MaintenanceRun", "the-next", {**RUN, "tableRef": {"name": "others"}})
    world.server.answers["/jobs$"] = Answer(403, {"message": "exceeded quota: count/jobs.batch"})
    assert world.reconcile("MaintenanceRun", "by-hand") == 30.0
    [status] = [json.loads(body)["status"] for body in world.server.written("/maintenanceruns/by-hand/status")]
    assert (status["phase"], status["reason"]) == ("Pending", "JobNotCreated")
    assert "exceeded quota: count/jobs.batch" in status["message"]
    assert [event["reason"] for event in world.server.written("/events$")] == ["RunHeldUp"]
    assert world.woken == [Key("MaintenanceRun", "sales", "the-next")]
    del world.server.answers["/jobs$"]
    world.reconcile("MaintenanceRun", "by-hand")
    assert phases(world) == ["Pending", "Pending"]
    assert len(world.server.written("/jobs$")) == 2


@pytest.mark.parametrize("status", [500, 503])
def test_a_job_that_the_server_fails_to_create_holds_up_nobody(status: int) -> None:
    """An admission webhook that is not there, for one: whoever is first in line would be so for ever."""
    world = World(most_runs=1)
    world.see("ManagedTable", "events", TABLE)
    world.see("ManagedTable", "others", {**TABLE, "identifier": {"namespace": "db", "name": "other"}})
    world.see("MaintenanceRun", "by-hand", RUN)
    world.see("MaintenanceRun", "the-next", {**RUN, "tableRef": {"name": "others"}})
    world.server.answers["/jobs$"] = Answer(status, {"message": "failed calling webhook"})
    assert world.reconcile("MaintenanceRun", "by-hand") == 30.0
    assert world.woken == [Key("MaintenanceRun", "sales", "the-next")]
    [said] = [json.loads(body)["status"] for body in world.server.written("/maintenanceruns/by-hand/status")]
    assert said["reason"] == "JobNotCreated"
    assert "failed calling webhook" in said["message"]


def test_a_run_whose_job_cannot_even_be_built_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(most_runs=1)
    world.see("ManagedTable", "events", TABLE)
    world.see("ManagedTable", "others", {**TABLE, "identifier": {"namespace": "db", "name": "other"}})
    world.see("MaintenanceRun", "by-hand", RUN)
    world.see("MaintenanceRun", "the-next", {**RUN, "tableRef": {"name": "others"}})

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    with monkeypatch.context() as patch:
        patch.setattr("tablewright.runtime.run_passes.build_job", fail)
        with pytest.raises(RuntimeError):
            world.reconcile("MaintenanceRun", "by-hand")
    assert world.woken == [Key("MaintenanceRun", "sales", "the-next")]


def job_of(owner: str | None, **status: Any) -> dict[str, Any]:
    owners = [] if owner is None else [{"kind": "MaintenanceRun", "name": "by-hand", "uid": owner}]
    metadata = {"name": "by-hand", "namespace": "sales", "uid": "uid-of-job", "resourceVersion": "1"}
    return {"metadata": metadata | {"ownerReferences": owners}, "status": status}


@pytest.mark.parametrize("owner", ["uid-of-a-run-of-the-same-name-that-was-deleted", None])
def test_a_job_that_is_not_the_runs_own_is_not_taken_for_its_work(owner: str | None) -> None:
    """Deleted and created anew to run again, it must not end with what the one before came to."""
    world = World()
    world.see("ManagedTable", "events", TABLE)
    ended = job_of(owner, conditions=[{"type": "Complete", "status": "True"}])
    world.server.answers |= {"/jobs/by-hand$": Answer(200, ended), "/jobs$": Answer(409, {"message": "it exists"})}
    world.see("MaintenanceRun", "by-hand", RUN)
    assert world.reconcile("MaintenanceRun", "by-hand") is not None, "it is looked at again"
    [status] = [json.loads(body)["status"] for body in world.server.written("/maintenanceruns/by-hand/status")]
    assert (status["phase"], status["reason"]) == ("Pending", "JobNotCreated")
    assert "there is a Job by-hand that is not this run's" in status["message"]
    world.server.answers.clear()
    world.reconcile("MaintenanceRun", "by-hand")
    assert phases(world) == ["Pending", "Pending"]
    assert len(world.server.written("/jobs$")) == 2


def test_the_runs_own_job_is_followed_to_its_end() -> None:
    world = World()
    world.see("ManagedTable", "events", TABLE)
    ended = job_of("uid-by-hand", conditions=[{"type": "Complete", "status": "True"}])
    world.server.answers["/jobs/by-hand$"] = Answer(200, ended)
    world.server.answers["/pods$"] = Answer(200, {"items": []})
    world.server.answers["/events$"] = Answer(200, {"items": []})
    world.see("MaintenanceRun", "by-hand", RUN)
    world.reconcile("MaintenanceRun", "by-hand")
    assert phases(world) == ["Succeeded"]


def test_a_run_whose_pod_is_created_for_ever_is_no_run_that_is_under_way() -> None:
    """A volume's Secret is not there: only the pod's events say so."""
    world = World()
    world.see("ManagedTable", "events", TABLE)
    waiting = {"name": "driver", "state": {"waiting": {"reason": "ContainerCreating"}}}
    metadata = {"name": "by-hand-1", "creationTimestamp": NOW.isoformat()}
    pod = {"metadata": metadata, "status": {"phase": "Pending", "containerStatuses": [waiting]}}
    told = {"type": "Warning", "reason": "FailedMount", "note": 'secret "ca" not found'}
    world.server.answers["/jobs/by-hand$"] = Answer(200, job_of("uid-by-hand", active=1, ready=0))
    world.server.answers["/pods$"] = Answer(200, {"items": [pod]})
    world.server.answers["/events$"] = Answer(200, {"items": [told]})
    world.see("MaintenanceRun", "by-hand", RUN)
    assert world.reconcile("MaintenanceRun", "by-hand") == 15.0
    assert phases(world) == ["Running"], "it may take a while"
    world.now += timedelta(minutes=10)
    assert world.reconcile("MaintenanceRun", "by-hand") == 15.0
    status = json.loads(world.server.written("/maintenanceruns/by-hand/status")[-1])["status"]
    assert (status["phase"], status["reason"]) == ("Pending", "PodNotStarted")
    assert 'FailedMount: secret "ca" not found' in status["message"]


def kept(world: World, *, job: dict[str, Any] | None, finalizer: str = "example.com/keep", **status: Any) -> list[str]:
    """What the status comes to of a run that was deleted, and that a finalizer keeps."""
    world.see("ManagedTable", "events", TABLE)
    if job is not None:
        world.server.answers["/jobs/by-hand$"] = Answer(200, job)
    world.server.answers["/pods$"] = Answer(200, {"items": []})
    world.server.answers["/events$"] = Answer(200, {"items": []})
    going = {"deletionTimestamp": NOW.isoformat(), "finalizers": [finalizer]}
    world.see("MaintenanceRun", "by-hand", RUN, metadata=going, status=status)
    world.reconcile("MaintenanceRun", "by-hand")
    written = [json.loads(body)["status"] for body in world.server.written("/maintenanceruns/by-hand/status")]
    return [f"{each['phase']}/{each.get('reason')}" for each in written]


def test_a_deleted_run_that_somebodys_finalizer_keeps_is_followed_to_its_end() -> None:
    """Its Job goes on as long as it is there, and the table's other runs wait for its end, which nobody told."""
    ended = job_of("uid-by-hand", conditions=[{"type": "Complete", "status": "True"}])
    begun = {"phase": "Running", "jobName": "by-hand"}
    assert kept(World(), job=ended, **begun) == ["Succeeded/None"]
    assert kept(World(), job=None, **begun) == ["Failed/JobDeleted"]
    assert kept(World(), job=None, finalizer="foregroundDeletion", **begun) == [], "it goes by itself"


@pytest.mark.parametrize(
    "status", [{"phase": "Pending"}, {"phase": "Pending", "jobName": "by-hand", "reason": "JobReplaced"}]
)
def test_a_deleted_run_gets_no_job_any_more(status: dict[str, Any]) -> None:
    world = World()
    assert kept(world, job=None, **status) == ([] if "jobName" not in status else ["Failed/JobDeleted"])
    assert world.server.written("/jobs$") == []
