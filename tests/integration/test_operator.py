"""The operator's behaviours on a real API server, with a ConfigMap catalog and a local warehouse."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kubernetes import client
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tests.conftest import new_namespace
from tests.operators import API_VERSION, Namespace, RefusedError, install_operator, operators
from tests.servers.kubernetes import KubernetesAccess, kubectl
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("operator")

COLUMNS = [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def namespace(
    crds: KubernetesAccess,
    kube_api: client.ApiClient,
    shared_namespace: str,
    warehouse: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Namespace]:
    """A namespace with a catalog, and an operator that has the rights of its installation and no others."""
    objects = Namespace(crds, kube_api, shared_namespace)
    objects.apply("TableCatalog", "lake", {"configMap": {}, "warehouse": f"file://{warehouse}"})
    folder = tmp_path_factory.mktemp("operator")
    with new_namespace(kube_api) as system:
        account = install_operator(crds, kube_api, system, folder, granted=[shared_namespace])
        with operators(account, shared_namespace, folder / "operator.log") as processes:
            processes.start("--lease-namespace", system)
            yield objects


@pytest.fixture
def catalog(namespace: Namespace, warehouse: Path) -> Catalog:
    return open_catalog(
        ConfigMapConfig(
            name="lake",
            warehouse=f"file://{warehouse}",
            namespace=namespace.name,
            kubeconfig=str(namespace.access.kubeconfig),
        )
    )


def spec(name: str, **changes: Any) -> dict[str, Any]:
    identifier = {"namespace": "sales", "name": name}
    whole = {"catalogRef": {"name": "lake"}, "identifier": identifier, "schema": {"columns": COLUMNS}, **changes}
    return {field: value for field, value in whole.items() if value is not None}


def declare(namespace: Namespace, name: str, **changes: Any) -> None:
    namespace.apply("ManagedTable", name, spec(name, **changes))


def ready(namespace: Namespace, name: str) -> dict[str, Any]:
    eventually(lambda: namespace.conditions(name), lambda c: c.get("InSync") == "True/AsDeclared")
    assert namespace.conditions(name)["Ready"] == "True/Available"
    return namespace.status(name)


def exists(catalog: Catalog, name: str) -> bool:
    return catalog.table_exists(("sales", name))


def test_a_new_column_reaches_the_table_and_its_rows_stay(namespace: Namespace, catalog: Catalog) -> None:
    declare(namespace, "evolving")
    ready(namespace, "evolving")
    catalog.load_table(("sales", "evolving")).append(pa.table({"id": [1], "city": ["Pune"]}))
    renamed = [COLUMNS[0], {"name": "town", "type": "string", "previousNames": ["city"]}, {"name": "n", "type": "int"}]
    declare(namespace, "evolving", schema={"columns": renamed})
    eventually(
        lambda: catalog.load_table(("sales", "evolving")).schema().column_names,
        lambda names: names == ["id", "town", "n"],
    )
    rows = catalog.load_table(("sales", "evolving")).scan().to_arrow().to_pylist()
    assert rows == [{"id": 1, "town": "Pune", "n": None}]


def test_a_change_that_would_lose_data_is_refused_with_the_field_and_the_table_stays_ready(
    namespace: Namespace, catalog: Catalog
) -> None:
    declare(namespace, "narrowing")
    before = ready(namespace, "narrowing")["identity"]["metadataLocation"]
    declare(namespace, "narrowing", schema={"columns": [{"name": "id", "type": "int"}, COLUMNS[1]]})
    conditions = eventually(
        lambda: namespace.conditions("narrowing"), lambda c: c.get("InSync", "").startswith("False")
    )
    assert conditions["InSync"] == "False/Refused"
    assert conditions["Ready"] == "True/Available"
    [in_sync] = [c for c in namespace.status("narrowing")["conditions"] if c["type"] == "InSync"]
    assert "schema.columns[id].type" in in_sync["message"]
    assert catalog.load_table(("sales", "narrowing")).metadata_location == before


def test_a_table_waits_for_its_catalog_and_says_so(namespace: Namespace, warehouse: Path) -> None:
    declare(namespace, "waiting", catalogRef={"name": "late"})
    eventually(lambda: namespace.conditions("waiting"), lambda c: c.get("Ready") == "False/CatalogNotFound")
    namespace.apply("TableCatalog", "late", {"configMap": {}, "warehouse": f"file://{warehouse}/late"})
    ready(namespace, "waiting")


def test_an_existing_table_is_adopted_and_then_evolved(namespace: Namespace, catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("sales")
    table = catalog.create_table(("sales", "adopted"), pa.schema([pa.field("id", pa.int64())]))
    table.append(pa.table({"id": [7]}))
    declare(namespace, "adopted")
    identity = ready(namespace, "adopted")["identity"]
    assert identity["uuid"] == str(table.metadata.table_uuid)
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 7, "city": None}]


def test_only_the_older_of_two_objects_has_the_table(namespace: Namespace) -> None:
    declare(namespace, "contested")
    ready(namespace, "contested")
    namespace.apply("ManagedTable", "usurper", spec("contested", schema={"columns": COLUMNS[:1]}))
    conditions = eventually(lambda: namespace.conditions("usurper"), bool)
    assert conditions == {
        "Ready": "False/ClaimedByAnother",
        "InSync": "False/ClaimedByAnother",
        "Stalled": "True/ClaimedByAnother",
    }
    assert namespace.conditions("contested")["InSync"] == "True/AsDeclared"


def test_the_younger_has_the_table_when_the_older_object_goes(namespace: Namespace) -> None:
    declare(namespace, "inherited")
    identity = ready(namespace, "inherited")["identity"]
    namespace.apply("ManagedTable", "heir", spec("inherited"))
    eventually(lambda: namespace.conditions("heir"), lambda c: c.get("Ready") == "False/ClaimedByAnother")
    namespace.delete("managedtable", "inherited")
    assert ready(namespace, "heir")["identity"]["uuid"] == identity["uuid"]
    assert "Stalled" not in namespace.conditions("heir")


def test_kubectl_get_shows_a_table_at_a_glance(namespace: Namespace, catalog: Catalog) -> None:
    declare(namespace, "shown")
    ready(namespace, "shown")
    catalog.load_table(("sales", "shown")).append(pa.table({"id": [1], "city": ["Pune"]}))
    eventually(lambda: namespace.status("shown")["health"], lambda health: health["records"] == 1)
    header, row = kubectl(namespace.access, "get", "mtbl", "shown", "-n", namespace.name).splitlines()
    titles = ["NAME", "READY", "IN SYNC", "FILES", "SMALL", "SIZE", "HEALTHY", "MAINTAINED", "LAST", "NEXT", "AGE"]
    starts = [header.index(f" {title}") + 1 if title != "NAME" else 0 for title in titles]
    ends = [*starts[1:], None]
    shown = {title: row[start:end].strip() for title, start, end in zip(titles, starts, ends, strict=True)}
    size = namespace.status("shown")["health"]["size"]
    assert shown.pop("AGE")
    assert shown == {
        "NAME": "shown",
        "READY": "True",
        "IN SYNC": "True",
        "FILES": "1",
        "SMALL": "1",
        "SIZE": size,
        "HEALTHY": "True",
        "MAINTAINED": "True",
        "LAST": "",
        "NEXT": "",
    }


def test_a_table_that_waits_or_is_refused_says_so_to_tools_that_know_nothing_of_it(namespace: Namespace) -> None:
    declare(namespace, "tooled", catalogRef={"name": "nowhere"})
    conditions = eventually(lambda: namespace.conditions("tooled"), lambda c: "Reconciling" in c)
    assert conditions == {"Ready": "False/CatalogNotFound", "Reconciling": "True/CatalogNotFound"}
    declare(namespace, "refusable")
    assert ready(namespace, "refusable")["observedGeneration"] == 1
    assert {"Reconciling", "Stalled"} & namespace.conditions("refusable").keys() == set()
    declare(namespace, "refusable", schema={"columns": [{"name": "id", "type": "int"}, COLUMNS[1]]})
    conditions = eventually(lambda: namespace.conditions("refusable"), lambda c: "Stalled" in c)
    assert (conditions["Ready"], conditions["Stalled"]) == ("True/Available", "True/Refused")
    assert namespace.status("refusable")["observedGeneration"] == 2


def test_a_new_object_is_not_taken_for_one_that_was_seen(crds: KubernetesAccess, kube_namespace: str) -> None:
    """Where no operator has been yet, the status says so: nothing takes the object for what it is to become."""
    obj = {"apiVersion": API_VERSION, "kind": "ManagedTable", "metadata": {"name": "unseen"}, "spec": spec("unseen")}
    kubectl(crds, "apply", "--server-side", "-n", kube_namespace, "-f", "-", stdin=json.dumps(obj))
    found = json.loads(kubectl(crds, "get", "mtbl", "unseen", "-n", kube_namespace, "-o", "json"))
    assert found["status"] == {"observedGeneration": -1}


def test_a_commit_by_somebody_else_is_noticed_at_once(namespace: Namespace, catalog: Catalog) -> None:
    declare(namespace, "watched")
    ready(namespace, "watched")
    catalog.load_table(("sales", "watched")).append(pa.table({"id": [1, 2], "city": ["Agra", None]}))
    health = eventually(lambda: namespace.status("watched")["health"], lambda h: h["records"] == 2)
    assert health["dataFiles"] == 1


@pytest.mark.parametrize(
    ("policy", "dropped", "purged"), [("Retain", False, False), ("Drop", True, False), ("Purge", True, True)]
)
def test_deletion_does_to_the_table_what_the_policy_says(
    namespace: Namespace, catalog: Catalog, policy: str, dropped: bool, purged: bool
) -> None:
    name = f"deleted_{policy.lower()}"
    namespace.apply("ManagedTable", name.replace("_", "-"), spec(name, deletionPolicy=policy))
    ready(namespace, name.replace("_", "-"))
    table = catalog.load_table(("sales", name))
    table.append(pa.table({"id": [1], "city": ["Pune"]}))
    folder = Path(table.location().removeprefix("file://"))
    namespace.delete("managedtable", name.replace("_", "-"))
    eventually(lambda: namespace.table(name.replace("_", "-")), lambda obj: obj is None)
    assert exists(catalog, name) is not dropped
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert bool(files) is not purged


def test_a_catalog_that_is_gone_does_not_trap_a_table(namespace: Namespace, warehouse: Path) -> None:
    namespace.apply("TableCatalog", "doomed", {"configMap": {}, "warehouse": f"file://{warehouse}/doomed"})
    declare(namespace, "orphaned", catalogRef={"name": "doomed"}, deletionPolicy="Purge")
    ready(namespace, "orphaned")
    namespace.delete("tablecatalog", "doomed")
    namespace.delete("managedtable", "orphaned")
    eventually(lambda: namespace.table("orphaned"), lambda obj: obj is None)


def test_a_table_that_somebody_dropped_is_reported_and_not_created_again(
    namespace: Namespace, catalog: Catalog
) -> None:
    declare(namespace, "dropped")
    ready(namespace, "dropped")
    catalog.drop_table(("sales", "dropped"))
    eventually(lambda: namespace.conditions("dropped"), lambda c: c.get("Ready") == "False/TableMissing")
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("sales", "dropped"))


def test_the_api_server_refuses_what_makes_no_sense(namespace: Namespace) -> None:
    declare(namespace, "immutable")
    bad: dict[str, dict[str, Any]] = {
        "catalogRef is immutable": {"catalogRef": {"name": "other"}},
        "identifier is immutable": {"identifier": {"namespace": "sales", "name": "else"}},
        "spec.layout.targetFileSize": {"layout": {"targetFileSize": "12 MB"}},
        "spec.partitioning[0].transform": {"partitioning": [{"column": "id", "transform": "weekly"}]},
        "spec.deletionPolicy": {"deletionPolicy": "Forget"},
        "schema is required": {"schema": None},
    }
    for complaint, change in bad.items():
        with pytest.raises(RefusedError) as refusal:
            declare(namespace, "immutable", **change)
        assert complaint in str(refusal.value)


def test_a_declaration_that_cannot_be_read_keeps_what_is_known_of_the_table(namespace: Namespace) -> None:
    declare(namespace, "misspelt")
    known = ready(namespace, "misspelt")["identity"]
    declare(namespace, "misspelt", timeZone="Mars/Olympus")
    eventually(lambda: namespace.conditions("misspelt"), lambda c: c.get("InSync") == "False/Invalid")
    assert namespace.status("misspelt")["identity"] == known


def test_a_declaration_that_cannot_be_read_does_not_trap_its_object(namespace: Namespace, catalog: Catalog) -> None:
    declare(namespace, "unread", deletionPolicy="Purge")
    ready(namespace, "unread")
    declare(namespace, "unread", deletionPolicy="Purge", timeZone="Mars/Olympus")
    eventually(lambda: namespace.conditions("unread"), lambda c: c.get("InSync") == "False/Invalid")
    namespace.delete("managedtable", "unread")
    eventually(lambda: namespace.table("unread"), lambda obj: obj is None)
    assert not exists(catalog, "unread"), "its deletion policy could be read, and was carried out"


def test_a_declaration_that_cannot_be_read_still_has_its_table(namespace: Namespace) -> None:
    declare(namespace, "garbled")
    ready(namespace, "garbled")
    declare(namespace, "garbled", timeZone="Mars/Olympus")
    eventually(lambda: namespace.conditions("garbled"), lambda c: c.get("InSync") == "False/Invalid")
    namespace.apply("ManagedTable", "garbled-rival", spec("garbled"))
    conditions = eventually(lambda: namespace.conditions("garbled-rival"), bool)
    assert conditions["Ready"] == "False/ClaimedByAnother"


def test_a_policy_that_cannot_be_read_stops_the_maintenance_of_the_tables_that_it_selects_and_of_no_others(
    namespace: Namespace,
) -> None:
    selector = {"matchLabels": {"team": "mars"}}
    namespace.apply("TablePolicy", "mars", {"selector": selector, "timeZone": "Mars/Olympus"})
    namespace.apply("ManagedTable", "governed", spec("governed"), labels={"team": "mars"})
    declare(namespace, "ungoverned")
    ready(namespace, "governed")
    ready(namespace, "ungoverned")
    # The watch of policies may be behind that of tables, if only by a moment.
    eventually(lambda: namespace.conditions("governed"), lambda c: c["Maintained"] == "False/PolicyInvalid")
    assert namespace.conditions("ungoverned")["Maintained"] == "True/NothingDone"
    run = {"tableRef": {"name": "governed"}, "operation": "ExpireSnapshots"}
    namespace.apply("MaintenanceRun", "governed-by-hand", run)
    message = eventually(lambda: namespace.run_status("governed-by-hand").get("message"), bool)
    assert "Mars/Olympus" in str(message), "a run with the defaults' retention is not what the policy's author meant"
    namespace.apply("TablePolicy", "mars", {"selector": selector, "timeZone": "Asia/Kolkata"})
    eventually(lambda: namespace.conditions("governed"), lambda c: c["Maintained"] == "True/NothingDone")
    eventually(lambda: namespace.run_status("governed-by-hand"), lambda status: "jobName" in status)
