"""Settings among a table's properties, which anybody may have written: `8MB` can be set, and is no number.

For settings whose default does no harm. Where a guess could lose something, whoever reads the property refuses instead.
"""

from collections.abc import Mapping

from pyiceberg.table import TableProperties

GC_ENABLED = "gc.enabled"
ENCRYPTION_KEY = "encryption.key-id"
_TRUE = ("true", "t", "yes", "y", "on", "1")


# Properties that engines, and our own runs, read as numbers.
_NUMBERS = frozenset(
    {
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.MAX_SNAPSHOT_AGE_MS,
        TableProperties.MIN_SNAPSHOTS_TO_KEEP,
        "history.expire.max-ref-age-ms",
        TableProperties.MANIFEST_TARGET_SIZE_BYTES,
        TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES,
        TableProperties.PARQUET_PAGE_SIZE_BYTES,
        TableProperties.PARQUET_DICT_SIZE_BYTES,
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX,
    }
)


def unread_numbers(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """The properties that engines read as numbers, and that are none, with their values."""
    return [
        (name, properties[name])
        for name in sorted(_NUMBERS & properties.keys())
        if read_number(properties, name) is None
    ]


def read_number(properties: Mapping[str, str], name: str) -> int | None:
    """None where the property is not there, or is no number."""
    try:
        return int(properties.get(name, ""))
    except ValueError:
        return None


def positive_number(properties: Mapping[str, str], name: str, default: int) -> int:
    number = read_number(properties, name)
    return default if number is None or number < 1 else number


def may_delete_files(properties: Mapping[str, str]) -> bool:
    """As `gc.enabled` says. What is not true is false, as for Iceberg's own: then the files may be others' as well."""
    return (properties.get(GC_ENABLED) or "true").lower() in _TRUE


def is_encrypted(properties: Mapping[str, str]) -> bool:
    """PyIceberg's metadata has no place for the keys of such a table: written by it, they would be gone, and with them
    every file."""
    return ENCRYPTION_KEY in properties
