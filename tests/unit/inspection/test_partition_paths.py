"""A partition's name is PyIceberg's wherever that has one, and there is a name for every partition."""

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, Transform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, NestedField, StringType, TimestampType, TimestamptzType, TimeType

from tableformat.inspection import partition_path

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
MICROS_A_DAY = 86_400 * 10**6


def spec_and_schema(transform: Transform[int, int], kind: IcebergType) -> tuple[PartitionSpec, Schema]:
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "a city"),
        PartitionField(2, 1001, transform, "the time"),
        PartitionField(1, 1002, VoidTransform(), "void"),
    )
    return spec, Schema(NestedField(1, "city", StringType()), NestedField(2, "at", kind))


@pytest.mark.parametrize("day", [FIRST_DAY, -1, 0, LAST_DAY, None])
def test_names_inside_the_calendar_are_those_of_pyiceberg(day: int | None) -> None:
    spec, schema = spec_and_schema(DayTransform(), DateType())
    values = Record("Agra & Pune", day, None)
    assert partition_path(spec, values, schema) == spec.partition_to_path(values, schema)


@pytest.mark.parametrize("way", [-1, 1], ids=["before the first year", "after the last"])
@pytest.mark.parametrize(
    ("transform", "kind", "units_a_day"),
    [
        (DayTransform(), TimestampType(), 1),
        (HourTransform(), TimestampType(), 24),
        (IdentityTransform(), DateType(), 1),
        (IdentityTransform(), TimestampType(), MICROS_A_DAY),
        (IdentityTransform(), TimestamptzType(), MICROS_A_DAY),
        (IdentityTransform(), TimeType(), MICROS_A_DAY),
    ],
    ids=str,
)
def test_only_what_has_no_name_in_the_calendar_goes_by_its_number(
    transform: Transform[int, int], kind: IcebergType, units_a_day: int, way: int
) -> None:
    spec, schema = spec_and_schema(transform, kind)
    value = ((LAST_DAY if way > 0 else FIRST_DAY) + way) * units_a_day

    found = partition_path(spec, Record("Agra & Pune", value, None), schema)

    assert found == f"a+city=Agra+%26+Pune/the+time={value}/void=null"
