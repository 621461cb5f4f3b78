"""The Secrets that a catalog takes to be opened."""

import re

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
    with pytest.raises(
        CatalogNotUsableError, match=r"spec\.rest\.credentialsSecretRef: no Secret rest-keys in namespace sales"
    ):
        catalogs().open("sales", "lake")


def test_a_catalog_that_cannot_be_opened_is_a_reason_that_its_tables_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A DynamoDB catalog without keys, for one: no pass may fail over it again and again in silence."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    store = ObjectStore()
    dynamo = {"endpoint": "http://127.0.0.1:1", "region": "us-east-1", "createTable": True}
    spec = {"dynamoDB": dynamo, "warehouse": "file:///nowhere"}
    store.put("TableCatalog", {"metadata": {"name": "lake", "namespace": "sales"}, "spec": spec})
    with pytest.raises(CatalogNotUsableError, match="TableCatalog lake: no AWS credentials") as refusal:
        OpenCatalogs(store, lambda *_: None, None).open("sales", "lake")
    assert refusal.value.reason == "CatalogNotOpened"


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (
            "mssql+pyodbc",
            "the driver for databases of mssql+pyodbc is not installed; install the Python package pyodbc",
        ),
        ("postgressql", "SQLAlchemy knows no databases of 'postgressql'; did you mean postgresql?"),
        ("nodatabase", "SQLAlchemy knows no databases of 'nodatabase'; use an address such as postgresql+psycopg://"),
    ],
)
def test_a_database_that_nobody_has_a_driver_for_is_said_not_tried_again_and_again(scheme: str, said: str) -> None:
    store = ObjectStore()
    spec = {"sql": {"uri": f"{scheme}://user@127.0.0.1:1/lake"}, "warehouse": "file:///nowhere"}
    store.put("TableCatalog", {"metadata": {"name": "lake", "namespace": "sales"}, "spec": spec})
    with pytest.raises(CatalogNotUsableError, match=re.escape(f"TableCatalog lake: {said}")) as refusal:
        OpenCatalogs(store, lambda *_: None, None).open("sales", "lake")
    assert refusal.value.reason == "CatalogNotOpened"


def with_password(uri: str, source: dict[str, object], secrets: dict[str, dict[str, str]]) -> OpenCatalogs:
    store, env = ObjectStore(), [{"name": "PGPASSWORD", **source}]
    spec = {"sql": {"uri": uri}, "warehouse": "file:///nowhere", "jobs": {"env": env}}
    store.put("TableCatalog", {"metadata": {"name": "lake", "namespace": "sales"}, "spec": spec})
    return OpenCatalogs(store, lambda _, name: secrets.get(name), None)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ({"name": "db", "key": "pw"}, "Secret db has no key pw: add it, or name another key"),
        ({"name": "none", "key": "password"}, "no Secret none in namespace sales: create it"),
    ],
)
def test_a_password_that_is_not_there_names_the_variable_the_secret_and_the_key(
    reference: dict[str, str], said: str
) -> None:
    source: dict[str, object] = {"valueFrom": {"secretKeyRef": reference}}
    opening = with_password("postgresql+psycopg://me@127.0.0.1:1/db", source, {"db": {"password": "hush"}})
    with pytest.raises(CatalogNotUsableError) as refusal:
        opening.open("sales", "lake")
    assert refusal.value.reason == "SecretNotFound"
    assert str(refusal.value) == f"TableCatalog lake: spec.jobs.env[PGPASSWORD].valueFrom.secretKeyRef: {said}"


def test_a_password_in_a_config_map_is_refused() -> None:
    source: dict[str, object] = {"valueFrom": {"configMapKeyRef": {"name": "db", "key": "password"}}}
    with pytest.raises(CatalogNotUsableError, match=r"spec\.jobs\.env\[PGPASSWORD\]: a password is kept in a Secret"):
        with_password("postgresql+psycopg://me@127.0.0.1:1/db", source, {}).open("sales", "lake")
