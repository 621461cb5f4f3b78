"""The password of a SQL catalog's database: from a Secret in a cluster, from the environment in a folder or a job."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from sqlalchemy import URL

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.maintenance.job import InspectWork, JobReport, MaintenanceJob
from tests.conftest import unique
from tests.integration.catalogs.test_tables import SCHEMA
from tests.integration.cli.conftest import TABLES, run_cli
from tests.operators import Namespace, operators
from tests.servers.databases import PASSWORD, DatabaseAccess
from tests.servers.kubernetes import KubernetesAccess
from tests.waiting import eventually

VARIABLES = {"postgresql": "PGPASSWORD", "mariadb": "MYSQL_PWD"}
CATALOG = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {{name: lake, namespace: sales}}
spec:
  sql: {{uri: "{uri}"}}
  warehouse: "file://{warehouse}"
  jobs:
    env: [{{name: {variable}, valueFrom: {{secretKeyRef: {{name: db, key: pw}}}}}}]
---
"""


@pytest.fixture(params=VARIABLES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest) -> URL:
    server: DatabaseAccess = request.getfixturevalue(kind)
    return server.new_database(unique("lake").replace("-", "_"))


def without_password(url: URL) -> str:
    return URL.create(url.drivername, url.username, None, url.host, url.port, url.database).render_as_string()


@pytest.mark.xdist_group("operator")
def test_operator_opens_a_database_by_the_password_of_a_secret_and_never_shows_it(
    kind: str, database: URL, crds: KubernetesAccess, kube_api: client.ApiClient, kube_namespace: str, tmp_path: Path
) -> None:
    core, objects = client.CoreV1Api(kube_api), Namespace(crds, kube_api, kube_namespace)
    reference = {"secretKeyRef": {"name": "db", "key": "pw"}}
    lake: dict[str, Any] = {"sql": {"uri": without_password(database)}, "warehouse": f"file://{tmp_path}/warehouse"}
    lake["jobs"] = {"env": [{"name": VARIABLES[kind], "valueFrom": reference}]}
    objects.apply("TableCatalog", "lake", lake)
    table = {"catalogRef": {"name": "lake"}, "schema": {"columns": [{"name": "id", "type": "long"}]}}
    objects.apply("ManagedTable", "events", table)

    def ready() -> str:
        return objects.conditions("events").get("Ready", "")

    with operators(crds.kubeconfig, kube_namespace, tmp_path / "operator.log") as processes:
        processes.start("--no-leader-election", "--poll-seconds", "3")
        eventually(ready, lambda found: found == "False/SecretNotFound")
        core.create_namespaced_secret(
            kube_namespace, {"metadata": {"name": "db"}, "stringData": {"pw": "not-this-one"}}
        )
        eventually(ready, lambda found: found == "False/CatalogUnreachable", seconds=60)
        core.patch_namespaced_secret("db", kube_namespace, {"stringData": {"pw": PASSWORD}})
        eventually(ready, lambda found: found == "True/Available", seconds=60)
    said = f"{objects.status('events')} {objects.events()} {(tmp_path / 'operator.log').read_text()}"
    assert PASSWORD not in said
    assert "not-this-one" not in said


@pytest.mark.xdist_group("operator")
def test_folder_takes_the_password_from_the_environment_and_says_which_variable_is_missing(
    kind: str, database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = VARIABLES[kind]
    lake = CATALOG.format(uri=without_password(database), warehouse=tmp_path / "warehouse", variable=variable)
    (tmp_path / "events.yaml").write_text(lake + TABLES)
    planned = run_cli("plan", "-f", tmp_path)
    assert f"Set the environment variable {variable}" in planned.out + planned.err
    monkeypatch.setenv(variable, PASSWORD)
    applied = run_cli("apply", "-f", tmp_path, **{variable: PASSWORD})
    assert applied.code == 0, applied.err
    assert PASSWORD not in applied.out + applied.err
    config = SqlConfig(name="lake", uri=without_password(database), warehouse=f"file://{tmp_path}/warehouse")
    with open_catalog(config) as catalog:
        assert catalog.table_exists("sales.events")


def test_driver_opens_a_database_by_the_password_of_its_environment(kind: str, database: URL, tmp_path: Path) -> None:
    whole = database.render_as_string(hide_password=False)
    config = SqlConfig(name="lake", uri=whole, warehouse=f"file://{tmp_path}/warehouse")
    with open_catalog(config) as catalog:
        catalog.create_namespace("sales")
        catalog.create_table("sales.events", SCHEMA)
    given = config.model_copy(update={"uri": without_password(database)})
    work = InspectWork(small_file_bytes=1000)
    job = MaintenanceJob(run_id="r", catalog=given, identifier=("sales", "events"), work=work)
    log = tmp_path / "termination-log"
    environment = {"TABLEWRIGHT_JOB": job.model_dump_json(), "TABLEWRIGHT_TERMINATION_LOG": str(log)}
    for password, succeeds in ((PASSWORD, True), ("not-this-one", False)):
        own = os.environ | environment | {VARIABLES[kind]: password}
        ended = subprocess.run([sys.executable, "-m", "tablejobs"], env=own, capture_output=True, text=True)
        report = JobReport.model_validate_json(log.read_text())
        assert report.succeeded is succeeds, report
        assert password not in ended.stdout + ended.stderr + log.read_text()
