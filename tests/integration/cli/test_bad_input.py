"""Input that cannot be used: each problem in one line, all of a folder at once, exit code 2, and nothing changed."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import TABLES, run_cli, run_in_terminal

FILES = {
    "broken.yaml": "apiVersion: tablewright.dev/v1alpha1\nkind: [ManagedTable\n",
    "catalog.yaml": """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {name: laek, namespace: sales}
spec: {sql: {uri: "sqlite:////nowhere/x.db"}, warehouse: "file:///nowhere"}
""",
    "events.yaml": TABLES + "---\n" + TABLES,
    "field.yaml": TABLES.replace("name: events", "name: field").replace("targetFileSize", "targetfilesize"),
    "good.yaml": TABLES.replace("name: events", "name: good").replace("name: lake", "name: laek"),
    "kind.yaml": TABLES.replace("ManagedTable", "ManagedTabel"),
    "other.yaml": "apiVersion: v1\nkind: ManagedTable\nmetadata: {name: x}\n",
    "rule.yaml": TABLES.replace("name: events", "name: rule").replace("name: lake", "name: laek")
    + "  retention: {holds: [{name: h, asOf: 2026-01-02T00:00:00Z, until: 2026-01-01T00:00:00Z}]}\n",
    "text.yml": "hello\n",
}
GOLDEN = """\
error: broken.yaml:3:1: while parsing a flow sequence: expected ',' or ']', but got '<stream end>'
error: events.yaml:5:22: spec.catalogRef.name: there is no TableCatalog sales/lake in the folder: did you mean "laek"?
error: events.yaml:14:18: ManagedTable sales/events is declared twice: it is in events.yaml:3:18 already
error: field.yaml:5:22: spec.catalogRef.name: there is no TableCatalog sales/lake in the folder: did you mean "laek"?
error: field.yaml:10:12: spec.layout.targetfilesize: unknown field "targetfilesize"; did you mean "targetFileSize"?
error: kind.yaml:2:7: kind: unknown kind "ManagedTabel"; did you mean "ManagedTable"?
error: other.yaml:1:1: spec is missing
error: other.yaml:1:13: apiVersion: "v1" is not a version of the API; use tablewright.dev/v1alpha1
error: rule.yaml:11:23: spec.retention.holds[0]: until must be after asOf
error: text.yml:1:1: not a Kubernetes object: it has no apiVersion and no kind
"""


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["apply", "plan", "report -o report.html"])
def test_all_problems_of_a_folder_are_named_at_once_and_nothing_is_changed(bad: Path, command: str) -> None:
    before = content(bad)
    words = command.replace("report.html", str(bad / "report.html")).split()
    ended = run_cli(*words, "-f", bad)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.replace(f"{bad}/", "") == GOLDEN
    assert content(bad) == before


def test_a_password_in_an_address_is_not_repeated(tmp_path: Path) -> None:
    catalog = FILES["catalog.yaml"].replace("sqlite:////nowhere/x.db", "postgresql://me:secretword@host/db")
    (tmp_path / "catalog.yaml").write_text(catalog)
    ended = run_cli("validate", "-f", tmp_path)
    assert ended.code == 2
    assert "spec.sql.uri" in ended.err
    assert "is not a database address without a password" in ended.err
    assert "secretword" not in ended.out + ended.err


def test_validate_names_them_all_and_counts(bad: Path) -> None:
    ended = run_cli("validate", "-f", bad)
    assert ended.code == 2
    assert ended.err.replace(f"{bad}/", "") == GOLDEN
    assert ended.out == "9 objects: 10 problems\n"
    shown = run_in_terminal("validate", "-f", bad).out
    assert shown.replace(f"{bad}/", "") == GOLDEN + ended.out


def test_what_is_wrong_in_one_place_hides_nothing_that_is_wrong_in_another(tmp_path: Path) -> None:
    wrong = TABLES.replace("type: string", "type: strng").replace("16Mi}", "16Mi, odrer: {}}")
    wrong += '  compaction: {schedule: "99 * * * *"}\n'
    (tmp_path / "a.yaml").write_text(wrong)
    (tmp_path / "twice.yaml").write_text(wrong)
    (tmp_path / "unnamed.yaml").write_text(wrong.replace("name: events", "name: Events"))
    found = run_cli("validate", "-f", tmp_path)
    said = [line.replace(f"{tmp_path}/", "").split(": ")[1:3] for line in found.err.splitlines()]
    its_own = [
        ("9:28", "spec.schema.columns[name].type"),
        ("10:34", "spec.layout.odrer"),
        ("11:26", "spec.compaction.schedule"),
    ]
    assert said == [
        *([f"a.yaml:{place}", field] for place, field in its_own),
        ["twice.yaml:3:18", "ManagedTable sales/events is declared twice"],
        *([f"twice.yaml:{place}", field] for place, field in its_own),
        ["unnamed.yaml:3:18", "metadata.name"],
        *([f"unnamed.yaml:{place}", field] for place, field in its_own),
    ]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("nowhere", "nowhere: there is no such file or folder"),
        ("empty", "empty: there is no .yaml or .yml file in it"),
    ],
)
def test_a_folder_without_declarations_is_named(tmp_path: Path, given: str, complaint: str) -> None:
    (tmp_path / "empty").mkdir()
    for command in ("apply", "validate"):
        ended = run_cli(command, "-f", tmp_path / given)
        assert ended.code == 2
        assert ended.err.replace(f"{tmp_path}/", "") == f"error: {complaint}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_table_that_is_declared_and_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    for command in ("inspect", "run compact"):
        ended = run_cli(*command.split(), "events", "-f", tmp_path)
        assert (ended.code, ended.out) == (2, "")
        expected = f"error: sales/events is declared and not there yet: run `tablewright apply -f {tmp_path}`\n"
        assert ended.err == expected
    assert [path.name for path in tmp_path.iterdir()] == ["events.yaml"]


CATALOGS = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {{name: gone, namespace: sales}}
spec: {{sql: {{uri: "sqlite:////nowhere/x.db"}}, warehouse: "file:///nowhere"}}
---
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {{name: here, namespace: sales}}
spec: {{sql: {{uri: "sqlite:///{folder}/here.db"}}, warehouse: "file://{folder}/warehouse"}}
"""


def test_a_catalog_that_cannot_be_opened_holds_up_its_own_tables_alone(tmp_path: Path) -> None:
    (tmp_path / "catalogs.yaml").write_text(CATALOGS.format(folder=tmp_path))
    for name in ("gone", "here"):
        text = TABLES.replace("name: events", f"name: {name}").replace("name: lake", f"name: {name}")
        (tmp_path / f"{name}.yaml").write_text(text)
    planned = run_cli("plan", "-f", tmp_path)
    assert (planned.code, planned.err) == (4, "")
    assert (
        "sales/gone\n  ! CatalogUnreachable: TableCatalog gone: it cannot be opened (OperationalError): " in planned.out
    )
    assert "+ create table sales.here" in planned.out
    applied = run_cli("apply", "-f", tmp_path)
    assert applied.code == 4
    created, line = applied.err.splitlines()
    assert created.startswith("sales/here: created table sales.here")
    assert line.startswith("sales/gone: not Ready (CatalogUnreachable): TableCatalog gone: it cannot be opened")
    assert "sales       here   True" in applied.out


@pytest.mark.parametrize(
    ("address", "code", "complaint"),
    [
        (
            ["--catalog-uri", "thrift://127.0.0.1:1"],
            4,
            "the catalog of --catalog-uri failed (TTransportException): Could not connect",
        ),
        (
            ["--catalog-uri", "postgresql+nodriver://u@127.0.0.1:1/x"],
            2,
            "SQLAlchemy knows no databases of 'postgresql+nodriver'; did you mean postgresql",
        ),
        (["--catalog-uri", "postgresql://u@127.0.0.1:port/x"], 2, "the database of --catalog-uri cannot be opened"),
        (["--catalog", "glue"], 4, "the catalog glue failed (ProfileNotFound): "),
        (["--catalog", "flat"], 2, "PyIceberg's configuration: Configuration path catalogs.flat needs to be an object"),
    ],
)
def test_a_catalog_that_does_not_answer_is_one_line(
    tmp_path: Path, address: list[str], code: int, complaint: str
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  flat: x\n  glue:\n    type: glue\n    glue.region: eu-west-1\n"
    )
    ended = run_cli("history", "sales.events", *address, PYICEBERG_HOME=str(tmp_path), AWS_PROFILE="nobody")
    assert (ended.code, ended.out) == (code, "")
    assert [line for line in ended.err.splitlines() if line.startswith("error: ")] == [ended.err.splitlines()[-1]]
    assert f"error: {complaint}" in ended.err
    assert "Traceback" not in ended.err


def test_a_configuration_of_pyiceberg_that_cannot_be_read_is_named(tmp_path: Path, folder: Path) -> None:
    """PyIceberg reads it as it is imported, so every command meets it."""
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  lake: {\n")
    for command in (["history", "sales.events", "--catalog", "lake"], ["plan", "-f", str(folder)]):
        ended = run_cli(*command, PYICEBERG_HOME=str(tmp_path))
        assert (ended.code, ended.out) == (2, "")
        [line] = ended.err.splitlines()
        assert line.startswith("error: PyIceberg's configuration file .pyiceberg.yaml cannot be read: ")


@pytest.mark.parametrize("content", [": : {", "hello"])
def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    for command in (["get", "tables"], ["operator", "--job-image", "x"]):
        ended = run_cli(*command, "--kubeconfig", file)
        assert (ended.code, ended.out) == (2, "")
        assert f"kubeconfig {file}: " in ended.err.splitlines()[-1]
        assert "Traceback" not in ended.err
