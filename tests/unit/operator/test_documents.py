"""YAML with positions: what a problem points at, and what plain scalars mean to Kubernetes."""

import os
from pathlib import Path
from typing import Any

import pytest

from tablewright.api.admission import Problem
from tablewright.embedded.documents import BrokenYaml, Document, read_documents
from tablewright.embedded.folder import InvalidFolderError, Judge, read_folder, validate_folder
from tablewright.embedded.state import EmbeddedState, UnwritableStateError

TABLE = """\
apiVersion: tablewright.dev/v1alpha1
kind: ManagedTable
metadata: {name: events, namespace: sales}
spec:
  catalogRef: {name: lake}
  schema:
    columns:
      - {name: id, type: long}
      - {name: name, type: string}
"""


def documents(tmp_path: Path, text: str) -> list[Document | BrokenYaml]:
    (tmp_path / "file.yaml").write_text(text)
    return list(read_documents(tmp_path / "file.yaml"))


def test_plain_scalars_mean_what_they_mean_to_kubectl(tmp_path: Path) -> None:
    [document] = documents(tmp_path, "{t: 22:00, d: 2026-09-30T23:59:59Z, i: 12, f: 1e3, b: on, n: ~, e: , s: 08}")
    assert isinstance(document, Document)
    expected = {"t": "22:00", "d": "2026-09-30T23:59:59Z", "i": 12, "f": 1000.0, "b": True, "n": None, "e": None}
    assert document.value == {**expected, "s": "08"}


def test_a_problem_is_pointed_at_by_line_and_column(tmp_path: Path) -> None:
    [document] = documents(tmp_path, TABLE)
    assert isinstance(document, Document)
    file = tmp_path / "file.yaml"
    value = Problem(("spec", "schema", "columns", 1, "type"), "")
    assert document.place(value) == f"{file}:9:28"
    assert document.place(Problem(value.path, "", at_value=False)) == f"{file}:9:22"
    missing = Problem(("spec", "schema", "columns", 1, "doc"), "", at_value=False)
    assert document.place(missing) == f"{file}:9:9", "of what is not there, the nearest thing around it"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: [", ":1:5", "expected the node content"),
        ("a: 1\na: 2\n", ":2:1", 'the field "a" is there twice'),
        ("a: 1\n\tb: 2\n", ":2:1", "found character '\\t'"),
        ("a: \x07\n", ":1:1", "special characters are not allowed"),
    ],
    ids=["not closed", "twice", "tab", "control character"],
)
def test_broken_yaml_is_named_with_its_place(tmp_path: Path, text: str, place: str, message: str) -> None:
    [broken] = documents(tmp_path, text)
    assert isinstance(broken, BrokenYaml)
    assert broken.place == f"{tmp_path / 'file.yaml'}{place}"
    assert message in broken.message


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_bytes(b"a: \xff\xfe")
    [broken] = read_documents(tmp_path / "file.yaml")
    assert isinstance(broken, BrokenYaml)
    assert broken.message == "is not UTF-8 text (byte 3)"


def test_all_problems_of_a_folder_are_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TABLE.replace("events", "first").replace("catalogRef", "catalogref"))
    (tmp_path / "b.yaml").write_text(TABLE.replace("ManagedTable", "MangedTable"))
    (tmp_path / "c.yaml").write_text("a: [")
    (tmp_path / "d.yaml").write_text(TABLE + "---\n" + TABLE)
    (tmp_path / "e.yaml").write_text(TABLE.replace("events", "other").replace("type: string", "type: strng"))
    (tmp_path / "f.yaml").write_text(
        TABLE.replace("events", "third") + "  compaction: {schedule: '61 * * * *'}\n  timeZone: Mars/Olympus\n"
    )
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.yaml").write_text("a: [")
    found = [(str(f).removeprefix(f"{tmp_path}/"), f.judge) for f in validate_folder(tmp_path).findings]
    assert [judge for _, judge in found] == [
        Judge.API_SERVER,
        Judge.API_SERVER,
        Judge.API_SERVER,
        Judge.YAML,
        Judge.FOLDER,
        Judge.OPERATOR,
        Judge.OPERATOR,
        Judge.OPERATOR,
    ]
    texts = [text for text, _ in found]
    assert "a.yaml:5:3: spec.catalogRef is missing" in texts
    assert 'a.yaml:5:3: spec.catalogref: unknown field "catalogref"; did you mean "catalogRef"?' in texts
    assert 'b.yaml:2:7: kind: unknown kind "MangedTable"; did you mean "ManagedTable"?' in texts
    assert any(text.startswith("d.yaml:13:18: ManagedTable sales/events is declared twice") for text in texts)
    assert any(text.startswith("e.yaml:9:28: spec.schema.columns[name].type: ") for text in texts)
    assert any(text.startswith('f.yaml:10:26: spec.compaction.schedule: "61 * * * *" is not a cron') for text in texts)
    assert any('f.yaml:11:13: spec.timeZone: "Mars/Olympus" is not a time zone' in text for text in texts)


def messages(folder: Path) -> list[str]:
    return [str(finding).removeprefix(f"{folder}/") for finding in validate_folder(folder).findings]


def test_what_the_api_server_refuses_is_looked_at_further_and_nothing_is_said_twice(tmp_path: Path) -> None:
    wrong = "  layout: {order: {strategy: Sort}}\n  compaction: {schedule: '61 * * * *'}\n"
    (tmp_path / "a.yaml").write_text(TABLE + wrong + "---\n" + TABLE)
    (tmp_path / "b.yaml").write_text(
        TABLE.replace("events", "third") + "    identifierColumns: [nothing]\n"  # which the operator would refuse, too
    )
    found = messages(tmp_path)
    assert [text.split(": ")[0] for text in found] == [
        "a.yaml:10:19",
        "a.yaml:11:26",
        "a.yaml:15:18",
        "b.yaml:7:5",
    ]
    assert found[0].endswith("spec.layout.order: strategy Sort needs one to eight columns")
    assert 'spec.compaction.schedule: "61 * * * *" is not a cron expression' in found[1]
    assert "is declared twice" in found[2], "of a bad object, too"
    assert "identifierColumns must be among the columns" in found[3]


CATALOG = """\
apiVersion: tablewright.dev/v1alpha1
kind: TableCatalog
metadata: {name: lake, namespace: sales}
spec: {sql: {uri: "sqlite:////tmp/x.db"}, warehouse: "file:///tmp/w"}
"""


def test_a_catalog_that_others_stand_beside_must_be_declared(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(TABLE)
    assert messages(tmp_path) == [], "the embedded one"
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    assert messages(tmp_path) == []
    (tmp_path / "catalog.yaml").write_text(CATALOG.replace("lake", "laek"))
    complaint = "table.yaml:5:22: spec.catalogRef.name: there is no TableCatalog sales/lake in the folder: "
    assert messages(tmp_path) == [complaint + 'did you mean "laek"?']
    (tmp_path / "catalog.yaml").write_text(CATALOG.replace("namespace: sales", "namespace: other"))
    assert messages(tmp_path) == [complaint + "declared are other/lake"]
    with pytest.raises(InvalidFolderError, match="there is no TableCatalog sales/lake"):
        read_folder(tmp_path)
    (tmp_path / "catalog.yaml").write_text(CATALOG.replace("warehouse", "werahouse"))
    assert all("TableCatalog sales/lake" not in text for text in messages(tmp_path)), "it is there, if bad"


def test_a_run_is_validated_but_not_applied_from_a_folder(tmp_path: Path) -> None:
    run = TABLE[: TABLE.index("spec:")].replace("ManagedTable", "MaintenanceRun")
    (tmp_path / "run.yaml").write_text(run + "spec: {tableRef: {name: events}, operation: Compact}\n")
    assert validate_folder(tmp_path).findings == ()
    [note] = read_folder(tmp_path).notes
    assert note.removeprefix(f"{tmp_path}/").startswith("run.yaml:2:7: a MaintenanceRun is a cluster's to carry out")


def test_what_can_be_judged_is_judged_whatever_else_is_wrong(tmp_path: Path) -> None:
    """A type that nobody knows hides neither the columns that are not there, nor a name that cannot be."""
    table = TABLE[: TABLE.index("spec:")] + (
        "spec:\n  catalogRef: {name: lake}\n  schema: {columns: [{name: a, type: lnog}]}\n"
        "  partitioning: [{column: b, transform: day}, {column: a, transform: day}]\n"
        "  layout: {order: {strategy: Sort, columns: [x]}}\n"
    )
    (tmp_path / "table.yaml").write_text(table)
    found = messages(tmp_path)
    assert len(found) == 3, "day of a is no problem of its own: nobody knows what a is meant to be"
    assert "table.yaml:6:38: spec.schema.columns[a].type: there is no type 'lnog'" in found[0]
    assert found[0].endswith("(at character 1 of 'lnog'). Correct it.")
    assert found[1].startswith("table.yaml:7:18: spec.partitioning[b]: there is no column 'b'")
    assert found[2].startswith("table.yaml:8:46: spec.layout.order.columns[x]: there is no column 'x'")

    (tmp_path / "table.yaml").write_text(
        TABLE.replace("name: events", "name: Events", 1)
        + '  retention: {snapshots: {schedule: "61 * * * *", maxAge: 7d, minCount: 5}}\n'
    )
    named, scheduled = messages(tmp_path)
    assert "metadata.name" in named
    assert "spec.retention.snapshots.schedule" in scheduled


def test_two_objects_for_one_table_are_named(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(TABLE)
    other = TABLE.replace("name: events", "name: other", 1)
    (tmp_path / "two.yaml").write_text(other + "  identifier: {namespace: sales, name: events}\n")
    [found] = messages(tmp_path)
    assert "spec.identifier: the table sales.events is declared by ManagedTable sales/events already" in found
    assert read_folder(tmp_path).tables, "the other is served: its object says ClaimedByAnother"


@pytest.mark.parametrize("make", [False, True], ids=["no such folder", "empty folder"])
def test_a_folder_without_declarations_is_an_error(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "folder"
    if make:
        folder.mkdir()
    with pytest.raises(InvalidFolderError, match="there is no"):
        read_folder(folder)


def test_a_folder_that_goes_while_declarations_are_looked_for_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git takes folders away on a checkout; jobs come and go in the state's own, which is not even looked into."""
    for name in ("goes", "stays", ".tablewright"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.yaml").write_text(TABLE)
    seen, scandir = [], os.scandir

    def list_what_is_left(place: Any) -> Any:
        seen.append(Path(place).name)
        if seen[-1] == "goes":
            Path(place, "table.yaml").unlink()
            Path(place).rmdir()
        return scandir(place)

    monkeypatch.setattr(os, "scandir", list_what_is_left)
    assert [table.metadata.name for table in read_folder(tmp_path).tables] == ["events"]
    assert "goes" in seen
    assert ".tablewright" not in seen


POLICY = """\
apiVersion: tablewright.dev/v1alpha1
kind: TablePolicy
metadata: {name: nightly, namespace: sales}
spec:
  selector: {matchLabels: {tier: gold}}
  compaction: {schedule: "0 2 * * *"}
"""


def test_policy_that_selects_no_table_of_the_folder_is_noted(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert validate_folder(tmp_path).notes == (), "its tables may be declared elsewhere"
    (tmp_path / "table.yaml").write_text(TABLE)
    [note] = read_folder(tmp_path).notes
    assert "policy.yaml:5:13: TablePolicy sales/nightly selects no table of the folder" in note
    assert validate_folder(tmp_path).notes == (note,)
    (tmp_path / "table.yaml").write_text(TABLE.replace("namespace: sales}", "namespace: sales, labels: {tier: gold}}"))
    assert read_folder(tmp_path).notes == ()


def positions(folder: Path) -> list[tuple[str, str]]:
    """Line and column of each finding, and the field."""
    found = [text.split(": ", 1) for text in messages(folder)]
    return [(place.removeprefix("a.yaml:"), text.split(" ")[0].rstrip(":")) for place, text in found]


def test_a_duplicate_column_does_not_hide_other_problems(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        TABLE
        + """\
      - {name: id, type: strin}
      - {name: ts, type: timestamptz, requird: true}
      - {name: town, type: string, previousNames: [city, town]}
      - name: items
        type: "list<struct<sku: string, qty: int>>"
        nested:
          - {path: element.sku, doc: a}
          - {path: element.qty, initialDefault: many}
    identifierColumns: [id, name]
  partitioning:
    - {column: ts, transform: day}
    - {column: nme, transform: identity}
  layout: {order: {strategy: Sort, columns: [name, nothing]}}
  properties:
    k: v
    format-version: '3'
"""
    )
    assert positions(tmp_path) == [
        ("10:16", "spec.schema.columns[2].name"),
        ("10:26", "spec.schema.columns[id].type"),
        ("11:39", "spec.schema.columns[3].requird"),
        ("12:58", "spec.schema.columns[town].previousNames[town]"),
        ("17:49", "spec.schema.columns[items].nested[element.qty].initialDefault"),
        ("18:29", "spec.schema.identifierColumns[name]"),
        ("21:7", "spec.partitioning[nme]"),
        ("22:52", "spec.layout.order.columns[nothing]"),
        ("25:21", "spec.properties[format-version]"),
    ]


def test_what_a_merge_brings_in_is_pointed_at_where_it_is_written(tmp_path: Path) -> None:
    merged = "      - &base {type: lng, name: a}\n      - {<<: *base, name: b}\n"
    (tmp_path / "a.yaml").write_text(TABLE + merged)
    assert positions(tmp_path) == [
        ("10:22", "spec.schema.columns[a].type"),
        ("10:22", "spec.schema.columns[b].type"),
    ]


def test_objects_of_a_list_and_of_later_documents_have_their_own_lines(tmp_path: Path) -> None:
    indented = TABLE.replace("events", "listed").replace("\n", "\n    ").rstrip()
    listed = f"apiVersion: v1\nkind: List\nitems:\n  - {indented}\n"
    (tmp_path / "a.yaml").write_text(f"{TABLE}---\n{listed.replace('type: string', 'type: strng')}")
    assert positions(tmp_path) == [("22:32", "spec.schema.columns[name].type")]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:\n\tb: 1\n", "indent with spaces"),
        ("a: * * * * *\n", "put text that begins with * in quotes"),
        ("a:b\nc: d\n", "look for a colon without a space after it"),
        ("a: &a [*a]\n", "look for an alias that contains itself"),
        ("a: " + "[" * 2000, "is nested too deeply"),
        ("a: !foo 1\n", "remove the tag"),
        ("a: 'x\n", "look for a quotation mark that is not closed"),
    ],
)
def test_broken_yaml_is_answered_with_what_to_look_for(tmp_path: Path, text: str, hint: str) -> None:
    [broken] = documents(tmp_path, text)
    assert isinstance(broken, BrokenYaml)
    assert hint in broken.message


def test_a_file_full_of_aliases_is_refused_at_once(tmp_path: Path) -> None:
    levels = [f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 9)]
    [broken] = documents(tmp_path, "\n".join(["k0: &k0 [x]", *levels]))
    assert isinstance(broken, BrokenYaml)


def test_a_file_without_objects_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing yet\n")
    assert validate_folder(tmp_path).notes == (f"{tmp_path}: there is no object in it",)


def test_a_state_folder_that_cannot_be_written_names_the_option() -> None:
    with (
        pytest.raises(UnwritableStateError, match="Name a folder that can be with --state"),
        EmbeddedState(Path("/proc/tablewright")).locked(),
    ):
        pass
