"""The operator with the rights of its installation and no others, on an API server that enforces them."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from tests.conftest import new_namespace, unique, with_definitions
from tests.operators import Namespace, OperatorProcesses, grant, install_operator, operators, roles_of
from tests.servers.kubernetes import ControlPlane, KubernetesAccess, kubectl
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")
COLUMNS = [{"name": "id", "type": "long"}]
TABLE = {"catalogRef": {"name": "lake"}, "schema": {"columns": COLUMNS}}


class Installation:
    """The operator for the whole cluster, in a namespace of its own, and a namespace with tables."""

    def __init__(self, access: KubernetesAccess, api: client.ApiClient, system: str, tables: str, folder: Path) -> None:
        self.access, self.system, self.folder = access, system, folder
        self.core, self.rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
        self.objects = Namespace(access, api, tables)
        self.kubeconfig = install_operator(access, api, system, folder)

    def declare(self, **catalog: Any) -> None:
        lake = {"configMap": {}, "warehouse": f"file://{self.folder}/warehouse", **catalog}
        self.objects.apply("TableCatalog", "lake", lake)
        self.objects.apply("ManagedTable", "events", TABLE)

    def ready(self) -> tuple[str, str]:
        """The reason and the message of the table's condition."""
        found = [each for each in self.objects.status("events").get("conditions") or () if each["type"] == "Ready"]
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")

    def withhold(self, resource: str, *verbs: str) -> None:
        """Takes these verbs off the ClusterRole of namespaces with tables."""
        name = f"tablewright-tables-{self.system}"
        role = json.loads(kubectl(self.access, "get", "clusterrole", name, "-o", "json"))
        for rule in role["rules"]:
            if rule["resources"] == [resource]:
                rule["verbs"] = [verb for verb in rule["verbs"] if verb not in verbs]
        rules = [rule for rule in role["rules"] if rule["verbs"]]
        kubectl(self.access, "patch", "clusterrole", name, "--type=merge", "-p", json.dumps({"rules": rules}))


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[KubernetesAccess]:
    """A control plane of these tests' own: an operator for the whole cluster writes into the objects of all others."""
    with tempfile.TemporaryDirectory(prefix="tablewright-rights-") as folder:
        plane = ControlPlane(Path(folder))
        yield plane.access
        plane.stop()


@pytest.fixture(scope="module")
def kube_api(kubernetes: KubernetesAccess) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(kubernetes.kubeconfig)) as api:
        yield api


@pytest.fixture(scope="module")
def crds(kubernetes: KubernetesAccess) -> KubernetesAccess:
    return with_definitions(kubernetes)


@pytest.fixture
def installed(
    crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, tmp_path: Path
) -> Iterator[Installation]:
    with new_namespace(kube_api) as system:
        yield Installation(crds, kube_api, system, kube_namespace, tmp_path)


@pytest.fixture
def processes(installed: Installation) -> Iterator[OperatorProcesses]:
    """For the whole cluster."""
    with operators(installed.kubeconfig, None, installed.folder / "operator.log") as started:
        yield started


def start(installed: Installation, processes: OperatorProcesses) -> None:
    processes.start("--lease-namespace", installed.system, *roles_of(installed.system))


def test_namespace_that_is_not_granted_is_a_condition_with_the_command_that_grants_it(
    installed: Installation, processes: OperatorProcesses
) -> None:
    installed.declare()
    start(installed, processes)
    _, message = eventually(installed.ready, lambda found: found[0] == "RightsMissing", seconds=60)
    names = installed.objects.name, f"tablewright-tables-{installed.system}", f"{installed.system}:tablewright"
    command = "kubectl create rolebinding tablewright -n {} --clusterrole={} --serviceaccount={}".format(*names)
    assert message.endswith(f"Grant them: {command}")
    assert "configmaps (create, get, list, update, watch)" in message
    assert not installed.core.list_namespaced_config_map(
        installed.objects.name, label_selector="tablewright.dev/kind=table"
    ).items
    installed.objects.apply("MaintenanceRun", "by-hand", {"tableRef": {"name": "events"}, "operation": "Inspect"})
    held = eventually(lambda: installed.objects.run_status("by-hand"), lambda run: "reason" in run, seconds=60)
    assert (held["reason"], command in held["message"]) == ("JobNotCreated", True)

    kubectl(installed.access, *command.split()[1:])
    eventually(installed.ready, lambda found: found[0] == "Available", seconds=90)
    eventually(lambda: installed.objects.run_status("by-hand").get("jobName"), bool, seconds=90)
    pods = eventually(lambda: installed.core.list_namespaced_pod(installed.objects.name).items, bool, seconds=60)
    assert pods[0].spec.service_account_name == "tablewright-jobs"
    binding = installed.rbac.read_namespaced_role_binding("tablewright-jobs", installed.objects.name)
    assert binding.role_ref.name == f"tablewright-jobs-{installed.system}"


def test_each_right_that_is_missing_is_named(
    installed: Installation, processes: OperatorProcesses, kube_api: client.ApiClient
) -> None:
    """Each in a namespace of its own, whose Role has all others."""
    needed = [("secrets", "get"), ("pods", "list"), ("events", "create"), ("events", "list")]
    needed += [("jobs", verb) for verb in ("get", "list", "watch", "create", "delete")]
    needed += [("configmaps", verb) for verb in ("get", "list", "watch", "create", "update")]
    name = f"tablewright-tables-{installed.system}"
    rules = json.loads(kubectl(installed.access, "get", "clusterrole", name, "-o", "json"))["rules"]
    account = {"kind": "ServiceAccount", "name": "tablewright", "namespace": installed.system}
    custom = client.CustomObjectsApi(kube_api)
    with contextlib.ExitStack() as namespaces:
        places = {right: namespaces.enter_context(new_namespace(kube_api)) for right in needed}
        for (resource, verb), place in places.items():
            left = [
                rule | ({"verbs": [v for v in rule["verbs"] if v != verb]} if rule["resources"] == [resource] else {})
                for rule in rules
            ]
            installed.rbac.create_namespaced_role(
                place, {"metadata": {"name": "r"}, "rules": [r for r in left if r["verbs"]]}
            )
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
            binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [account]}
            installed.rbac.create_namespaced_role_binding(place, binding)
            lake = {"configMap": {}, "warehouse": f"file://{installed.folder}/{place}"}
            lake |= {"storage": {"credentialsSecretRef": {"name": "keys"}}}
            Namespace(installed.access, kube_api, place).apply("TableCatalog", "lake", lake)
        start(installed, processes)
        for (resource, verb), place in places.items():
            ready = eventually(partial(_ready_of, custom, place), bool, seconds=90)
            named = "secrets/keys" if resource == "secrets" else resource
            assert ready["reason"] == "RightsMissing", (resource, verb, ready)
            assert f"the operator lacks rights in namespace {place}: {named} ({verb}). Add them to" in ready["message"]


def _ready_of(custom: client.CustomObjectsApi, namespace: str) -> dict[str, Any]:
    lake = custom.get_namespaced_custom_object("tablewright.dev", "v1alpha1", namespace, "tablecatalogs", "lake")
    conditions = (lake.get("status") or {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == "Ready"), {})


def test_account_that_the_catalog_names_is_bound_and_never_created(
    installed: Installation, processes: OperatorProcesses
) -> None:
    grant(installed.access, installed.system, installed.objects.name)
    installed.declare(jobs={"serviceAccountName": "etl"})
    start(installed, processes)
    eventually(installed.ready, lambda found: found[0] == "Available", seconds=60)
    read = installed.rbac.list_namespaced_role_binding
    names = eventually(
        lambda: [each.metadata.name for each in read(installed.objects.name).items],
        lambda found: "tablewright-jobs-etl" in found,
        seconds=60,
    )
    assert "tablewright-jobs" not in names
    accounts = installed.core.list_namespaced_service_account(installed.objects.name).items
    assert {each.metadata.name for each in accounts} <= {"default"}


def test_secret_may_be_granted_by_its_name_alone(installed: Installation, processes: OperatorProcesses) -> None:
    keys = {"metadata": {"name": "keys"}, "stringData": {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}}
    installed.core.create_namespaced_secret(installed.objects.name, keys)
    grant(installed.access, installed.system, installed.objects.name)
    installed.withhold("secrets", "get")
    where = ["-n", installed.objects.name]
    kubectl(
        installed.access, "create", "role", "keys", "--verb=get", "--resource=secrets", "--resource-name=keys", *where
    )
    account = f"--serviceaccount={installed.system}:tablewright"
    kubectl(installed.access, "create", "rolebinding", "keys", "--role=keys", account, *where)
    installed.declare(storage={"credentialsSecretRef": {"name": "keys"}})
    start(installed, processes)
    eventually(installed.ready, lambda found: found[0] == "Available", seconds=60)


def test_without_grants_the_operator_may_neither_read_secrets_nor_touch_what_others_have(
    installed: Installation,
) -> None:
    """What the issue of its ClusterRole was: everybody's Secrets, and everybody's ConfigMaps."""
    asked = [("get", "secrets"), ("list", "secrets"), ("create", "jobs.batch"), ("create", "pods")]
    asked += [(verb, "configmaps") for verb in ("get", "list", "watch", "create", "update", "delete")]
    user = f"--as=system:serviceaccount:{installed.system}:tablewright"
    for namespace in ("kube-system", installed.objects.name):
        for verb, resource in asked:
            allowed = client.AuthorizationV1Api(installed.core.api_client).create_subject_access_review(
                {
                    "spec": {
                        "user": user.removeprefix("--as="),
                        "resourceAttributes": {
                            "namespace": namespace,
                            "verb": verb,
                            "resource": resource.partition(".")[0],
                            "group": resource.partition(".")[2],
                        },
                    }
                }
            )
            assert not allowed.status.allowed, (namespace, verb, resource)


def test_namespace_goes_as_a_whole_though_its_grant_goes_with_it(
    crds: KubernetesAccess, kube_api: client.ApiClient, tmp_path: Path
) -> None:
    """The finalizer of a table that is to be dropped must not keep a namespace that the operator lost."""
    core = client.CoreV1Api(kube_api)
    with new_namespace(kube_api) as system:
        name = unique("going")
        core.create_namespace({"metadata": {"name": name}})
        installed = Installation(crds, kube_api, system, name, tmp_path)
        grant(crds, system, name)
        installed.declare()
        installed.objects.apply("ManagedTable", "events", {**TABLE, "deletionPolicy": "Drop"})
        with operators(installed.kubeconfig, None, tmp_path / "operator.log") as processes:
            start(installed, processes)
            eventually(installed.ready, lambda found: found[0] == "Available", seconds=60)
            finalizers = eventually(
                lambda: (installed.objects.table("events") or {})["metadata"].get("finalizers"), bool, seconds=60
            )
            assert finalizers == ["tablewright.dev/table"]
            core.delete_namespace(name)
            eventually(
                lambda: [each.metadata.name for each in core.list_namespace().items],
                lambda names: name not in names,
                seconds=120,
            )
