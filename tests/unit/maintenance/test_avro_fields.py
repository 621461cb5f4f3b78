"""Fields of Avro files for reachability: what is not certain is an error, never an empty value."""

import pyarrow as pa
import pytest

from tableformat.maintenance.avro_fields import AvroFields, BrokenFile
from tests.unit.inspection.avro import block, field, header, long, text

STATUS, PATH, CONTENT = field(0, "int"), field(100, "string"), field(134, "int")
FIELDS = AvroFields({0: pa.int32(), 100: pa.large_string()}, {134: pa.int32()})


def file(*records: bytes, fields: tuple[dict[str, object], ...] = (STATUS, PATH)) -> bytes:
    return header(fields) + block(records)


def read(*files: bytes) -> list[list[list[object]]]:
    found = FIELDS.read([(f"file {number}", content) for number, content in enumerate(files)])
    return [[column.to_pylist() for column in columns] for columns in found]


def test_files_of_different_writers_are_read_each_by_its_own_schema() -> None:
    plain = file(long(1) + text("a"), long(2) + text("b"))
    newer = file(long(1) + text("c") + long(2), fields=(CONTENT, PATH, STATUS))

    assert read(plain, newer, plain) == [
        [[1, 2], ["a", "b"], [None, None]],
        [[2], ["c"], [1]],
        [[1, 2], ["a", "b"], [None, None]],
    ]


def test_a_required_field_that_is_not_there_is_an_error_that_names_the_file() -> None:
    good, bad = file(long(1) + text("a")), file(text("b"), fields=(PATH,))

    with pytest.raises(BrokenFile, match=r"lacks the fields \[0\]") as caught:
        read(good, bad)
    assert caught.value.location == "file 1"


def test_a_required_value_that_is_null_is_an_error() -> None:
    optional = field(0, ["null", "int"])
    content = file(long(0) + text("a"), fields=(optional, PATH))

    with pytest.raises(BrokenFile, match="lacks a value"):
        read(content)


def test_a_file_that_was_cut_off_is_found_among_others() -> None:
    whole = file(long(1) + text("a"), long(1) + text("b"))

    with pytest.raises(BrokenFile) as caught:
        read(whole, whole[:-20], whole)
    assert caught.value.location == "file 1"
