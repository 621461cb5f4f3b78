"""The type grammar: Iceberg's own words in, PyIceberg's types out, and errors that point at the character."""

import pytest
from hypothesis import given
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tableformat.declaration import InvalidTypeError, parse_partition_transform, parse_type, type_text
from tableformat.types_as_written import TypeAsWritten
from tests.unit.declaration.strategies import iceberg_types

PLAIN = ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns"]
PLAIN += ["timestamptz_ns", "string", "uuid", "binary", "unknown"]


@pytest.mark.parametrize("word", PLAIN)
def test_a_primitive_is_its_own_name(word: str) -> None:
    assert str(parse_type(word)) == word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(10,2)", DecimalType(10, 2)),
        (" decimal ( 38 , 0 ) ", DecimalType(38, 0)),
        ("fixed[16]", FixedType(16)),
        ("fixed(16)", FixedType(16)),
        ("geometry", GeometryType()),
        ("geometry('EPSG:4326')", TypeAsWritten("geometry(EPSG:4326)")),
        ("geography", GeographyType()),
        ('geography("EPSG:4326", "vincenty")', TypeAsWritten("geography(EPSG:4326, vincenty)")),
        ("list<variant>", ListType(0, TypeAsWritten("variant"), element_required=False)),
        ("list<int>", ListType(0, IntegerType(), element_required=False)),
        ("list<required int>", ListType(0, IntegerType(), element_required=True)),
        ("map<string, long>", MapType(0, StringType(), 0, LongType(), value_required=False)),
        (
            "list<struct<sku: required string, qty: int>>",
            ListType(
                0,
                StructType(
                    NestedField(0, "sku", StringType(), required=True),
                    NestedField(0, "qty", IntegerType(), required=False),
                ),
                element_required=False,
            ),
        ),
        (
            "struct<`unit ``price``, net`: optional long>",
            StructType(NestedField(0, "unit `price`, net", LongType(), required=False)),
        ),
    ],
)
def test_types_with_parameters(text: str, expected: IcebergType) -> None:
    assert parse_type(text) == expected


@given(iceberg_types())
def test_a_type_survives_its_own_text(iceberg_type: IcebergType) -> None:
    assert parse_type(type_text(iceberg_type)) == iceberg_type


@pytest.mark.parametrize("text", ["variant", "geometry('EPSG:4326')", "geography('OGC:CRS84', 'karney')", "geography"])
def test_type_that_only_format_version_3_has_survives_its_own_text(text: str) -> None:
    assert type_text(parse_type(text)) == text


def test_reference_system_is_written_without_the_quotes_that_java_takes_for_a_part_of_it() -> None:
    field = NestedField(1, "place", parse_type("geometry('EPSG:4326')"))
    assert field.model_dump()["type"] == "geometry(EPSG:4326)"


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "a type is expected here, but the text ends"),
        ("strnig", 0, "there is no type 'strnig'"),
        ("Int", 0, "Iceberg calls it 'int'"),
        ("list<bigint>", 5, "Iceberg calls it 'long'"),
        ("array<int>", 0, "Iceberg calls it 'list'"),
        ("list<int", 8, "'>' is expected here, but the text ends"),
        ("list<int>>", 9, "the type ends here, but '>' was found"),
        ("decimal(10)", 10, "',' is expected here, but ')' was found"),
        ("decimal(39,2)", 8, "1 to 38"),
        ("decimal(3,9)", 10, "the scale 9 is larger than the precision 3"),
        ("decimal(x,2)", 8, "the precision is expected here"),
        ("fixed[0]", 6, "at least 1"),
        ("fixed[3)", 7, "']' is expected here"),
        ("map<string>", 10, "',' is expected here"),
        ("map<required string, int>", 4, "always required"),
        ("struct<>", 7, "a field's name is expected here, but '>' was found"),
        ("struct<1: a: int>", 7, "ids are the table's own"),
        ("struct<a int>", 9, "':' is expected here, but 'i' was found"),
        ("struct<a: int, A: long>", 15, "a field 'a' already"),
        ("struct<`a: int>", 7, "no closing `"),
        ("geometry(EPSG)", 9, "a quoted name is expected here"),
        ("geometry('a', 'b')", 12, "')' is expected here"),
        ("list<" * 40 + "int" + ">" * 40, 165, "nest deeper than 32"),
    ],
)
def test_an_error_points_at_the_character(text: str, position: int, problem: str) -> None:
    with pytest.raises(InvalidTypeError) as error:
        parse_type(text)
    assert error.value.position == position
    assert problem in error.value.problem
    assert str(error.value).splitlines()[-1] == " " * (position + 2) + "^"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("identity", IdentityTransform()),
        ("bucket[16]", BucketTransform(16)),
        ("truncate[4]", TruncateTransform(4)),
        (" day ", DayTransform()),
    ],
)
def test_transforms(text: str, expected: object) -> None:
    assert parse_partition_transform(text) == expected


@pytest.mark.parametrize("text", ["", "week", "bucket", "bucket[]", "bucket[0]", "truncate[0]", "void"])
def test_an_unknown_transform_is_refused(text: str) -> None:
    with pytest.raises(InvalidTypeError):
        parse_partition_transform(text)
