"""Hundreds of bad objects at a real operator: each is refused by the API server, or says what is wrong with it.

The objects are generated from the CRDs. Meanwhile and afterwards other tables are served as ever, the operator neither
crashes nor spins, and no pass fails.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kubernetes import client

from tablewright.api.objects import GROUP, VERSION, KubernetesResource
from tablewright.api.table import ManagedTable
from tests.definitions import KINDS, schema
from tests.generated_objects import allowed, broken, near
from tests.operators import API_VERSION, Namespace, OperatorProcesses, operators
from tests.servers.kubernetes import KubernetesAccess
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")

GOOD = {"catalogRef": {"name": "lake"}, "schema": {"columns": [{"name": "id", "type": "long"}]}}
SEEDS = range(40)  # of each kind, one that the schema allows and one that it forbids


class Crowd:
    """Generated objects of one namespace: which the API server took, and what it said of the others."""

    def __init__(self, api: client.ApiClient, namespace: str, catalogs: list[str]) -> None:
        self._custom = client.CustomObjectsApi(api)
        self._namespace, self._catalogs = namespace, catalogs
        self.taken: dict[str, list[str]] = {kind.plural: [] for kind in KINDS}
        self.refusals: list[str] = []

    def create(self, kind: type[KubernetesResource], name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": API_VERSION, "kind": kind.kind_name, "metadata": {"name": name}, "spec": spec}
        try:
            self._custom.create_namespaced_custom_object(
                GROUP, VERSION, self._namespace, kind.plural, body, field_validation="Strict"
            )
            self.taken[kind.plural].append(name)
        except client.ApiException as error:
            if error.status not in (400, 422):
                raise
            self.refusals.append(str(error.body))

    def aimed(self, kind: type[KubernetesResource], spec: dict[str, Any], random: Random) -> dict[str, Any]:
        """With its references to objects that there are, so that it comes as far as it can."""
        references = {
            "managedtables": ("catalogRef", self._catalogs),
            "maintenanceruns": ("tableRef", [*self.taken["managedtables"], "good"]),
        }
        if kind.plural in references:
            field, names = references[kind.plural]
            if isinstance(spec.get(field), dict) and random.random() < 0.8:
                spec = {**spec, field: {"name": random.choice(names)}}
        if kind.plural == "managedtables" and "location" in spec:
            del spec["location"]  # its files would go anywhere on this machine
        return spec

    def without(self, plural: str, answered: Callable[[dict[str, Any]], bool]) -> list[str]:
        """Those that the API server took and that have no answer yet."""
        listed = self._custom.list_namespaced_custom_object(GROUP, VERSION, self._namespace, plural)["items"]
        found = {obj["metadata"]["name"]: obj for obj in listed}
        return [name for name in self.taken[plural] if name in found and not answered(found[name])]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "operator.log"


@pytest.fixture
def processes(crds: KubernetesAccess, kube_namespace: str, log: Path) -> Iterator[OperatorProcesses]:
    with operators(crds.kubeconfig, kube_namespace, log) as started:
        yield started


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_bad_objects_are_refused_or_say_what_is_wrong_and_hold_up_nobody(
    crds: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    processes: OperatorProcesses,
    log: Path,
    tmp_path: Path,
) -> None:
    objects = Namespace(crds, kube_api, kube_namespace)
    objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": f"file://{tmp_path}/warehouse"})
    objects.apply("TableCatalog", "nowhere", {"configMap": {}, "warehouse": "file:///proc/version/warehouse"})
    objects.apply("TableCatalog", "closed", {"sql": {"uri": "sqlite:////proc/no.db"}, "warehouse": "file:///proc"})
    operator = processes.start()
    objects.apply("ManagedTable", "good", GOOD)
    eventually(lambda: objects.conditions("good"), lambda c: c.get("InSync") == "True/AsDeclared", seconds=60)

    crowd = Crowd(kube_api, kube_namespace, ["lake", "lake", "lake", "nowhere", "closed", "absent"])
    for kind in KINDS:
        for seed in SEEDS:
            random = Random(seed)
            crowd.create(kind, f"allowed-{seed}", crowd.aimed(kind, allowed(spec_of(kind), random), random))
            taken = len(crowd.taken[kind.plural])
            crowd.create(kind, f"broken-{seed}", broken(spec_of(kind), Random(seed)))
            assert len(crowd.taken[kind.plural]) == taken, "what the schema forbids is not taken"
    for seed in SEEDS:
        random = Random(seed)
        crowd.create(
            ManagedTable, f"near-{seed}", crowd.aimed(ManagedTable, near(GOOD, spec_of(ManagedTable), random), random)
        )
    assert len(crowd.refusals) >= 4 * len(SEEDS)
    assert all(crowd.taken.values()), "some of every kind got through"

    objects.apply("ManagedTable", "good-too", GOOD)
    columns = [*GOOD["schema"]["columns"], {"name": "city", "type": "string"}]  # type: ignore[index]
    objects.apply("ManagedTable", "good", GOOD | {"schema": {"columns": columns}})
    eventually(lambda: objects.conditions("good-too"), lambda c: c.get("InSync") == "True/AsDeclared", seconds=60)
    eventually(lambda: objects.status("good"), lambda s: s["identity"]["schemaId"] == 1, seconds=60)

    eventually(lambda: crowd.without("managedtables", says_what_is_wrong), lambda silent: silent == [], seconds=90)
    eventually(lambda: crowd.without("maintenanceruns", has_a_phase), lambda silent: silent == [], seconds=90)
    for plural, condition in (("tablepolicies", "Valid"), ("tablecatalogs", "Ready")):
        answered = partial(says_whether_it_is_usable, condition)
        eventually(partial(crowd.without, plural, answered), lambda silent: silent == [], seconds=90)

    def used_in_three_seconds() -> float:
        before = processor_seconds(operator.pid)
        time.sleep(3)
        return processor_seconds(operator.pid) - before

    # Passes that are due still come to their end; then the operator is not busy though nothing happens.
    eventually(used_in_three_seconds, lambda used: used < 1, seconds=60)
    assert operator.poll() is None
    assert "failed, again in" not in log.read_text(), "every pass came to its end"


def spec_of(kind: type[KubernetesResource]) -> dict[str, Any]:
    found: dict[str, Any] = schema(kind)["properties"]["spec"]
    return found


def says_what_is_wrong(table: dict[str, Any]) -> bool:
    status = table.get("status") or {}
    said = [c for c in status.get("conditions", ()) if c["type"] in ("Ready", "InSync") and c["message"]]
    return bool(said) and status["observedGeneration"] == table["metadata"]["generation"]


def says_whether_it_is_usable(kind: str, obj: dict[str, Any]) -> bool:
    status = obj.get("status") or {}
    said = {c["type"]: c for c in status.get("conditions", ())}
    if kind not in said or status["observedGeneration"] != obj["metadata"]["generation"]:
        return False
    stuck = {"Reconciling", "Stalled"} & said.keys()
    return bool(said[kind]["message"]) and bool(stuck) == (said[kind]["status"] != "True")


def has_a_phase(run: dict[str, Any]) -> bool:
    status = run.get("status") or {}
    return "phase" in status and (status["phase"] != "Failed" or bool(status["message"]))
