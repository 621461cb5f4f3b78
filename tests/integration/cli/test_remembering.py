"""What a folder's state remembers of its objects: what may change, when it is forgotten, and what if it is broken."""

from pathlib import Path

import pytest

from tablewright.embedded.folder import read_folder
from tablewright.embedded.state import EmbeddedState
from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, run_here

POND = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {name: pond, namespace: sales}
spec: {sql: {uri: "sqlite:////nowhere/pond.db"}, warehouse: file:///nowhere}
"""


@pytest.fixture
def applied(tmp_path: Path) -> Path:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (
            TABLES + "  identifier: {namespace: sales, name: orders}\n",
            "spec.identifier is immutable: it was sales.events, and sales.orders would be another table",
        ),
        (
            f"{TABLES.replace('name: lake', 'name: pond')}---\n{POND}",
            "spec.catalogRef.name is immutable: it was lake, and pond would be another table",
        ),
    ],
)
def test_an_object_that_has_a_table_cannot_name_another(applied: Path, changed: str, complaint: str) -> None:
    (applied / "events.yaml").write_text(changed)
    for command in ("plan", "apply"):
        ended = run_here(command, "-f", applied)
        assert (ended.code, ended.out) == (2, "")
        [line] = ended.err.splitlines()
        assert line.startswith(f"error: sales/events: {complaint}")
    (applied / "events.yaml").write_text(TABLES)
    assert run_here("apply", "-f", applied).code == 0


@pytest.mark.parametrize("others", [[], ["other"]], ids=["the only one", "one of two"])
def test_an_object_that_is_deleted_and_applied_again_begins_anew(applied: Path, others: list[str]) -> None:
    """As a table that is missing says: the remedy has to work in a folder, too."""
    for name in others:
        (applied / f"{name}.yaml").write_text(TABLES.replace("name: events", f"name: {name}"))
    run_here("apply", "-f", applied)
    embedded_catalog(applied).drop_table(("sales", "events"))
    missing = run_here("apply", "-f", applied)
    assert missing.code == 1
    assert "or delete and re-apply this object for a new, empty table" in missing.err

    (applied / "events.yaml").unlink()
    gone = run_here("apply", "-f", applied)
    assert gone.code == 0
    assert "sales/events: its declaration is gone; it is forgotten, and its table is left as it is" in gone.err
    (applied / "events.yaml").write_text(TABLES)
    assert run_here("apply", "-f", applied).code == 0
    assert embedded_catalog(applied).table_exists(("sales", "events"))


def test_applying_one_file_of_a_folder_forgets_nothing_of_the_others(applied: Path) -> None:
    (applied / "other.yaml").write_text(TABLES.replace("name: events", "name: other"))
    assert "forgotten" not in run_here("apply", "-f", applied / "other.yaml").err
    state = EmbeddedState(applied / ".tablewright")
    state.look()
    [events, _] = read_folder(applied).tables
    assert state.remembered(events).status.identity is not None


@pytest.mark.parametrize("content", ["", '{"tables": {', "[]", '{"tables": 1, "runs": {}}'])
def test_a_state_that_was_cut_off_is_named_with_what_can_be_done(applied: Path, content: str) -> None:
    file = applied / ".tablewright" / "objects.json"
    file.write_text(content)
    for command in (["apply"], ["plan"], ["get", "tables"], ["inspect", "events"]):
        ended = run_here(*command, "-f", applied)
        assert (ended.code, ended.out) == (2, "")
        [line] = ended.err.splitlines()
        assert line.startswith(f"error: {file} cannot be read (")
        assert "restore it, or remove it and apply again" in line
    file.unlink()
    assert run_here("apply", "-f", applied).code == 0, "the remedy works"
