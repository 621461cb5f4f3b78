"""What a manifest list says about the partition values of a manifest: engines skip manifests by it.

PyIceberg compares as Python does. Iceberg Java orders -0.0 before 0.0, and UUIDs as two signed numbers, while the
specification and other engines order UUIDs by their unsigned bytes. A bound that is right in one order only hides rows
from engines with the other.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import PartitionFieldSummary
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, PrimitiveType, StructType

_SIGN: Final = 1 << 63


def partition_summaries(partitions: StructType, values: Iterable[Record]) -> list[PartitionFieldSummary] | None:
    """A summary of each partition field. None if one has no bounds that are right in the order of every engine.

    Without any summary a manifest is always read. Without bounds alone, it would count as one with nulls only.
    """
    records = list(values)
    found = [_summary(field, [record[place] for record in records]) for place, field in enumerate(partitions.fields)]
    known = [summary for summary in found if summary is not None]
    return known if len(known) == len(found) else None


def _summary(field: NestedField, values: Sequence[Any]) -> PartitionFieldSummary | None:
    if not isinstance(field.field_type, PrimitiveType):
        raise ValueError(f"partition field {field.name!r} has type {field.field_type}, which is not primitive")
    ordered = [value for value in values if value is not None and value == value]
    has_null, has_nan = None in values, any(value != value for value in values)
    if not ordered:
        return PartitionFieldSummary(has_null, has_nan, None, None)
    orders = _orders(ordered[0])
    bounds = {(min(ordered, key=order), max(ordered, key=order)) for order in orders}
    if len(bounds) > 1:
        return None
    [(lower, upper)] = bounds
    return PartitionFieldSummary(
        has_null, has_nan, to_bytes(field.field_type, lower), to_bytes(field.field_type, upper)
    )


def _orders(value: Any) -> Sequence[Callable[[Any], Any]]:
    """The orders in which engines compare values of this kind."""
    if isinstance(value, float):
        return (lambda number: (number, math.copysign(1, number)),)
    if isinstance(value, UUID):
        return (lambda uuid: uuid, _signed)
    return (lambda other: other,)


def _signed(value: UUID) -> tuple[int, int]:
    """As `java.util.UUID` compares."""
    high, low = divmod(value.int, 1 << 64)
    return high - ((high & _SIGN) << 1), low - ((low & _SIGN) << 1)
