"""A declared table as frozen values, checked on construction against everything that needs no table to be seen.

What is None is not declared: a new table takes Iceberg's default for it, and an existing one is left as it is. No
columns at all means that the schema is somebody else's business, as for a table that is only maintained.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import count
from types import MappingProxyType
from typing import Any, Literal

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType

from tableformat.declaration.columns import (
    Column,
    DeclaredField,
    column_problems,
    field_trees,
    walk,
    with_new_ids,
)
from tableformat.declaration.refusals import InvalidDeclarationError, Refusal, RefusalKind, column_field
from tableformat.grammar import type_text
from tableformat.suggestions import nearest

FormatVersion = Literal[2, 3]

DEFAULT_FORMAT_VERSION = 2
FIRST_VERSION_WITH_DEFAULTS = 3

# Iceberg keeps these words for what the metadata itself says; an engine that meets them as properties fails.
RESERVED_PROPERTIES = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)


class ManagementMode(StrEnum):
    """How far the declaration rules the table: only `FULL` ever creates or alters it."""

    FULL = "Full"
    MAINTAIN_ONLY = "MaintainOnly"
    OBSERVE_ONLY = "ObserveOnly"


@dataclass(frozen=True)
class PartitionColumn:
    """`column` is a full name (`address.city`). Without a `name`, Iceberg's habit gives one (`ts_day`)."""

    column: str
    transform: Transform[Any, Any] = field(default_factory=IdentityTransform)
    name: str | None = None


@dataclass(frozen=True)
class SortColumn:
    """One key of the sort order; nulls come first in ascending order and last in descending, unless said."""

    column: str
    transform: Transform[Any, Any] = field(default_factory=IdentityTransform)
    direction: SortDirection = SortDirection.ASC
    null_order: NullOrder | None = None

    @property
    def effective_null_order(self) -> NullOrder:
        if self.null_order is not None:
            return self.null_order
        return NullOrder.NULLS_FIRST if self.direction == SortDirection.ASC else NullOrder.NULLS_LAST


@dataclass(frozen=True)
class TableDeclaration:
    """What a table should be. `InvalidDeclarationError` if it could not be a table at all."""

    identifier: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    identifier_columns: tuple[str, ...] | None = None
    removed_columns: Container[str] = ()
    """Columns that may be dropped, by their dotted paths: any other that the table has must be declared."""
    partitioning: tuple[PartitionColumn, ...] | None = None
    sort_order: tuple[SortColumn, ...] | None = None
    format_version: FormatVersion | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    location: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)))
        problems = tuple(_problems(self))
        if problems:
            raise InvalidDeclarationError(problems)

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    @cached_property
    def fields(self) -> tuple[DeclaredField, ...]:
        """The columns as trees."""
        return field_trees(self.columns)

    def new_schema(self) -> Schema:
        """The schema of a table that is created from this declaration."""
        fields = _new_fields(self.fields)
        by_name = Schema(*fields)
        identifier_ids = [by_name.find_field(name).field_id for name in self.identifier_columns or ()]
        return Schema(*fields, identifier_field_ids=identifier_ids)


def format_problems(declaration: TableDeclaration, version: int) -> Iterator[Refusal]:
    """What the declared columns need and this format version lacks."""
    for declared in walk(declaration.fields):
        needed = int(declared.type.minimum_format_version())
        if needed > version:
            where, what = column_field(declared.path, "type"), f"the type {declared.type}"
        elif declared.has_default and version < FIRST_VERSION_WITH_DEFAULTS:
            where, what, needed = column_field(declared.path), "a default", FIRST_VERSION_WITH_DEFAULTS
        else:
            continue
        reason = f"{what} needs format version {needed}, and the table has {version}"
        yield Refusal(RefusalKind.FORMAT_TOO_OLD, where, reason, f"Declare formatVersion: {needed}, or do without it")


def _problems(declaration: TableDeclaration) -> Iterator[Refusal]:
    if len(declaration.identifier) < 2 or not all(declaration.identifier):
        reason = "a table's identifier is its namespace and its name, none of them empty"
        yield _invalid("identifier", reason, "Give both")
    for key in sorted(RESERVED_PROPERTIES & declaration.properties.keys()):
        reason = "Iceberg reserves this name for what the table's metadata itself says"
        yield _invalid(f"properties[{key}]", reason, "Remove it; the format version is declared as formatVersion")
    if declaration.location is not None and not declaration.location.strip("/"):
        yield _invalid("location", "the location is empty", "Give a location of the table's own, or none")
    in_columns = tuple(column_problems(declaration.columns))
    yield from in_columns
    if not declaration.columns:
        return
    if declaration.format_version is not None:
        yield from format_problems(declaration, declaration.format_version)
    # Of a column that is wrong in itself it cannot be said whether it can be referred to; of the others it can.
    wrong = {column.name for column in declaration.columns if any(_is_about(each, column.name) for each in in_columns)}
    right = tuple(declared for declared in declaration.fields if declared.name not in wrong)
    schema = Schema(*_new_fields(right))
    for problem in (*_identifier_problems(declaration, schema), *_layout_problems(declaration, schema)):
        if not any(_names(problem, column) for column in wrong):
            yield problem


def _is_about(problem: Refusal, column: str) -> bool:
    return _names(problem, column) or repr(column) in problem.reason


def _names(problem: Refusal, column: str) -> bool:
    """Whether its field is this column, or one inside it."""
    return f"[{column}]" in problem.field or f"[{column}." in problem.field


def _new_fields(fields: Sequence[DeclaredField]) -> tuple[NestedField, ...]:
    ids = count(1)
    return with_new_ids(fields, lambda: next(ids))


def _identifier_problems(declaration: TableDeclaration, schema: Schema) -> Iterator[Refusal]:
    for name in declaration.identifier_columns or ():
        where = f"schema.identifierColumns[{name}]"
        column = _find(schema, name)
        if column is None:
            yield _no_column(where, name, schema)
        elif not isinstance(column.field_type, PrimitiveType) or isinstance(column.field_type, (FloatType, DoubleType)):
            reason = f"{name!r} is of type {type_text(column.field_type)}, which identifies no row"
            yield _invalid(where, reason, "Use columns of a primitive type other than float and double")
        elif not column.required:
            reason = f"{name!r} is optional, and a null identifies no row"
            yield _invalid(where, reason, f"Declare {name!r} as required, or leave it out")
        elif any(not parent.required or not parent.field_type.is_struct for parent in _parents(schema, column)):
            reason = f"{name!r} is inside a list, a map or an optional struct"
            yield _invalid(where, reason, "Use columns whose every parent is a required struct")


def _layout_problems(declaration: TableDeclaration, schema: Schema) -> Iterator[Refusal]:
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for partition in declaration.partitioning or ():
        where = f"partitioning[{partition.column}]"
        yield from _source_problems(schema, where, partition.column, partition.transform)
        if (partition.column, str(partition.transform)) in seen:
            yield _invalid(where, f"{partition.transform} of this column is there twice", "Keep one of the two")
        seen.add((partition.column, str(partition.transform)))
        if partition.name is not None:
            source, namesake = _find(schema, partition.column), _find(schema, partition.name)
            identity_of_itself = isinstance(partition.transform, IdentityTransform) and namesake == source
            if not partition.name or partition.name in names:
                yield _invalid(where, f"the name {partition.name!r} is empty or used twice", "Give another name")
            elif namesake is not None and not identity_of_itself:
                yield _invalid(where, f"{partition.name!r} is the name of a column", "Give the partition field another")
            names.add(partition.name)
    for key in declaration.sort_order or ():
        yield from _source_problems(schema, f"layout.order.columns[{key.column}]", key.column, key.transform)


def _source_problems(schema: Schema, where: str, name: str, transform: Transform[Any, Any]) -> Iterator[Refusal]:
    column = _find(schema, name)
    if column is None:
        yield _no_column(where, name, schema)
    elif any(not parent.field_type.is_struct for parent in _parents(schema, column)):
        yield _invalid(where, f"{name!r} is inside a list or a map", "Use a column outside lists and maps")
    elif not column.field_type.is_primitive or not transform.can_transform(column.field_type):
        reason = f"{transform} does not apply to {name!r}, which is of type {type_text(column.field_type)}"
        yield _invalid(where, reason, "Use a transform for that type, or another column")


def _parents(schema: Schema, column: NestedField) -> Iterator[NestedField]:
    parents = schema._lazy_id_to_parent  # PyIceberg's own index, which its checks of specs use too
    above = parents.get(column.field_id)
    while above is not None:
        yield schema.find_field(above)
        above = parents.get(above)


def _find(schema: Schema, name: str) -> NestedField | None:
    try:
        return schema.find_field(name)
    except ValueError:
        return None


def _no_column(where: str, name: str, schema: Schema) -> Refusal:
    near = nearest(name, schema.column_names)
    return _invalid(
        where, f"there is no column {name!r}", f"Did you mean {near!r}?" if near else "Name a declared column"
    )


def _invalid(where: str, reason: str, remedy: str) -> Refusal:
    return Refusal(RefusalKind.INVALID_DECLARATION, where, reason, remedy)
