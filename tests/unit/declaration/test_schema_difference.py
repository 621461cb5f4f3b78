"""Columns: what may become of them, and what is refused, with the table's ids as the only identity."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from tableformat.declaration import (
    Column,
    Difference,
    NestedAttributes,
    Refusal,
    RefusalKind,
    TableDeclaration,
    difference,
)
from tests.every_column import EVERY_COLUMN
from tests.unit.declaration.tables import (
    column,
    created,
    declare,
    evolve,
    evolved,
    ids,
    partition,
    sentences,
    sort,
    with_a_row,
)

DROP = EVERY_COLUMN


def the_refusal(declaration: TableDeclaration, metadata: TableMetadata) -> Refusal:
    found = difference(declaration, metadata)
    assert found.updates == ()
    (refusal,) = found.refusals
    assert refusal.reason
    assert refusal.remedy
    return refusal


def test_an_optional_column_is_added_with_a_new_id() -> None:
    table = with_a_row(created(declare(column("a"))))
    found = difference(declare(column("b", "list<struct<x: int>>"), column("a")), table)
    assert sentences(found) == ["add column b: list<struct<x: int>>"]
    after = evolved(table, found)
    assert ids(after) == {"a": 1, "b": 2, "b.element": 3, "b.element.x": 4}
    assert [field.name for field in after.schema().fields] == ["b", "a"]
    assert after.last_column_id == 4


def test_a_field_is_added_inside_structs_lists_and_maps() -> None:
    table = created(declare(column("a", "struct<x: int>"), column("l", "list<struct<x: int>>")))
    more = declare(
        column("a", "struct<x: int, y: map<string, struct<z: int>>>"), column("l", "list<struct<w: int, x: int>>")
    )
    after = evolve(table, more)
    assert {name: field_id for name, field_id in ids(after).items() if field_id > table.last_column_id} == {
        "a.y": 6, "a.y.key": 7, "a.y.value": 8, "a.y.value.z": 9, "l.element.w": 10,
    }  # fmt: skip


def test_a_required_column_is_added_to_a_table_without_rows() -> None:
    table = created(declare(column("a")))
    found = difference(declare(column("a"), column("b", required=True)), table)
    assert sentences(found) == ["add column b: required string"]
    assert any(requirement.type == "assert-ref-snapshot-id" for requirement in found.requirements)
    assert evolved(table, found).schema().find_field("b").required


def test_a_required_column_without_default_is_refused_on_a_table_with_rows() -> None:
    refusal = the_refusal(declare(column("a"), column("b", required=True)), with_a_row(created(declare(column("a")))))
    assert (refusal.kind, refusal.field) == (RefusalKind.REQUIRED_COLUMN, "schema.columns[b].required")


def test_a_required_column_with_an_initial_default_is_added_in_format_version_3() -> None:
    table = with_a_row(created(declare(column("a"), format_version=3)))
    after = evolve(table, declare(column("a"), column("b", "int", required=True, initial_default=7)))
    added = after.schema().find_field("b")
    assert (added.required, added.initial_default, added.write_default) == (True, 7, 7)


def test_a_default_is_refused_in_format_version_2() -> None:
    refusal = the_refusal(declare(column("a"), column("b", "int", initial_default=7)), created(declare(column("a"))))
    assert (refusal.kind, refusal.field) == (RefusalKind.FORMAT_TOO_OLD, "schema.columns[b]")


def test_the_write_default_changes_and_the_initial_default_stays() -> None:
    table = created(declare(column("a", "decimal(6,2)", initial_default="1.50"), format_version=3))
    found = difference(declare(column("a", "decimal(6,2)", initial_default="1.50", write_default="2.50")), table)
    assert sentences(found) == ["let new rows have 2.50 in column a by default (it was 1.50)"]
    after = evolved(table, found).schema().find_field("a")
    assert (str(after.initial_default), str(after.write_default)) == ("1.50", "2.50")


def test_another_initial_default_is_refused() -> None:
    table = created(declare(column("a", "int", initial_default=1, write_default=1), format_version=3))
    refusal = the_refusal(declare(column("a", "int", initial_default=2, write_default=1)), table)
    assert (refusal.kind, refusal.field) == (RefusalKind.IMMUTABLE_FIELD, "schema.columns[a].initialDefault")
    assert (refusal.declared, refusal.found) == ("2", "1")


def test_a_lost_line_is_refused_by_default() -> None:
    refusal = the_refusal(declare(column("a")), created(declare(column("a"), column("b", "int"))))
    assert (refusal.kind, refusal.field) == (RefusalKind.REMOVED_COLUMN, "schema.columns[b]")
    assert "in schema.removedColumns" in refusal.remedy


def test_a_column_is_dropped_where_the_declaration_says_so() -> None:
    table = with_a_row(created(declare(column("a"), column("b", "int"))))
    found = difference(declare(column("a"), removed_columns=DROP), table)
    assert sentences(found) == ["drop column b: int"]
    assert ids(evolved(table, found)) == {"a": 1}


def test_only_columns_that_are_listed_may_go() -> None:
    table = created(declare(column("a", "struct<x: int, y: int>"), column("b", "int"), column("c", "int")))
    listed = declare(column("a", "struct<y: int>"), column("c", "int"), removed_columns=("a.x", "b"))
    assert sentences(difference(listed, table)) == ["drop column a.x: int", "drop column b: int"]
    lost = declare(column("a", "struct<y: int>"), removed_columns=("a.x", "b"))
    refusal = the_refusal(lost, table)
    assert (refusal.kind, refusal.field) == (RefusalKind.REMOVED_COLUMN, "schema.columns[c]")
    assert "listing c in schema.removedColumns" in refusal.remedy


def test_a_dropped_column_never_comes_back() -> None:
    table = created(declare(column("a"), column("b", "int")))
    without = evolve(table, declare(column("a"), removed_columns=DROP))
    again = evolve(without, declare(column("a"), column("b", "int")))
    assert ids(again) == {"a": 1, "b": 3}


def test_a_field_inside_a_struct_is_dropped() -> None:
    table = created(declare(column("a", "struct<x: int, y: int>")))
    assert the_refusal(declare(column("a", "struct<y: int>")), table).field == "schema.columns[a.x]"
    assert "a.x" not in ids(evolve(table, declare(column("a", "struct<y: int>"), removed_columns=DROP)))


@pytest.mark.parametrize(
    ("parts", "user"),
    [
        ({"partitioning": (partition("b"),)}, "the partitioning (b)"),
        ({"sort_order": (sort("b"),)}, "the sort order"),
        ({"identifier_columns": ("b",)}, "the identifier"),
    ],
)
def test_a_column_in_use_is_not_dropped(parts: dict[str, tuple[object, ...]], user: str) -> None:
    table = created(declare(column("a"), column("b", required=True), **parts))
    refusal = the_refusal(declare(column("a"), removed_columns=DROP), table)
    assert (refusal.kind, refusal.field) == (RefusalKind.COLUMN_IN_USE, "schema.columns[b]")
    assert user in refusal.reason


def test_a_column_that_older_files_are_partitioned_by_is_not_dropped() -> None:
    table = created(declare(column("a"), column("b"), partitioning=(partition("b"),)))
    moved = evolve(table, declare(column("a"), column("b"), partitioning=(partition("a"),)))
    refusal = the_refusal(declare(column("a"), removed_columns=DROP), moved)
    assert "the partitioning of older files (b)" in refusal.reason


def test_a_sort_key_and_an_identifier_are_dropped_together_with_their_use() -> None:
    declared = declare(column("a"), column("b", required=True), sort_order=(sort("b"),), identifier_columns=("b",))
    after = evolve(created(declared), declare(column("a"), removed_columns=DROP, sort_order=(), identifier_columns=()))
    assert ids(after) == {"a": 1}
    assert after.sort_order().is_unsorted


def test_a_column_is_renamed_by_its_previous_name_and_keeps_its_id() -> None:
    table = with_a_row(created(declare(column("town"), column("b"))))
    found = difference(declare(column("city", previous_names=("burg", "town")), column("b")), table)
    assert sentences(found) == ["rename column town to city"]
    after = evolved(table, found)
    assert ids(after) == {"city": 1, "b": 2}
    assert difference(declare(column("city", previous_names=("burg", "town")), column("b")), after).is_empty


def test_fields_are_renamed_at_any_depth() -> None:
    text = "map<string, list<struct<{}: int, n: struct<{}: int>>>>"
    nested = (
        NestedAttributes(("value", "element", "y"), previous_names=("x",)),
        NestedAttributes(("value", "element", "n", "q"), previous_names=("p",), doc="deep"),
    )
    table = created(declare(column("m", text.format("x", "p"))))
    found = difference(declare(column("m", text.format("y", "q"), nested=nested)), table)
    assert sentences(found) == [
        "rename column m.value.element.x to y",
        "rename column m.value.element.n.p to q",
        "describe column m.value.element.n.q as 'deep'",
    ]
    before, after = ids(table), ids(evolved(table, found))
    assert after["m.value.element.y"] == before["m.value.element.x"]
    assert after["m.value.element.n.q"] == before["m.value.element.n.p"]


def test_a_rename_and_its_new_namesake_in_one_step_are_refused() -> None:
    wanted = declare(column("b", previous_names=("a",)), column("a"))
    table = created(declare(column("a")))
    refusal = the_refusal(wanted, table)
    assert (refusal.kind, refusal.field) == (RefusalKind.AMBIGUOUS_NAME, "schema.columns[b].previousNames")
    assert "bring old values back" in refusal.reason
    renamed = evolve(table, declare(column("b", previous_names=("a",))))
    assert ids(evolve(renamed, wanted)) == {"b": 1, "a": 2}


def test_a_column_beside_its_own_previous_name_is_refused() -> None:
    refusal = the_refusal(
        declare(column("b", previous_names=("a",)), removed_columns=DROP), created(declare(column("a"), column("b")))
    )
    assert refusal.kind == RefusalKind.AMBIGUOUS_NAME
    assert "both 'b' and its previous name 'a'" in refusal.reason


def test_several_previous_names_that_are_all_there_are_refused() -> None:
    refusal = the_refusal(declare(column("c", previous_names=("a", "b"))), created(declare(column("a"), column("b"))))
    assert refusal.kind == RefusalKind.AMBIGUOUS_NAME


def test_a_name_that_differs_by_case_alone_is_refused() -> None:
    refusal = the_refusal(declare(column("City")), created(declare(column("city"))))
    assert (refusal.kind, refusal.declared, refusal.found) == (RefusalKind.AMBIGUOUS_NAME, "City", "city")
    table = created(declare(column("city")))
    assert ids(evolve(table, declare(column("City", previous_names=("city",))))) == {"City": 1}


def test_a_name_that_files_without_ids_know_is_refused_for_another_column() -> None:
    mapping = '[{"field-id": 1, "names": ["a", "old"]}, {"field-id": 9, "names": ["gone"]}]'
    table = created(declare(column("a"), properties={"schema.name-mapping.default": mapping}))
    for name in ("old", "gone"):
        refusal = the_refusal(declare(column("a"), column(name)), table)
        assert (refusal.kind, refusal.field) == (RefusalKind.AMBIGUOUS_NAME, f"schema.columns[{name}].name")
    assert the_refusal(declare(column("gone", previous_names=("a",))), table).kind == RefusalKind.AMBIGUOUS_NAME


def test_the_name_mapping_learns_new_names() -> None:
    mapping = '[{"field-id": 1, "names": ["a"]}]'
    table = created(declare(column("a"), properties={"schema.name-mapping.default": mapping}))
    after = evolve(table, declare(column("b", previous_names=("a",)), column("c")))
    known = after.name_mapping()
    assert known is not None
    assert [(field.field_id, field.names) for field in known.root] == [(1, ["a", "b"]), (2, ["c"])]


def test_columns_are_reordered_at_any_depth() -> None:
    table = created(declare(column("a"), column("b", "struct<x: int, y: int>"), column("c")))
    found = difference(declare(column("c"), column("b", "struct<y: int, x: int>"), column("a")), table)
    assert sentences(found) == ["reorder the fields of b: y, x", "reorder the columns: c, b, a"]
    after = evolved(table, found)
    assert ids(after) == ids(table)
    assert [field.name for field in after.schema().fields] == ["c", "b", "a"]


def test_a_doc_is_changed_and_removed_and_left_alone_if_not_declared() -> None:
    table = created(declare(column("a", doc="one")))
    assert sentences(difference(declare(column("a", doc="two")), table)) == ["describe column a as 'two'"]
    assert evolve(table, declare(column("a", doc=""))).schema().find_field("a").doc is None
    assert difference(declare(column("a")), table).is_empty


@pytest.mark.parametrize(
    ("now", "wanted"),
    [("int", "long"), ("float", "double"), ("decimal(9,2)", "decimal(18,2)")],
)
def test_a_type_is_widened(now: str, wanted: str) -> None:
    table = with_a_row(created(declare(column("a", now), column("s", f"list<struct<x: {now}>>"))))
    after = evolve(table, declare(column("a", wanted), column("s", f"list<struct<x: {wanted}>>")))
    assert ids(after) == ids(table)
    assert str(after.schema().find_type("a")) == str(after.schema().find_type("s.element.x"))
    assert str(after.schema().find_type("a")).replace(" ", "") == wanted


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        ("long", "int"),
        ("double", "float"),
        ("decimal(18,2)", "decimal(9,2)"),
        ("decimal(9,2)", "decimal(12,3)"),
        ("int", "string"),
        ("string", "int"),
        ("int", "double"),
        ("date", "timestamp"),
        ("timestamp", "timestamptz"),
        ("string", "binary"),
        ("string", "struct<x: string>"),
        ("struct<x: int>", "map<string, int>"),
        ("list<int>", "int"),
        ("fixed[8]", "fixed[9]"),
    ],
)
def test_any_other_type_change_is_refused(now: str, wanted: str) -> None:
    refusal = the_refusal(declare(column("a", wanted)), created(declare(column("a", now))))
    assert (refusal.kind, refusal.field) == (RefusalKind.TYPE_CHANGE, "schema.columns[a].type")
    assert refusal.declared is not None
    assert refusal.found is not None


@pytest.mark.parametrize("key", ["long", "struct<x: int, y: int>", "struct<z: int>"])
def test_the_key_of_a_map_never_changes(key: str) -> None:
    now = "int" if key == "long" else "struct<x: int>"
    refusal = the_refusal(
        declare(column("m", f"map<{key}, int>"), removed_columns=DROP),
        created(declare(column("m", f"map<{now}, int>"))),
    )
    assert (refusal.kind, refusal.field) == (RefusalKind.MAP_KEY, "schema.columns[m.key].type")


def test_a_column_is_made_optional_at_any_depth() -> None:
    table = with_a_row(created(declare(column("a", required=True), column("l", "list<required int>"))))
    found = difference(declare(column("a"), column("l", "list<int>")), table)
    assert sentences(found) == ["make column a optional", "make column l.element optional"]
    after = evolved(table, found).schema()
    assert not after.find_field("a").required
    assert not after.find_field("l.element").required


def test_a_column_is_made_required_only_while_there_are_no_rows() -> None:
    table = created(declare(column("a")))
    wanted = declare(column("a", required=True))
    found = difference(wanted, table)
    assert any(requirement.type == "assert-ref-snapshot-id" for requirement in found.requirements)
    assert evolved(table, found).schema().find_field("a").required
    refusal = the_refusal(wanted, with_a_row(table))
    assert (refusal.kind, refusal.field) == (RefusalKind.REQUIRED_COLUMN, "schema.columns[a].required")


def test_identifier_columns_are_changed_and_left_alone_if_not_declared() -> None:
    columns = (column("a", required=True), column("b", required=True))
    table = created(declare(*columns, identifier_columns=("a",)))
    found = difference(declare(*columns, identifier_columns=("a", "b")), table)
    assert sentences(found) == ["identify rows by a, b"]
    assert evolved(table, found).schema().identifier_field_names() == {"a", "b"}
    assert difference(declare(*columns), table).is_empty
    assert evolve(table, declare(*columns, identifier_columns=())).schema().identifier_field_ids == []


def test_an_identifier_column_is_not_made_optional() -> None:
    table = created(declare(column("a", required=True), identifier_columns=("a",)))
    refusal = the_refusal(declare(column("a")), table)
    assert (refusal.kind, refusal.field) == (RefusalKind.COLUMN_IN_USE, "schema.columns[a].required")


def test_all_obstacles_are_told_at_once() -> None:
    table = with_a_row(created(declare(column("a"), column("b", "long"), column("c"))))
    found = difference(declare(column("a", required=True), column("b", "int"), column("d", required=True)), table)
    assert [refusal.kind for refusal in found.refusals] == [
        RefusalKind.REQUIRED_COLUMN,
        RefusalKind.TYPE_CHANGE,
        RefusalKind.REQUIRED_COLUMN,
        RefusalKind.REMOVED_COLUMN,
    ]
    assert found.updates == ()
    assert found.requirements == ()


def test_a_schema_that_the_table_had_before_is_taken_up_again() -> None:
    first = declare(column("a", doc="one"))
    table = evolve(created(first), declare(column("a", doc="two")))
    again = evolve(table, first)
    assert again.current_schema_id == 0
    assert len(again.schemas) == 2


def test_a_declaration_without_columns_leaves_the_schema_alone() -> None:
    table = created(declare(column("a")))
    assert difference(TableDeclaration(("db", "t")), table) == Difference((), ())


def test_evolving_never_alters_older_schemas() -> None:
    table = created(declare(column("a", "int"), column("b")))
    before: Schema = table.schema()
    wanted: tuple[Column, ...] = (column("a", "long"), column("c"))
    after = evolve(table, declare(*wanted, removed_columns=DROP))
    assert after.schema_by_id(before.schema_id) == before
