"""No secret is ever echoed, whatever carried it and wherever the words end up."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tableformat.catalogs import PyIcebergConfig, SqlConfig
from tableformat.maintenance.job import JobReport, MaintenanceJob
from tableformat.secrets import KNOWN, is_secret, without_passwords
from tablejobs.logs import set_up_logs
from tablejobs.reporting import Reporter
from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import TABLES, Ended, apply_here, environment, run_here

HUSH = "hush-Zm9v/x1"


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOWN, "_known", {})
    monkeypatch.setattr(KNOWN, "_values", ())


def said(ended: Ended) -> str:
    return ended.out + ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--catalog-uri", f"mysql://me:{HUSH}@host/db"],
        ["--catalog-uri", f"postgresql+nothing://me:{HUSH}@host/db"],
        ["--catalog-uri", f"postgresql+psycopg2://host/db?password={HUSH}"],
        ["--catalog-uri", f"sqlite:////nowhere/me:{HUSH}@x.db?password={HUSH}"],
        ["--catalog-uri", f"http://me:{HUSH}@127.0.0.1:1"],
        ["--catalog-uri", f"thrift://me:{HUSH}@127.0.0.1:1"],
        ["--catalog-uri", f"me:{HUSH}@host"],
        ["--catalog-uri", f"redis://me:{HUSH}@host"],
        ["--catalog-uri", "http://127.0.0.1:1", "--property", f"token={HUSH}"],
        ["--catalog-uri", "http://127.0.0.1:1", "--property", f"credential=me:{HUSH}"],
        ["--catalog-uri", "http://127.0.0.1:1", "--property", HUSH],
        ["--catalog-uri", "http://127.0.0.1:1", "--property", f"type={HUSH}", "--property", f"token={HUSH}"],
        ["--catalog-uri", f"mysql://me:{HUSH}@host/db", "--nonsense"],
        [f"--catalog-ur=mysql://me:{HUSH}@host/db"],
        ["--catalog", f"mysql://me:{HUSH}@host/db"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_secret_that_was_typed_is_not_repeated(arguments: list[str]) -> None:
    ended = run_here("inspect", "sales.events", *arguments)
    assert ended.code != 0
    assert HUSH not in said(ended)


@pytest.mark.parametrize("key", ["TOKEN", "CREDENTIAL", "URI", "S3__SECRET_ACCESS_KEY"])
def test_secret_of_a_configured_catalog_is_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    value = f"nonsense://me:{HUSH}@host" if key == "URI" else HUSH
    monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{key}", value)
    if key != "URI":
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"nonsense-{HUSH}://x")
    ended = run_here("inspect", "sales.events", "--catalog", "lake")
    assert ended.code != 0
    assert HUSH not in said(ended)


@pytest.mark.parametrize(
    "catalog",
    [
        f"sql: {{uri: 'postgresql+psycopg2://me:{HUSH}@host/db'}}",
        f"sql: {{uri: 'nothing://host/db?password={HUSH}'}}",
        f"rest: {{uri: 'ftp://me:{HUSH}@host'}}",
        f"hive: {{uri: 'thrift://me:{HUSH}@host:9083'}}",
        f"sql: {{uri: 'sqlite:///x'}}\n  storage: {{endpoint: 'ftp://me:{HUSH}@host'}}",
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan", "apply"])
def test_secret_of_a_declaration_is_not_repeated(tmp_path: Path, catalog: str, command: str) -> None:
    warehouse = "" if catalog.startswith("rest") else "\n  warehouse: file:///w"
    head = "apiVersion: tablewright.dev/v1alpha1\nkind: TableCatalog\nmetadata: {name: lake, namespace: sales}\n"
    (tmp_path / "events.yaml").write_text(f"{head}spec:\n  {catalog}{warehouse}\n---\n{TABLES}")
    assert HUSH not in said(run_here(command, "-f", tmp_path))
    for file in tmp_path.glob(".tablewright/*.json"):
        assert HUSH not in file.read_text()


def test_unforeseen_error_shows_its_traceback_without_secrets() -> None:
    program = (
        "import sys; from unittest import mock; from tablewright.cli import main\n"
        f"def fail(*_, **__): raise RuntimeError('refused: {HUSH}, mysql://me:{HUSH}@host')\n"
        "sys.argv = ['tablewright', 'validate', '-f', 'x']\n"
        "with mock.patch('tablewright.embedded.folder.validate_folder', fail): main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(PGPASSWORD=HUSH), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, True)
    assert HUSH not in done.stderr
    assert "refused: (hidden), mysql://me:(hidden)@host" in done.stderr


def test_status_and_report_have_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    state = EmbeddedState(tmp_path / ".tablewright")
    KNOWN.learn({"token": HUSH})
    with state.locked():
        state._tables["sales/events"]["status"]["conditions"][0]["message"] = f"the server said {HUSH}"
        state._write()
    assert HUSH not in (tmp_path / ".tablewright" / "objects.json").read_text()
    monkeypatch.setattr("tablewright.cli.report.render_page", lambda *_, **__: f"<p>the server said {HUSH}</p>")
    assert run_here("report", "-f", tmp_path, "-o", tmp_path / "report.html").code == 0
    assert (tmp_path / "report.html").read_text() == "<p>the server said (hidden)</p>"


@pytest.mark.parametrize(
    "catalog",
    [
        SqlConfig(name="lake", uri=f"postgresql://me:{HUSH}@host/db", warehouse="file:///w"),
        PyIcebergConfig(name="lake", properties={"type": "rest", "uri": "http://x", "token": HUSH}),
    ],
    ids=["sql", "rest"],
)
def test_driver_logs_and_reports_no_secret_of_its_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], catalog: SqlConfig
) -> None:
    work = {"operation": "RewriteManifests", "options": {}}
    job = MaintenanceJob.model_validate(
        {"run_id": "1", "catalog": catalog, "identifier": ("sales", "events"), "work": work}
    )
    monkeypatch.setenv("TABLEWRIGHT_TERMINATION_LOG", str(tmp_path / "report.json"))
    before = logging.getLogger().handlers[:]
    try:
        set_up_logs(job)
        failed = JobReport(succeeded=False, reason="CatalogFailed", message=f"401: {HUSH} is not valid")
        Reporter(job).finished(failed)
    finally:
        logging.getLogger().handlers[:] = before
    assert "401: (hidden) is not valid" in capsys.readouterr().err
    assert json.loads((tmp_path / "report.json").read_text())["message"] == "401: (hidden) is not valid"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("token", True),
        ("s3.secret-access-key", True),
        ("adls.account-key", True),
        ("header.Authorization", True),
        ("PGPASSWORD", True),
        ("AWS_ACCESS_KEY_ID", False),
        ("s3.region", False),
        ("PWD", False),
        ("token-refresh-enabled", False),
    ],
)
def test_names_tell_secrets_from_settings(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.parametrize(
    "text",
    ["file:///tmp/a:b@c", "s3://bucket/a:b@c", "http://host:8181/path", "thrift://host:9083", "me@host", "tokens=3"],
)
def test_locations_and_addresses_without_passwords_stay_readable(text: str) -> None:
    assert without_passwords(text) == text
