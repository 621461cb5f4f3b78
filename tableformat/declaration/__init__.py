"""A declared table against the one that is there: the difference, the refusals, and one commit.

The way through: text becomes types (`grammar`), types and names become a checked `TableDeclaration` (`columns`,
`table`), `difference` compares it with a table's metadata, `render` shows the outcome to people, and
`apply_declaration` carries it out through a catalog. Nothing here knows Kubernetes.
"""

from tableformat.declaration.apply import (
    Applied,
    Drift,
    TableContendedError,
    apply_declaration,
    creation_refusals,
)
from tableformat.declaration.changes import Change
from tableformat.declaration.columns import Column, NestedAttributes
from tableformat.declaration.difference import Difference, difference
from tableformat.declaration.locations import TableLocation, overlapping_table
from tableformat.declaration.refusals import InvalidDeclarationError, Refusal, RefusalKind
from tableformat.declaration.render import render_json, render_text
from tableformat.declaration.table import (
    ManagementMode,
    PartitionColumn,
    SortColumn,
    TableDeclaration,
)
from tableformat.grammar import InvalidTypeError, parse_partition_transform, parse_type, type_text

__all__ = [
    "Applied",
    "Change",
    "Column",
    "Difference",
    "Drift",
    "InvalidDeclarationError",
    "InvalidTypeError",
    "ManagementMode",
    "NestedAttributes",
    "PartitionColumn",
    "Refusal",
    "RefusalKind",
    "SortColumn",
    "TableContendedError",
    "TableDeclaration",
    "TableLocation",
    "apply_declaration",
    "creation_refusals",
    "difference",
    "overlapping_table",
    "parse_partition_transform",
    "parse_type",
    "render_json",
    "render_text",
    "type_text",
]
