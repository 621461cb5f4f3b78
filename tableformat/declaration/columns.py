"""Declared columns, and the trees of fields that they stand for.

A column's type comes from text, which has no ids and no words for doc, previous names and defaults of fields inside
it; `Column.nested` gives those by path. `DeclaredField` joins the two into one tree, the only form that the difference
and the creation work on. Defaults are in Iceberg's JSON form, as YAML holds them: a date is "2026-01-31".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from pyiceberg.conversions import from_json
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
)

from tableformat.declaration.refusals import Refusal, RefusalKind, column_field

DefaultValue = bool | int | float | str


@dataclass(frozen=True)
class NestedAttributes:
    """What a type's text cannot say of a field inside a column. `path` begins below the column: `element`, `sku`."""

    path: tuple[str, ...]
    doc: str | None = None
    previous_names: tuple[str, ...] = ()
    initial_default: DefaultValue | None = None
    write_default: DefaultValue | None = None


@dataclass(frozen=True)
class Column:
    """One column. Without a write default of its own, new rows get the initial default."""

    name: str
    type: IcebergType
    required: bool = False
    doc: str | None = None
    previous_names: tuple[str, ...] = ()
    initial_default: DefaultValue | None = None
    write_default: DefaultValue | None = None
    nested: tuple[NestedAttributes, ...] = ()


@dataclass(frozen=True)
class DeclaredField:
    """A column or a field inside one, with everything that is declared of it."""

    path: tuple[str, ...]
    type: IcebergType
    required: bool
    doc: str | None
    previous_names: tuple[str, ...]
    initial_default: DefaultValue | None
    write_default: DefaultValue | None
    children: tuple["DeclaredField", ...]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def effective_write_default(self) -> DefaultValue | None:
        return self.initial_default if self.write_default is None else self.write_default

    @property
    def has_default(self) -> bool:
        return self.initial_default is not None or self.write_default is not None


def field_trees(columns: Iterable[Column]) -> tuple[DeclaredField, ...]:
    return tuple(_tree_of_column(column) for column in columns)


def walk(fields: Iterable[DeclaredField]) -> Iterator[DeclaredField]:
    """Every field, parents first."""
    for declared in fields:
        yield declared
        yield from walk(declared.children)


def with_new_ids(fields: Sequence[DeclaredField], new_id: Callable[[], int]) -> tuple[NestedField, ...]:
    """The fields as PyIceberg's, with fresh ids, level by level as every Iceberg implementation gives them."""
    ids = [new_id() for _ in fields]
    return tuple(
        nested_field(declared, field_id, _type_with_new_ids(declared, new_id))
        for declared, field_id in zip(fields, ids, strict=True)
    )


def nested_field(declared: DeclaredField, field_id: int, field_type: IcebergType) -> NestedField:
    return NestedField(
        field_id,
        declared.name,
        field_type,
        required=declared.required,
        doc=declared.doc,
        initial_default=default_value(field_type, declared.initial_default),
        write_default=default_value(field_type, declared.effective_write_default),
    )


def default_value(field_type: IcebergType, declared: DefaultValue | None) -> Any:
    """The Python value of a default in JSON form; ValueError, with the reason, if the type has no such value."""
    if declared is None:
        return None
    if not isinstance(field_type, PrimitiveType) or isinstance(field_type, UnknownType):
        raise ValueError(f"a {_type_word(field_type)} has no default other than null")
    if not _has_json_form(field_type, declared):
        hint = '; quote it, as in "12.50"' if isinstance(field_type, DecimalType) else ""
        raise ValueError(f"{declared!r} is no {field_type}{hint}")
    if isinstance(field_type, (FloatType, DoubleType)):
        return float(declared)
    if isinstance(field_type, DecimalType):
        return _decimal(field_type, str(declared))
    try:
        return from_json(field_type, declared)
    except (TypeError, NotImplementedError):
        raise ValueError(f"defaults of type {field_type} are not supported") from None
    except Exception as error:  # PyIceberg's parsers raise a different error for each type
        raise ValueError(f"{declared!r} is no {field_type}: {error}") from None


def _has_json_form(field_type: PrimitiveType, declared: DefaultValue) -> bool:
    match field_type:
        case BooleanType():
            return isinstance(declared, bool)
        case IntegerType() | LongType():
            whole = isinstance(declared, int) and not isinstance(declared, bool)
            return whole and field_type.min <= declared <= field_type.max  # type: ignore[operator]
        case FloatType() | DoubleType():
            return isinstance(declared, (int, float)) and not isinstance(declared, bool)
    return isinstance(declared, str)


def _decimal(field_type: DecimalType, declared: str) -> Decimal:
    try:
        value = Decimal(declared)
    except InvalidOperation:
        raise ValueError(f"{declared!r} is no {field_type}") from None
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent != field_type.scale:
        raise ValueError(f"{declared!r} must have exactly {field_type.scale} digits after the point")
    if len(digits) > field_type.precision:
        raise ValueError(f"{declared!r} has more than {field_type.precision} digits")
    return value


def column_problems(columns: Sequence[Column]) -> Iterator[Refusal]:
    """What is wrong with the columns in themselves: names, previous names, nested attributes, defaults."""
    for column in columns:
        known = {declared.path[1:] for declared in _describable(_tree_of_column(column))}
        given = [attributes.path for attributes in column.nested]
        for path in given:
            where = column_field((column.name, *path))
            if path not in known:
                reason = "the column's type has no struct with such a field"
                yield _invalid(where, reason, "Name a field of a struct, level by level (lists: element, maps: value)")
            elif given.count(path) > 1:
                yield _invalid(where, "the field is described twice", "Keep one of the descriptions")
    trees = field_trees(columns)
    yield from _sibling_problems(trees)
    full_names: dict[str, tuple[str, ...]] = {}
    for declared in walk(trees):
        other = full_names.setdefault(".".join(declared.path), declared.path)
        if other != declared.path:
            reason = f"its full name is also that of {' inside '.join(map(repr, reversed(other)))}"
            yield _invalid(column_field(declared.path, "name"), reason, "Use no dots in names, or another name")
        yield from _sibling_problems(declared.children)
        yield from _default_problems(declared)
        if isinstance(declared.type, UnknownType) and declared.required:
            where = column_field(declared.path, "required")
            yield _invalid(where, "a column of type unknown holds nothing but nulls", "Make it optional")


def _describable(declared: DeclaredField) -> Iterator[DeclaredField]:
    """The fields of structs inside: elements, keys and values have no names of their own, and keys never change."""
    for inner in declared.children:
        if isinstance(declared.type, StructType):
            yield inner
        if not (isinstance(declared.type, MapType) and inner.name == "key"):
            yield from _describable(inner)


def _sibling_problems(siblings: Sequence[DeclaredField]) -> Iterator[Refusal]:
    names: dict[str, str] = {}
    claims: dict[str, str] = {}
    seen = Counter[str]()
    for declared in siblings:
        where, nth = column_field(declared.path, "name"), seen[declared.name]
        seen[declared.name] += 1
        if not declared.name:
            yield _invalid(where, "the name is empty", "Give the column a name")
        elif declared.name.lower() in names:
            taken = names[declared.name.lower()]
            reason = f"there is a column {taken!r} already, and engines ignore case"
            yield replace(_invalid(where, reason, "Give one of the two another name"), nth=nth)
        names[declared.name.lower()] = declared.name
    for declared in siblings:
        for previous in declared.previous_names:
            where = column_field(declared.path, f"previousNames[{previous}]")
            if previous == declared.name:
                yield _invalid(where, f"{previous!r} is the column's present name", "Remove it from the previous names")
            elif previous in claims:
                reason = f"{claims[previous]!r} claims the previous name {previous!r} too"
                yield _invalid(where, reason, "Keep the name at the column that holds its values")
            claims[previous] = declared.name
    yield from _circles(siblings, claims)


def _circles(siblings: Sequence[DeclaredField], claims: Mapping[str, str]) -> Iterator[Refusal]:
    """Columns that swap their names: a table that has them all looks the same before the swap and after it."""
    settled: set[str] = set()
    for declared in siblings:
        way = [declared.name]
        while way[-1] in claims and way[-1] not in way[:-1]:
            way.append(claims[way[-1]])
        if way[-1] == declared.name and len(way) > 2 and not settled & set(way):
            settled |= set(way)
            where = column_field(declared.path, "previousNames")
            reason = f"columns pass their names on in a circle: {', '.join(map(repr, way))}"
            remedy = "Rename one of them to a new name first; keep no previous name that another column has now"
            yield _invalid(where, reason, remedy)


def _default_problems(declared: DeclaredField) -> Iterator[Refusal]:
    for attribute, value in (("initialDefault", declared.initial_default), ("writeDefault", declared.write_default)):
        where = column_field(declared.path, attribute)
        try:
            default_value(declared.type, value)
        except ValueError as error:
            yield _invalid(
                where, str(error), f"Give a value of type {_type_word(declared.type)} in Iceberg's JSON form"
            )


def _tree_of_column(column: Column) -> DeclaredField:
    attributes = {nested.path: nested for nested in column.nested}

    def tree(path: tuple[str, ...], field_type: IcebergType, required: bool) -> DeclaredField:
        own = attributes.get(path[1:], NestedAttributes(path[1:]))
        return DeclaredField(
            path=path,
            type=field_type,
            required=required,
            doc=own.doc,
            previous_names=own.previous_names,
            initial_default=own.initial_default,
            write_default=own.write_default,
            children=children(path, field_type),
        )

    def children(path: tuple[str, ...], field_type: IcebergType) -> tuple[DeclaredField, ...]:
        return tuple(tree((*path, name), child, required) for name, child, required in parts_of(field_type))

    return DeclaredField(
        path=(column.name,),
        type=column.type,
        required=column.required,
        doc=column.doc,
        previous_names=column.previous_names,
        initial_default=column.initial_default,
        write_default=column.write_default,
        children=children((column.name,), column.type),
    )


def parts_of(field_type: IcebergType) -> tuple[tuple[str, IcebergType, bool], ...]:
    """The fields directly inside a type: name, type, required."""
    if isinstance(field_type, StructType):
        return tuple((inner.name, inner.field_type, inner.required) for inner in field_type.fields)
    if isinstance(field_type, ListType):
        return (("element", field_type.element_type, field_type.element_required),)
    if isinstance(field_type, MapType):
        return (("key", field_type.key_type, True), ("value", field_type.value_type, field_type.value_required))
    return ()


def _type_with_new_ids(declared: DeclaredField, new_id: Callable[[], int]) -> IcebergType:
    return rebuilt_type(declared.type, with_new_ids(declared.children, new_id))


def rebuilt_type(shape: IcebergType, children: Sequence[NestedField]) -> IcebergType:
    """A type of the same shape around these fields."""
    if isinstance(shape, StructType):
        return StructType(*children)
    if isinstance(shape, ListType):
        (element,) = children
        return ListType(element.field_id, element.field_type, element.required)
    if isinstance(shape, MapType):
        key, value = children
        return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
    return shape


def _type_word(field_type: IcebergType) -> str:
    return str(field_type) if isinstance(field_type, PrimitiveType) else str(field_type).partition("<")[0]


def _invalid(where: str, reason: str, remedy: str) -> Refusal:
    return Refusal(RefusalKind.INVALID_DECLARATION, where, reason, remedy)
