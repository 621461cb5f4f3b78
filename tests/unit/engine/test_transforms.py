"""Transforms of whole columns give what PyIceberg's own functions give value by value."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tableformat.engine.transforms import is_known, partition_values, transformed

EPOCH = date(1970, 1, 1)
days = st.dates(date(1900, 1, 1), date(2100, 1, 1))
moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 - a timestamp without a zone

CASES: list[tuple[IcebergType, pa.DataType, st.SearchStrategy[Any], list[Transform[Any, Any]]]] = [
    (IntegerType(), pa.int32(), st.integers(-100, 100), [BucketTransform(8), TruncateTransform(10)]),
    (LongType(), pa.int64(), st.integers(-(2**40), 2**40), [BucketTransform(5), TruncateTransform(7)]),
    (StringType(), pa.large_string(), st.text(max_size=8), [BucketTransform(4), TruncateTransform(3)]),
    (BinaryType(), pa.large_binary(), st.binary(max_size=8), [BucketTransform(4), TruncateTransform(2)]),
    (
        DecimalType(9, 2),
        pa.decimal128(9, 2),
        st.decimals(-999, 999, places=2),
        [BucketTransform(4), TruncateTransform(50)],
    ),
    (DateType(), pa.date32(), days, [YearTransform(), MonthTransform(), DayTransform(), BucketTransform(3)]),
    (
        TimestampType(),
        pa.timestamp("us"),
        moments,
        [YearTransform(), MonthTransform(), DayTransform(), HourTransform(), BucketTransform(3)],
    ),
    (TimestamptzType(), pa.timestamp("us", "UTC"), moments.map(lambda m: m.replace(tzinfo=UTC)), [DayTransform()]),
]


def internal(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
    return (value - EPOCH).days if isinstance(value, date) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
@settings(max_examples=20)
@given(data=st.data())
def test_columns_are_transformed_as_single_values_are(
    case: tuple[IcebergType, pa.DataType, st.SearchStrategy[Any], list[Transform[Any, Any]]], data: st.DataObject
) -> None:
    source, kind, strategy, transforms = case
    values = data.draw(st.lists(st.none() | strategy, max_size=20))
    for transform in transforms:
        assert is_known(transform, source)
        function = transform.transform(source)
        result = partition_values(transformed(pa.array(values, kind), transform, source))
        assert result == [None if value is None else function(internal(value)) for value in values]


def test_a_void_transform_makes_nulls_and_identity_changes_nothing() -> None:
    array = pa.array([Decimal("1.50"), None], pa.decimal128(9, 2))
    assert transformed(array, VoidTransform(), DecimalType(9, 2)).null_count == 2
    assert transformed(array, IdentityTransform(), DecimalType(9, 2)).equals(array)


def test_smallest_numbers_are_truncated_as_java_truncates_them() -> None:
    numbers = pa.array([-(2**31), 2**31 - 1, None], pa.int32())
    assert transformed(numbers, TruncateTransform(10), IntegerType()).to_pylist() == [2**31 - 2, 2**31 - 8, None]
    prices = pa.array([Decimal("-9999999.99")], pa.decimal128(9, 2))
    assert transformed(prices, TruncateTransform(10), DecimalType(9, 2)).to_pylist() == [Decimal("-10000000.00")]


def test_nanoseconds_before_1970_are_rounded_down() -> None:
    array = pa.array([-1, 0, 86_400 * 10**9], pa.timestamp("ns"))
    assert transformed(array, DayTransform(), TimestampType()).to_pylist() == [-1, 0, 1]


FIRST_DAY, LAST_DAY = internal(date.min), internal(date.max)
DAYS_OF_400_YEARS = 146_097  # after which the calendar is the same again


@given(days=st.lists(st.integers(FIRST_DAY, LAST_DAY), max_size=20), cycles=st.integers(-14_000, 14_000))
def test_months_and_years_are_iceberg_s_in_every_year_that_there_is(days: list[int], cycles: int) -> None:
    days = [day for day in days if -(2**31) <= day + cycles * DAYS_OF_400_YEARS < 2**31]
    array = pa.array([day + cycles * DAYS_OF_400_YEARS for day in days] + [None], pa.int32()).cast(pa.date32())
    cases: list[tuple[Transform[int, int], int]] = [(MonthTransform(), 4800), (YearTransform(), 400)]
    for transform, periods in cases:
        function = transform.transform(DateType())
        expected = [(function(day) or 0) + cycles * periods for day in days]
        assert transformed(array, transform, DateType()).to_pylist() == [*expected, None]


def test_what_a_transform_cannot_be_applied_to_is_not_known() -> None:
    assert not is_known(UnknownTransform("zorder"), StringType())
    assert not is_known(DayTransform(), StringType())
    assert not is_known(TruncateTransform(3), DoubleType())
