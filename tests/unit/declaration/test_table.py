"""What a declaration says of itself: wrong ones are refused at once, all reasons together, field by field."""

import pytest

from tableformat.declaration import (
    Column,
    InvalidDeclarationError,
    NestedAttributes,
    PartitionColumn,
    SortColumn,
    TableDeclaration,
    parse_partition_transform,
    parse_type,
)


def column(name: str, text: str = "string", **attributes: object) -> Column:
    return Column(name, parse_type(text), **attributes)  # type: ignore[arg-type]


def problems(**parts: object) -> dict[str, str]:
    with pytest.raises(InvalidDeclarationError) as error:
        TableDeclaration(**{"identifier": ("db", "t"), "columns": (column("a"),), **parts})  # type: ignore[arg-type]
    assert all(problem.remedy for problem in error.value.problems)
    return {problem.field: problem.reason for problem in error.value.problems}


def test_ids_are_given_level_by_level() -> None:
    declared = TableDeclaration(
        ("db", "t"), (column("a", "struct<x: int, y: list<int>>"), column("b", "map<string, long>"))
    )
    schema = declared.new_schema()
    assert {schema.find_column_name(field_id): field_id for field_id in schema._lazy_id_to_name} == {
        "a": 1, "b": 2, "a.x": 3, "a.y": 4, "a.y.element": 5, "b.key": 6, "b.value": 7,
    }  # fmt: skip


def test_a_declaration_is_a_value() -> None:
    first = TableDeclaration(("db", "t"), (column("a"),), properties={"k": "v"})
    second = TableDeclaration(("db", "t"), (column("a"),), properties={"k": "v"})
    assert first == second
    assert hash(first) == hash(second)


def test_all_problems_are_told_at_once() -> None:
    found = problems(identifier=("t",), properties={"uuid": "1"}, columns=(column("a"), column("A"), column("")))
    assert list(found) == ["identifier", "properties[uuid]", "schema.columns[A].name", "schema.columns[].name"]


def test_two_columns_cannot_claim_the_same_previous_name() -> None:
    found = problems(columns=(column("a", previous_names=("x",)), column("b", previous_names=("x",))))
    assert found == {"schema.columns[b].previousNames[x]": "'a' claims the previous name 'x' too"}


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_names_cannot_be_passed_on_in_a_circle(names: str) -> None:
    before = dict(zip(names, names[1:] + names[0], strict=True))
    found = problems(columns=tuple(column(name, previous_names=(before[name],)) for name in names))
    assert list(found) == ["schema.columns[a].previousNames"]
    assert "in a circle" in found["schema.columns[a].previousNames"]
    TableDeclaration(("db", "t"), (column("a"), column("b", previous_names=("a",)), column("c", previous_names=("b",))))


def test_a_dotted_name_cannot_be_that_of_a_nested_field() -> None:
    found = problems(columns=(column("a", "struct<b: int>"), column("a.b")))
    assert found == {"schema.columns[a.b].name": "its full name is also that of 'b' inside 'a'"}


def test_fields_inside_a_column_are_checked_too() -> None:
    nested = (NestedAttributes(("element", "y"), previous_names=("x",)),)
    found = problems(columns=(column("a", "list<struct<x: int, y: int>>", nested=(*nested, *nested)),))
    assert found == {"schema.columns[a.element.y]": "the field is described twice"}
    for text, path in (("list<int>", ("element",)), ("map<struct<x: int>, int>", ("key", "x")), ("int", ())):
        found = problems(columns=(column("a", text, nested=(NestedAttributes(path, doc="one"),)),))
        assert list(found.values()) == ["the column's type has no struct with such a field"]


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("int", "7", "'7' is no int"),
        ("int", True, "True is no int"),
        ("int", 2**31, "2147483648 is no int"),
        ("boolean", 1, "1 is no boolean"),
        ("date", "31.1.2026", "'31.1.2026' is no date"),
        ("decimal(10,2)", 12.5, "quote it"),
        ("decimal(10,2)", "12.5", "exactly 2 digits after the point"),
        ("decimal(3,2)", "12.50", "more than 3 digits"),
        ("uuid", "x", "'x' is no uuid"),
        ("list<int>", 1, "a list has no default"),
        ("timestamp_ns", "2026-01-01T00:00:00", "not supported"),
    ],
)
def test_a_default_must_be_a_value_of_its_type(text: str, value: object, reason: str) -> None:
    found = problems(columns=(column("a", text, initial_default=value),), format_version=3)
    assert reason in found["schema.columns[a].initialDefault"]


def test_what_needs_format_version_3_says_so() -> None:
    found = problems(columns=(column("a", "timestamp_ns"), column("b", "int", initial_default=1)), format_version=2)
    assert found == {
        "schema.columns[a].type": "the type timestamp_ns needs format version 3, and the table has 2",
        "schema.columns[b]": "a default needs format version 3, and the table has 2",
    }


@pytest.mark.parametrize(
    ("text", "required", "reason"),
    [
        ("string", False, "optional"),
        ("double", True, "which identifies no row"),
        ("list<int>", True, "which identifies no row"),
    ],
)
def test_identifier_columns_must_identify(text: str, required: bool, reason: str) -> None:
    found = problems(columns=(column("a", text, required=required),), identifier_columns=("a",))
    assert reason in found["schema.identifierColumns[a]"]


def test_an_identifier_inside_an_optional_struct_is_refused() -> None:
    found = problems(columns=(column("a", "struct<x: required int>"),), identifier_columns=("a.x",))
    assert "optional struct" in found["schema.identifierColumns[a.x]"]


def test_partitioning_and_sorting_need_fitting_columns() -> None:
    found = problems(
        columns=(column("a"), column("l", "list<int>"), column("s", "struct<x: int>")),
        partitioning=(
            PartitionColumn("gone"),
            PartitionColumn("a", parse_partition_transform("day")),
            PartitionColumn("l.element"),
            PartitionColumn("s"),
            PartitionColumn("s.x", parse_partition_transform("bucket[4]"), name="a"),
        ),
        sort_order=(SortColumn("nothing"),),
    )
    assert found == {
        "partitioning[gone]": "there is no column 'gone'",
        "partitioning[a]": "day does not apply to 'a', which is of type string",
        "partitioning[l.element]": "'l.element' is inside a list or a map",
        "partitioning[s]": "identity does not apply to 's', which is of type struct<x: int>",
        "partitioning[s.x]": "'a' is the name of a column",
        "layout.order.columns[nothing]": "there is no column 'nothing'",
    }


def test_the_same_partition_field_twice_is_refused() -> None:
    found = problems(partitioning=(PartitionColumn("a"), PartitionColumn("a")))
    assert "twice" in found["partitioning[a]"]
