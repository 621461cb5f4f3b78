"""Small words for tests that apply declarations through a catalog."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tableformat.declaration import (
    Applied,
    Column,
    ManagementMode,
    PartitionColumn,
    TableDeclaration,
    apply_declaration,
    parse_partition_transform,
    parse_type,
)

IDENTIFIER = ("db", "t")


def column(name: str, text: str = "string", **attributes: Any) -> Column:
    return Column(name, parse_type(text), **attributes)


def declare(*columns: Column, **parts: Any) -> TableDeclaration:
    return TableDeclaration(**{"identifier": IDENTIFIER, "columns": columns, **parts})


def partition(name: str, transform: str = "identity") -> PartitionColumn:
    return PartitionColumn(name, parse_partition_transform(transform))


def create(catalog: Catalog, declaration: TableDeclaration) -> Table:
    applied = apply_declaration(catalog, declaration, mode=ManagementMode.FULL, known_uuid=None)
    assert applied.created
    assert applied.table is not None
    return applied.table


def apply(catalog: Catalog, declaration: TableDeclaration, table: Table, **arguments: Any) -> Applied:
    """As the operator does for a table that it has created or adopted before."""
    arguments = {"mode": ManagementMode.FULL, "known_uuid": table.metadata.table_uuid, **arguments}
    return apply_declaration(catalog, declaration, **arguments)


def metadata_bytes(catalog: Catalog, table: Table) -> tuple[str, bytes]:
    """Where the table's pointer leads, and every byte that is there."""
    location = catalog.load_table(table.name()).metadata_location
    return location, Path(urlsplit(location).path).read_bytes()
