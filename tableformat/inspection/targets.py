"""How large a table's files should be, and below which size one is called small: one rule for all who count or plan."""

from collections.abc import Mapping

from pyiceberg.table import TableProperties

from tableformat.properties import positive_number

DEFAULT_TARGET_BYTES = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
_SMALL = 0.75  # of the target, as in Iceberg's own procedures


def own_target_bytes(properties: Mapping[str, str]) -> int:
    """As a table's properties say, or Iceberg's default; what is no number says nothing."""
    return positive_number(properties, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, DEFAULT_TARGET_BYTES)


def small_below(target_bytes: int) -> int:
    return int(target_bytes * _SMALL)


def target_of(small_bytes: float) -> float:
    """The target of which files below this size are called small."""
    return small_bytes / _SMALL
