"""What is particular to pointers in ConfigMaps: names, labels, permissions, renames cut short, edits by hand."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kubernetes import client
from kubernetes.config import incluster_config
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

from tableformat.catalogs import (
    CatalogAccessError,
    CatalogUnavailableError,
    ConfigMapConfig,
    CorruptCatalogEntryError,
    DeletionPendingError,
    kube_store,
    open_catalog,
)
from tests.integration.catalogs.test_tables import SCHEMA, ids, rows
from tests.servers.kubernetes import KubernetesAccess
from tests.servers.proxy import Break, Fault, FaultProxy, Request
from tests.waiting import eventually

STRANGE = (
    ("db", "Upper"),
    ("db", "upper"),
    ("db", "with.dot"),
    ("db", "with", "dot"),
    ("db", "with-dot"),
    ("db", "表"),
    ("db", "🙂"),
    ("db", "-"),
    ("db", "_"),
    ("db", "a b"),
    ("db", "a/b"),
    ("db", "x" * 300),
    ("db", "x" * 301),
    ("db", '"quoted"\n'),
)


@pytest.fixture
def config(kubernetes: KubernetesAccess, kube_namespace: str, tmp_path: Path) -> ConfigMapConfig:
    return ConfigMapConfig(
        name="lake",
        warehouse=f"file://{tmp_path}/warehouse",
        namespace=kube_namespace,
        kubeconfig=str(kubernetes.kubeconfig),
    )


@pytest.fixture
def catalog(config: ConfigMapConfig) -> Iterator[Catalog]:
    with open_catalog(config) as opened:
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def core(kube_api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(kube_api)


def table_objects(core: client.CoreV1Api, namespace: str) -> list[Any]:
    found: list[Any] = core.list_namespaced_config_map(namespace, label_selector="tablewright.dev/kind=table").items
    return found


def test_identifiers_of_any_shape_are_held_apart(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace(("db", "with"))
    for number, identifier in enumerate(STRANGE):
        catalog.create_table(identifier, SCHEMA, location=f"file://{tmp_path}/{number}")
    for number, identifier in enumerate(STRANGE):
        table = catalog.load_table(identifier)
        assert table.name() == identifier
        assert table.location().endswith(f"/{number}")
    assert sorted(catalog.list_tables("db")) == sorted(name for name in STRANGE if len(name) == 2)
    assert catalog.list_tables(("db", "with")) == [("db", "with", "dot")]


def test_namespaces_of_any_shape_are_held_apart(catalog: Catalog, tmp_path: Path) -> None:
    names = [("a.b",), ("a",), ("a", "b"), ("A",), ("ä",), ("n" * 100,), ("sha256-x",)]
    for name in names:
        catalog.create_namespace(name)
        catalog.create_table((*name, "t"), SCHEMA, location=f"file://{tmp_path}/{uuid4()}")
    for name in names:
        assert catalog.list_tables(name) == [(*name, "t")]
    assert sorted(catalog.list_namespaces()) == sorted([("db",)] + [name for name in names if len(name) == 1])


def test_two_catalogs_in_one_kubernetes_namespace_do_not_see_each_other(
    catalog: Catalog, config: ConfigMapConfig
) -> None:
    catalog.create_table("db.t", SCHEMA)
    with open_catalog(config.model_copy(update={"name": "Lake 2"})) as other:
        assert other.list_namespaces() == []
        other.create_namespace("db")
        assert other.list_tables("db") == []
        assert not other.table_exists("db.t")
    assert catalog.list_namespaces() == [("db",)]


def test_the_object_says_in_plain_words_what_it_is(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str
) -> None:
    table = catalog.create_table("db.payments", SCHEMA)
    created = table.metadata_location
    table.append(rows(1))
    (found,) = table_objects(core, kube_namespace)
    assert found.metadata.name.startswith("iceberg-table-db-payments-")
    assert found.metadata.labels == {
        "tablewright.dev/catalog": "lake",
        "tablewright.dev/kind": "table",
        "tablewright.dev/namespace": "db",
    }
    assert found.data == {
        "identifier": '["db", "payments"]',
        "table_uuid": str(table.metadata.table_uuid),
        "metadata_location": table.metadata_location,
        "previous_metadata_location": created,
    }


def test_what_others_put_on_the_object_survives_a_commit(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    name = table_objects(core, kube_namespace)[0].metadata.name
    patch = {"metadata": {"labels": {"team": "sales"}, "annotations": {"note": "ours"}, "finalizers": ["a.b/c"]}}
    core.patch_namespaced_config_map(name, kube_namespace, patch)
    table.append(rows(1))
    (found,) = table_objects(core, kube_namespace)
    assert found.metadata.labels["team"] == "sales"
    assert found.metadata.annotations == {"note": "ours"}
    assert found.metadata.finalizers == ["a.b/c"]
    core.patch_namespaced_config_map(name, kube_namespace, {"metadata": {"finalizers": None}})


def test_a_table_whose_object_a_finalizer_keeps_is_not_called_dropped_and_loses_no_file(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str
) -> None:
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    (entry,) = table_objects(core, kube_namespace)
    core.patch_namespaced_config_map(entry.metadata.name, kube_namespace, {"metadata": {"finalizers": ["a.b/c"]}})
    for attempt in (catalog.purge_table, catalog.drop_table):
        with pytest.raises(DeletionPendingError, match=f"{entry.metadata.name} .* finalizers a.b/c"):
            attempt("db.t")
    assert ids(catalog.load_table("db.t")) == [1]
    catalog.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == [("db", "u")]
    catalog.load_table("db.u").append(rows(2))
    core.patch_namespaced_config_map(entry.metadata.name, kube_namespace, {"metadata": {"finalizers": None}})
    catalog.purge_table("db.u")
    assert table_objects(core, kube_namespace) == []


def test_a_role_on_configmaps_of_one_namespace_is_enough(
    config: ConfigMapConfig,
    kubernetes: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    tmp_path: Path,
) -> None:
    verbs = ["get", "list", "watch", "create", "update", "delete"]
    kubeconfig = _service_account(kubernetes, kube_api, kube_namespace, verbs, tmp_path)
    with open_catalog(config.model_copy(update={"kubeconfig": str(kubeconfig)})) as catalog:
        catalog.create_namespace("db", {"owner": "sales"})
        catalog.update_namespace_properties("db", updates={"owner": "ops"})
        catalog.create_table("db.t", SCHEMA).append(rows(1))
        catalog.rename_table("db.t", "db.u")
        assert ids(catalog.load_table("db.u")) == [1]
        assert catalog.list_tables("db") == [("db", "u")]
        catalog.purge_table("db.u")
        catalog.drop_namespace("db")


def test_a_missing_permission_is_named(
    catalog: Catalog,
    config: ConfigMapConfig,
    kubernetes: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    tmp_path: Path,
) -> None:
    before = catalog.create_table("db.t", SCHEMA)
    kubeconfig = _service_account(kubernetes, kube_api, kube_namespace, ["get"], tmp_path)
    with open_catalog(config.model_copy(update={"kubeconfig": str(kubeconfig)})) as reader:
        with pytest.raises(CatalogAccessError, match=f"verb update on configmaps in namespace {kube_namespace}"):
            reader.load_table("db.t").append(rows(1))
        with pytest.raises(CatalogAccessError, match="verb list on configmaps"):
            reader.list_tables("db")
        with pytest.raises(CatalogAccessError, match=r"verb create on configmaps .* grant it by a Role"):
            reader.create_table("db.u", SCHEMA)
    assert catalog.load_table("db.t").metadata_location == before.metadata_location


def test_what_is_refused_for_another_reason_is_not_called_a_missing_permission(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str
) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "0"}}}
    core.create_namespaced_resource_quota(kube_namespace, quota)
    core.patch_namespaced_resource_quota_status(
        "few", kube_namespace, {"status": {"hard": {"count/configmaps": "0"}, "used": {"count/configmaps": "1"}}}
    )  # as the quota controller would

    def refusal() -> str:
        try:
            catalog.create_table("db.t", SCHEMA)
        except CatalogAccessError as error:
            return str(error)
        catalog.drop_table("db.t")
        return ""

    said = eventually(refusal, bool)
    assert "exceeded quota: few" in said
    assert "Role" not in said


def test_a_pod_uses_its_service_account(
    config: ConfigMapConfig,
    kubernetes: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubeconfig = _service_account(kubernetes, kube_api, kube_namespace, ["get", "create"], tmp_path)
    token = tmp_path / "token"
    token.write_text(json.loads(kubeconfig.read_text())["users"][0]["user"]["token"])
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(kubernetes.certificate))
    host, _, port = kubernetes.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    with open_catalog(config.model_copy(update={"kubeconfig": None})) as catalog:
        catalog.create_namespace("db")
        assert catalog.namespace_exists("db")


def test_a_kubeconfig_that_is_not_there_is_named(config: ConfigMapConfig, tmp_path: Path) -> None:
    with pytest.raises(CatalogAccessError, match="nowhere"):
        open_catalog(config.model_copy(update={"kubeconfig": str(tmp_path / "nowhere")}))


def test_a_kubernetes_namespace_that_is_not_there_is_named(config: ConfigMapConfig) -> None:
    with open_catalog(config.model_copy(update={"namespace": "nowhere"})) as catalog:
        for attempt in (lambda: catalog.create_namespace("db"), catalog.list_namespaces):
            with pytest.raises(CatalogAccessError, match="no Kubernetes namespace nowhere"):
                attempt()


def test_an_empty_catalog_is_listed_by_whoever_may_not_look_at_kubernetes_namespaces(
    config: ConfigMapConfig,
    kubernetes: KubernetesAccess,
    kube_api: client.ApiClient,
    kube_namespace: str,
    tmp_path: Path,
) -> None:
    kubeconfig = _service_account(kubernetes, kube_api, kube_namespace, ["get", "list"], tmp_path)
    with open_catalog(config.model_copy(update={"kubeconfig": str(kubeconfig)})) as reader:
        assert reader.list_namespaces() == []


def test_more_tables_than_a_page_are_listed(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_store, "PAGE", 4)
    names = [("db", f"t{number}") for number in range(9)]
    table = catalog.create_table(names[0], SCHEMA)
    for name in names[1:]:
        catalog.register_table(name, table.metadata_location)
    assert catalog.list_tables("db") == names


def test_a_copy_of_a_tables_object_is_no_second_table(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str
) -> None:
    catalog.create_table("db.t", SCHEMA)
    (table,) = table_objects(core, kube_namespace)
    copy = {"metadata": {"name": "a-copy", "labels": table.metadata.labels}, "data": table.data}
    core.create_namespaced_config_map(kube_namespace, copy)
    assert catalog.list_tables("db") == [("db", "t")]


# --- renames that were cut short


class _Death:
    """A process that dies right after its n-th write: answered, or with the answer still on its way."""

    def __init__(self, writes: int, *, answered: bool) -> None:
        self._left = writes
        self._answered = answered
        self._dead = False

    def faults(self) -> list[Fault]:
        return [
            Fault(self._loses_the_last_answer, Break.CUT_AFTER, times=None),
            Fault(lambda _: self._dead, Break.CUT_BEFORE, times=None),
            Fault(self._survives, Break.CUT_BEFORE, times=None),
        ]

    def _loses_the_last_answer(self, request: Request) -> bool:
        last = not self._dead and _writes(request) and self._left == 1 and not self._answered
        self._dead = self._dead or last
        return last

    def _survives(self, request: Request) -> bool:
        if _writes(request):
            self._left -= 1
            self._dead = self._left == 0
        return False


def _writes(request: Request) -> bool:
    return request.method in ("POST", "PUT", "DELETE")


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "answer-lost"])
@pytest.mark.parametrize("writes", range(1, 6))
def test_a_rename_that_dies_after_any_step_leaves_one_table_with_one_name(
    catalog: Catalog,
    config: ConfigMapConfig,
    kubernetes: KubernetesAccess,
    core: client.CoreV1Api,
    tmp_path: Path,
    writes: int,
    answered: bool,
) -> None:
    catalog.create_table("db.old", SCHEMA).append(rows(1))
    proxy = FaultProxy(kubernetes.server, kubernetes.certificate, _Death(writes, answered=answered).faults())
    with contextlib.suppress(CatalogUnavailableError):
        _rename_through(proxy, config, kubernetes, tmp_path)

    (name,) = catalog.list_tables("db")
    gone = ("db", "new") if name == ("db", "old") else ("db", "old")
    assert not catalog.table_exists(gone)
    table = catalog.load_table(name)
    table.append(rows(2))
    assert ids(catalog.load_table(name)) == [1, 2]
    fresh = catalog.create_table(gone, SCHEMA, location=f"file://{tmp_path}/fresh")
    assert sorted(catalog.list_tables("db")) == [("db", "new"), ("db", "old")]
    assert catalog.load_table(gone).metadata.table_uuid == fresh.metadata.table_uuid
    catalog.drop_table(name)
    assert catalog.list_tables("db") == [gone]
    catalog.drop_table(gone)
    assert table_objects(core, config.namespace) == []
    catalog.drop_namespace("db")


def test_a_commit_between_the_steps_of_a_rename_is_not_lost(
    catalog: Catalog, config: ConfigMapConfig, kubernetes: KubernetesAccess, tmp_path: Path
) -> None:
    catalog.create_table("db.old", SCHEMA).append(rows(1))

    def marks_old(request: Request) -> bool:
        return request.method == "PUT" and b"moved_to" in request.body

    def committed_meanwhile(request: Request) -> bool:
        if not marks_old(request):
            return False
        catalog.load_table("db.old").append(rows(2))
        return True

    _rename_through(
        FaultProxy(kubernetes.server, kubernetes.certificate, [Fault(committed_meanwhile, Break.DELAY)]),
        config,
        kubernetes,
        tmp_path,
    )
    assert catalog.list_tables("db") == [("db", "new")]
    assert ids(catalog.load_table("db.new")) == [1, 2]


def test_a_rename_whose_new_name_is_taken_meanwhile_is_taken_back(
    catalog: Catalog, config: ConfigMapConfig, kubernetes: KubernetesAccess, tmp_path: Path
) -> None:
    catalog.create_table("db.old", SCHEMA).append(rows(1))

    def created_meanwhile(request: Request) -> bool:
        if request.method != "PUT" or b"moved_to" not in request.body:
            return False
        catalog.create_table("db.new", SCHEMA).append(rows(7))
        return True

    with pytest.raises(TableAlreadyExistsError):
        _rename_through(
            FaultProxy(kubernetes.server, kubernetes.certificate, [Fault(created_meanwhile, Break.DELAY)]),
            config,
            kubernetes,
            tmp_path,
        )
    assert ids(catalog.load_table("db.old")) == [1]
    assert ids(catalog.load_table("db.new")) == [7]


def test_of_two_renames_of_one_table_one_wins(
    catalog: Catalog, config: ConfigMapConfig, kubernetes: KubernetesAccess, tmp_path: Path
) -> None:
    catalog.create_table("db.old", SCHEMA).append(rows(1))

    def renamed_meanwhile(request: Request) -> bool:
        if request.method != "PUT" or b"moved_to" not in request.body:
            return False
        catalog.rename_table("db.old", "db.other")
        return True

    with pytest.raises(NoSuchTableError):
        _rename_through(
            FaultProxy(kubernetes.server, kubernetes.certificate, [Fault(renamed_meanwhile, Break.DELAY)]),
            config,
            kubernetes,
            tmp_path,
        )
    assert catalog.list_tables("db") == [("db", "other")]
    assert ids(catalog.load_table("db.other")) == [1]


def _rename_through(proxy: FaultProxy, config: ConfigMapConfig, kubernetes: KubernetesAccess, tmp_path: Path) -> None:
    with proxy:
        kubeconfig = kubernetes.kubeconfig_with_token("admin-token", tmp_path / "proxied.json", server=proxy.url)
        with open_catalog(config.model_copy(update={"kubeconfig": str(kubeconfig)})) as catalog:
            catalog.rename_table("db.old", "db.new")


# --- objects that somebody edited


Edit = Callable[[dict[str, str]], None]
EDITS: dict[str, tuple[Edit, str]] = {
    "pointer-missing": (lambda data: data.__delitem__("metadata_location"), "has no metadata_location"),
    "pointer-dangling": (
        lambda data: data.update(metadata_location=data["metadata_location"].replace("00001-", "99999-")),
        "does not exist",
    ),
    "identifier-missing": (lambda data: data.__delitem__("identifier"), "has no identifier"),
    "identifier-not-json": (lambda data: data.update(identifier="db.t"), "has no JSON in identifier"),
    "identifier-of-another": (lambda data: data.update(identifier='["db", "u"]'), "its identifier says db.u"),
    "uuid-missing": (lambda data: data.__delitem__("table_uuid"), "has no table_uuid"),
    "uuid-malformed": (lambda data: data.update(table_uuid="x"), "table_uuid that is none"),
    "uuid-of-another": (lambda data: data.update(table_uuid=str(uuid4())), "is metadata of the table"),
    "mark-malformed": (lambda data: data.update(moved_to="{}"), "mark moved_to that cannot be read"),
    "empty": (lambda data: data.clear(), "has no identifier"),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_object_is_named_with_what_is_wrong_and_left_as_it_is(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str, edit: Edit, message: str
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    (entry,) = table_objects(core, kube_namespace)
    edit(entry.data)
    edited = core.replace_namespaced_config_map(entry.metadata.name, kube_namespace, entry)
    attempts: list[Callable[[], object]] = [
        lambda: catalog.load_table("db.t"),
        lambda: table.append(rows(2)),
        lambda: table.transaction().set_properties(a="b").commit_transaction(),
    ]
    for attempt in attempts:
        with pytest.raises(CorruptCatalogEntryError, match=message) as error:
            attempt()
        assert f"ConfigMap {kube_namespace}/{entry.metadata.name}" in str(error.value)
    (now,) = table_objects(core, kube_namespace)
    assert now.metadata.resource_version == edited.metadata.resource_version


def test_an_edited_namespace_is_named_with_what_is_wrong(
    catalog: Catalog, core: client.CoreV1Api, kube_namespace: str
) -> None:
    selector = "tablewright.dev/kind=namespace"
    (entry,) = core.list_namespaced_config_map(kube_namespace, label_selector=selector).items
    entry.data["properties"] = "owner: sales"
    core.replace_namespaced_config_map(entry.metadata.name, kube_namespace, entry)
    with pytest.raises(CorruptCatalogEntryError, match=f"{entry.metadata.name} has no JSON in properties"):
        catalog.load_namespace_properties("db")


def _service_account(
    kubernetes: KubernetesAccess, api: client.ApiClient, namespace: str, verbs: list[str], folder: Path
) -> Path:
    core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "writer"}})
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]
    rbac.create_namespaced_role(namespace, {"metadata": {"name": "writer"}, "rules": rules})
    rbac.create_namespaced_role_binding(
        namespace,
        {
            "metadata": {"name": "writer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
            "subjects": [{"kind": "ServiceAccount", "name": "writer", "namespace": namespace}],
        },
    )
    token = core.create_namespaced_service_account_token("writer", namespace, {"spec": {}}).status.token
    return kubernetes.kubeconfig_with_token(token, folder / "writer.json")
