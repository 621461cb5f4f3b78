"""Iceberg's transforms on whole columns, for orders and partitions that are by more than a plain value.

Times are divided as integers, with months and years from numpy, because Python's calendar ends before Iceberg's.
Everything else is PyIceberg's own function, once for each different value. The results have the form that partition
values have in a manifest: days as a number, and so on.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType

_SECONDS_A_DAY, _SECONDS_AN_HOUR = 86_400, 3_600
_MOST_DIGITS = 38  # of Iceberg's decimals, and of Arrow's of 128 bits
_PER_SECOND = {"us": 10**6, "ns": 10**9}
_KNOWN: tuple[type[Transform[Any, Any]], ...] = (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)


def is_known(transform: Transform[Any, Any], source: IcebergType) -> bool:
    return isinstance(transform, _KNOWN) and transform.can_transform(source)


def transformed(array: pa.Array, transform: Transform[Any, Any], source: IcebergType) -> pa.Array:
    """What the transform makes of each value; null of null."""
    if isinstance(transform, IdentityTransform):
        return array
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(array), pa.int32())
    if isinstance(transform, TimeTransform):
        return _time(array, transform)
    if isinstance(transform, TruncateTransform) and pa.types.is_integer(array.type):
        numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        # The smallest numbers have no multiple below them, and run over as in Java.
        truncated = numbers - numbers % numbers.dtype.type(transform.width)
        return pa.array(truncated, array.type, mask=array.is_null().to_numpy(zero_copy_only=False))
    different = pc.unique(array)
    function = transform.transform(source)
    results = [None if value is None else function(value) for value in partition_values(different)]
    kind = _truncated_type(array.type) if isinstance(transform, TruncateTransform) else pa.int32()
    return pa.array(results, kind).take(pc.index_in(array, value_set=different))


def _truncated_type(kind: pa.DataType) -> pa.DataType:
    """A negative decimal is truncated away from zero, and may get one more digit."""
    if not pa.types.is_decimal(kind):
        return kind
    wider = pa.decimal128 if kind.precision < _MOST_DIGITS else pa.decimal256
    return wider(kind.precision + 1, kind.scale)


def partition_values(array: pa.Array) -> list[Any]:
    """The values as manifests have them."""
    return list((_numbers(array) if pa.types.is_temporal(array.type) else array).to_pylist())


def _time(array: pa.Array, transform: TimeTransform[Any]) -> pa.Array:
    seconds = _SECONDS_AN_HOUR if isinstance(transform, HourTransform) else _SECONDS_A_DAY
    numbers = _numbers(array).cast(pa.int64())
    if pa.types.is_timestamp(array.type):
        unit = seconds * _PER_SECOND[array.type.unit]
        # numpy rounds down, as times before 1970 need it; Arrow's division rounds towards zero.
        floor = np.floor_divide(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), unit)
        numbers = pa.array(floor, mask=array.is_null().to_numpy(zero_copy_only=False))
    if isinstance(transform, DayTransform | HourTransform):
        return numbers.cast(pa.int32())
    days = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).view("M8[D]")
    periods = days.astype("M8[M]" if isinstance(transform, MonthTransform) else "M8[Y]").view(np.int64)
    return pa.array(periods, mask=numbers.is_null().to_numpy(zero_copy_only=False)).cast(pa.int32())


def _numbers(array: pa.Array) -> pa.Array:
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
