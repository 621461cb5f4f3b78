"""What looks at all other tables of a catalog does so by its listing: a request for each would be too many."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.typedef import Identifier

from tableformat.catalogs import ConfigMapConfig, open_catalog
from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.configmap import ConfigMapCatalog
from tableformat.catalogs.pointer_catalog import PointerCatalog
from tableformat.maintenance.errors import SharedLocation
from tableformat.maintenance.expiry import ExpiryOptions, expire_snapshots
from tableformat.maintenance.orphans import OrphanOptions, remove_orphans
from tests.integration.maintenance.tables import IDENTIFIER, SCHEMA, append, create, later
from tests.servers.kubernetes import KubernetesAccess


@pytest.fixture
def catalog(kubernetes: KubernetesAccess, kube_namespace: str, tmp_path: Path) -> Iterator[Catalog]:
    config = ConfigMapConfig(
        name="lake",
        warehouse=f"file://{tmp_path}/warehouse",
        namespace=kube_namespace,
        kubeconfig=str(kubernetes.kubeconfig),
    )
    with open_catalog(config) as opened:
        yield opened


def test_expiry_and_orphan_removal_read_no_pointer_of_the_tables_around(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog)
    append(table, 3)
    catalog.create_namespace("other")
    for name in ("db.a", "db.b", "other.c"):
        catalog.create_table(name, SCHEMA)
    read: list[Identifier] = []
    plain = ConfigMapCatalog.read_pointer

    def recorded(self: ConfigMapCatalog, identifier: Identifier) -> Pointer | None:
        read.append(identifier)
        return plain(self, identifier)

    monkeypatch.setattr(ConfigMapCatalog, "read_pointer", recorded)
    now = later(table, days=20)
    expired = expire_snapshots(catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=now)
    remove_orphans(catalog, IDENTIFIER, OrphanOptions(), now=now)
    assert expired.snapshots_expired == 2
    assert set(read) == {IDENTIFIER}


def test_a_second_name_is_found_in_the_listing(catalog: Catalog) -> None:
    table = create(catalog)
    append(table, 3)
    catalog.register_table("db.second", table.metadata_location)
    with pytest.raises(SharedLocation, match=r"db\.second"):
        expire_snapshots(catalog, IDENTIFIER, ExpiryOptions(max_snapshot_age_ms=0), now=later(table, days=20))


def test_a_listing_tells_the_pointer_that_the_table_has(catalog: Catalog) -> None:
    assert isinstance(catalog, PointerCatalog)
    table = create(catalog)
    catalog.create_table("db.old", SCHEMA)
    catalog.rename_table("db.old", "db.new")
    append(table)
    listed = catalog.listed_pointers(("db",))
    assert set(listed) == {IDENTIFIER, ("db", "new")}
    assert listed == {identifier: catalog.read_pointer(identifier) for identifier in listed}
