"""The Secrets that a catalog takes to be opened."""

import pytest

from tablewright.act.passes import CatalogNotUsableError
from tablewright.runtime.catalogs import OpenCatalogs
from tablewright.runtime.store import ObjectStore


def catalogs() -> OpenCatalogs:
    store = ObjectStore()
    spec = {
        "rest": {"uri": "http://127.0.0.1:1", "credentialsSecretRef": {"name": "rest-keys"}},
        "storage": {"credentialsSecretRef": {"name": "storage-keys"}},
    }
    store.put("TableCatalog", {"metadata": {"name": "lake", "namespace": "sales"}, "spec": spec})
    there = {"storage-keys": {"AWS_ACCESS_KEY_ID": "k"}}
    return OpenCatalogs(store, lambda _, name: there.get(name), None)


def test_every_secret_that_a_catalog_names_is_asked_for() -> None:
    with pytest.raises(CatalogNotUsableError, match=r"spec\.rest\.credentialsSecretRef: no Secret rest-keys"):
        catalogs().open("sales", "lake")
