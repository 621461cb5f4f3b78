"""A ManagedTable as the table library's declaration."""

from typing import Any

import pytest

from tableformat.declaration import InvalidDeclarationError, NestedAttributes, TableDeclaration
from tablewright.api.declaration import declaration_of
from tests.unit.operator.values import managed_table


def declared(**spec: Any) -> TableDeclaration:
    return declaration_of(managed_table(**spec))


def column(**attributes: Any) -> dict[str, Any]:
    return {"formatVersion": 3, "schema": {"columns": [{"name": "c", **attributes}]}}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "7", 7),
        ("long", "-7", -7),
        ("double", "1.5", 1.5),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("string", "7", "7"),
        ("date", "2026-01-31", "2026-01-31"),
        ("decimal(4,2)", "12.50", "12.50"),
    ],
)
def test_a_default_is_written_as_text_and_read_by_the_columns_type(kind: str, text: str, value: object) -> None:
    [found] = declared(**column(type=kind, initialDefault=text, writeDefault=text)).columns
    assert (found.initial_default, found.write_default) == (value, value)


@pytest.mark.parametrize(("kind", "text"), [("int", "seven"), ("boolean", "True"), ("double", ""), ("date", "today")])
def test_a_default_that_its_type_does_not_have_is_refused_with_its_field(kind: str, text: str) -> None:
    with pytest.raises(InvalidDeclarationError, match=r"schema\.columns\[c\]"):
        declared(**column(type=kind, initialDefault=text))


def test_fields_inside_a_column_get_their_attributes_by_path() -> None:
    nested = [
        {"path": "element.sku", "doc": "as printed", "previousNames": ["code"]},
        {"path": "element.qty", "initialDefault": "1"},
    ]
    [found] = declared(**column(type="list<struct<sku: string, qty: int>>", nested=nested)).columns
    assert found.nested == (
        NestedAttributes(("element", "sku"), doc="as printed", previous_names=("code",)),
        NestedAttributes(("element", "qty"), initial_default=1),
    )


def test_a_path_that_leads_nowhere_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidDeclarationError, match=r"schema\.columns\[c"):
        declared(**column(type="struct<sku: string>", nested=[{"path": "name", "initialDefault": "1"}]))


def test_columns_that_may_go_are_listed_by_name() -> None:
    schema = {"columns": [{"name": "c", "type": "int"}], "removedColumns": ["b", "a.x"]}
    assert declared(schema=schema).removed_columns == frozenset({"b", "a.x"})
    assert declared(schema={"columns": schema["columns"]}).removed_columns == frozenset()


def test_a_location_is_declared() -> None:
    assert declared(location="s3://bucket/elsewhere").location == "s3://bucket/elsewhere"


@pytest.mark.parametrize(("mode", "word"), [("MergeOnRead", "merge-on-read"), ("CopyOnWrite", "copy-on-write")])
def test_the_write_mode_is_the_engines_properties(mode: str, word: str) -> None:
    found = declared(layout={"writeMode": mode}, properties={"write.merge.mode": word}).properties
    assert found == {"write.delete.mode": word, "write.update.mode": word, "write.merge.mode": word}


@pytest.mark.parametrize(
    ("spec", "field", "name", "value"),
    [
        ({"layout": {"targetFileSize": "64Mi"}}, "layout.targetFileSize", "write.target-file-size-bytes", "1000000"),
        ({"layout": {"writeMode": "MergeOnRead"}}, "layout.writeMode", "write.update.mode", "copy-on-write"),
        (
            {"retention": {"snapshots": {"maxAge": "7d"}}},
            "retention.snapshots.maxAge",
            "history.expire.max-snapshot-age-ms",
            "86400000",
        ),
        (
            {"retention": {"snapshots": {"minCount": 5}}},
            "retention.snapshots.minCount",
            "history.expire.min-snapshots-to-keep",
            "1",
        ),
    ],
)
def test_a_property_that_contradicts_a_field_is_refused_with_both_names(
    spec: dict[str, Any], field: str, name: str, value: str
) -> None:
    with pytest.raises(InvalidDeclarationError) as refusal:
        declared(**spec, properties={name: value})
    [problem] = refusal.value.problems
    assert problem.field == f"properties[{name}]"
    assert f"{value!r}, and spec.{field} says" in problem.reason


def test_a_property_that_says_what_the_field_says_is_no_contradiction() -> None:
    spec = {"layout": {"targetFileSize": "64Mi"}, "retention": {"snapshots": {"maxAge": "7d", "minCount": 5}}}
    same = {
        "write.target-file-size-bytes": str(64 << 20),
        "history.expire.max-snapshot-age-ms": str(7 * 86_400_000),
        "history.expire.min-snapshots-to-keep": "5",
    }
    assert declared(**spec, properties=same).properties == same


def test_a_table_that_is_defined_here_needs_a_schema() -> None:
    table = managed_table()
    without = table.model_copy(update={"spec": table.spec.model_copy(update={"table_schema": None})})
    with pytest.raises(InvalidDeclarationError, match="schema: it is not said which columns the table has"):
        declaration_of(without)
