"""Whether a table can be rewritten exactly. What is not known to be possible is refused, before anything is written."""

from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.inspection import LiveFile, SnapshotFiles, schema_of_spec
from tableformat.maintenance.errors import UnsupportedTable

_KNOWN_TYPES = (
    BinaryType
    | BooleanType
    | DateType
    | DecimalType
    | DoubleType
    | FixedType
    | FloatType
    | IntegerType
    | ListType
    | LongType
    | MapType
    | StringType
    | StructType
    | TimestampNanoType
    | TimestampType
    | TimestamptzNanoType
    | TimestamptzType
    | TimeType
    | UUIDType
)


def require_rewritable(table: Table, files: SnapshotFiles) -> None:
    """Raise `UnsupportedTable` if any row of the table could come out of a rewrite as another."""
    name, metadata = ".".join(table.name()), table.metadata
    if metadata.format_version > 2:
        raise UnsupportedTable(
            name,
            f"format version {metadata.format_version} keeps row ids, which a rewrite would lose",
            "Compact it with an engine that keeps row lineage",
        )
    if files.deletes:
        raise UnsupportedTable(
            name,
            f"it has {len(files.deletes)} delete files, and rewriting without applying them would bring rows back",
            "Compact it with an engine that applies deletes",
        )
    for field in metadata.schema()._lazy_id_to_field.values():
        if not isinstance(field.field_type, _KNOWN_TYPES):
            raise UnsupportedTable(
                name,
                f"column {field.name!r} has type {field.field_type}, which the kernel does not know",
                "Leave its compaction to an engine that does",
            )

    for spec_id in sorted({file.spec_id for file in files.data}):
        if schema_of_spec(metadata, spec_id) is None:
            raise UnsupportedTable(
                name,
                f"partition spec {spec_id} has a transform or a source column that is not known",
                "Rewrite its files into the current spec with another engine",
            )


def require_rewritable_file(table: Table, file: LiveFile) -> None:
    """The same for one data file that a plan would take."""
    name = ".".join(table.name())
    if file.file_format != FileFormat.PARQUET:
        raise UnsupportedTable(
            name, f"{file.path} is {file.file_format.value}, not Parquet", "Rewrite such files with their own engine"
        )
    if file.encrypted:
        raise UnsupportedTable(name, f"{file.path} is encrypted", "Compact it with an engine that has the keys")
    if "://" in file.path and ("#" in file.path or "?" in file.path):
        raise UnsupportedTable(
            name,
            f"the path {file.path} has a character that file access cuts paths at",
            "Rewrite such files with another engine",
        )
