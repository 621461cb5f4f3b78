"""Declared columns against the table's, by column id: what becomes of each field, at any depth, or why it may not.

A declared field is the table's field of the same name, or else the one field of a previous name; anything else is new
and gets an id above every id that was ever given. Position never decides. Where two readings are possible, one of
which would show a column's values under another column's name, the answer is a refusal and not a guess.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.conversions import to_json
from pyiceberg.table.name_mapping import MappedField, NameMapping, update_mapping
from pyiceberg.types import (
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
)

from tableformat.declaration.changes import (
    AddColumn,
    Change,
    ChangeDoc,
    ChangeRequired,
    ChangeWriteDefault,
    DropColumn,
    RenameColumn,
    ReorderColumns,
    WidenColumn,
)
from tableformat.declaration.columns import DeclaredField, default_value, nested_field, rebuilt_type, with_new_ids
from tableformat.declaration.refusals import Refusal, RefusalKind, column_field
from tableformat.grammar import type_text

_TOP_LEVEL = -1  # how PyIceberg's name mapping calls the parent of a column


@dataclass(frozen=True)
class SchemaFacts:
    """What of the table, besides its fields, decides what may become of them."""

    new_id: Callable[[], int]
    removable: Container[str]
    has_data: bool
    uses: Callable[[int], str | None]
    """What uses the field of this id, in words, if anything does."""
    name_mapping: NameMapping | None


@dataclass
class SchemaComparison:
    """The outcome. `fields` is the table's next schema, and meaningless while there are refusals."""

    facts: SchemaFacts
    fields: tuple[NestedField, ...] = ()
    changes: list[Change] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    relies_on_emptiness: bool = False
    _renamed: dict[int, NestedField] = field(default_factory=dict)
    _added: dict[int, list[NestedField]] = field(default_factory=dict)

    def next_name_mapping(self) -> NameMapping | None:
        """The mapping by which files without ids are read, with the new names; None if it stays as it is."""
        if self.facts.name_mapping is None or not (self._renamed or self._added):
            return None
        return update_mapping(self.facts.name_mapping, self._renamed, self._added)

    def _refuse(
        self,
        kind: RefusalKind,
        where: str,
        reason: str,
        remedy: str,
        *,
        declared: str | None = None,
        found: str | None = None,
    ) -> None:
        self.refusals.append(Refusal(kind, where, reason, remedy, declared, found))


def compare_schemas(
    declared: Sequence[DeclaredField], current: Sequence[NestedField], facts: SchemaFacts
) -> SchemaComparison:
    comparison = SchemaComparison(facts)
    mapped = None if facts.name_mapping is None else facts.name_mapping.root
    comparison.fields = _struct(comparison, (), _TOP_LEVEL, declared, current, mapped)
    return comparison


def _struct(
    comparison: SchemaComparison,
    path: tuple[str, ...],
    struct_id: int,
    declared: Sequence[DeclaredField],
    current: Sequence[NestedField],
    mapped: Sequence[MappedField] | None,
) -> tuple[NestedField, ...]:
    partners = _partners(comparison, declared, current)
    if partners is None:
        return tuple(current)
    fresh = [wanted for wanted, partner in zip(declared, partners, strict=True) if partner is None]
    fresh_ids = [comparison.facts.new_id() for _ in fresh]
    fields: list[NestedField] = []
    for wanted, partner in zip(declared, partners, strict=True):
        if partner is None:
            new_id = fresh_ids.pop(0)
            added = _add(comparison, wanted, new_id, mapped)
            comparison._added.setdefault(struct_id, []).append(added)
            fields.append(added)
        else:
            fields.append(_existing(comparison, wanted, partner, mapped))
    kept = {partner.field_id for partner in partners if partner is not None}
    for gone in current:
        if gone.field_id not in kept:
            _drop(comparison, (*path, gone.name), gone)
    before = [existing.field_id for existing in current if existing.field_id in kept]
    after = [existing.field_id for existing in fields if existing.field_id in kept]
    if before != after:
        names = {existing.field_id: existing.name for existing in fields}
        old = tuple(names[field_id] for field_id in before)
        comparison.changes.append(ReorderColumns(path, old, tuple(names[field_id] for field_id in after)))
    return tuple(fields)


def _partners(
    comparison: SchemaComparison, declared: Sequence[DeclaredField], current: Sequence[NestedField]
) -> list[NestedField | None] | None:
    """The table's field for each declared one (None: it is new), or None if the names leave it open."""
    by_name = {existing.name: existing for existing in current}
    declared_names = {wanted.name for wanted in declared}
    partners: list[NestedField | None] = []
    problems = len(comparison.refusals)
    for wanted in declared:
        where = column_field(wanted.path, "previousNames")
        same = by_name.get(wanted.name)
        former = [name for name in wanted.previous_names if name in by_name]
        contested = [name for name in former if name in declared_names]
        if same is not None:
            former = [name for name in former if name not in declared_names]
            if former:
                reason = f"the table has both {wanted.name!r} and its previous name {former[0]!r}"
                remedy = "Move the values into one of the two, drop the other, then declare the one that is left"
                comparison._refuse(RefusalKind.AMBIGUOUS_NAME, where, reason, remedy)
            partners.append(same)
        elif contested:
            reason = (
                f"the table's {contested[0]!r} could be this column under its previous name or the declared column "
                f"{contested[0]!r} itself: the name would bring old values back"
            )
            remedy = f"Apply the rename first, and declare the new column {contested[0]!r} afterwards"
            comparison._refuse(RefusalKind.AMBIGUOUS_NAME, where, reason, remedy)
            partners.append(None)
        elif len(former) > 1:
            reason = f"the table has several of its previous names: {', '.join(map(repr, former))}"
            comparison._refuse(RefusalKind.AMBIGUOUS_NAME, where, reason, "Keep the one whose values the column holds")
            partners.append(None)
        else:
            partners.append(by_name[former[0]] if former else None)
    taken = {partner.name for partner in partners if partner is not None}
    for wanted, partner in zip(declared, partners, strict=True):
        twin = next((name for name in by_name if name not in taken and name.lower() == wanted.name.lower()), None)
        if twin is not None and partner is None and twin != wanted.name:
            reason = f"the table has {twin!r}, which engines that ignore case take for the same column"
            remedy = f"Write {twin!r}, or add it to the column's previousNames to rename it"
            where = column_field(wanted.path, "name")
            comparison._refuse(RefusalKind.AMBIGUOUS_NAME, where, reason, remedy, declared=wanted.name, found=twin)
    return partners if len(comparison.refusals) == problems else None


def _add(
    comparison: SchemaComparison, wanted: DeclaredField, new_id: int, mapped: Sequence[MappedField] | None
) -> NestedField:
    children = with_new_ids(wanted.children, comparison.facts.new_id)
    added = nested_field(wanted, new_id, rebuilt_type(wanted.type, children))
    _check_name_mapping(comparison, wanted, None, mapped)
    if wanted.required and wanted.initial_default is None:
        comparison.relies_on_emptiness = True
        if comparison.facts.has_data:
            comparison._refuse(
                RefusalKind.REQUIRED_COLUMN,
                column_field(wanted.path, "required"),
                "the rows that are there have no value for a new required column",
                "Declare it optional, or give it an initialDefault (format version 3)",
                declared="required",
            )
            return added
    default = None if wanted.initial_default is None else str(wanted.initial_default)
    comparison.changes.append(AddColumn(wanted.path, type_text(wanted.type), wanted.required, default))
    return added


def _drop(comparison: SchemaComparison, path: tuple[str, ...], gone: NestedField) -> None:
    where, found = column_field(path), type_text(gone.field_type)
    users = [user for user in map(comparison.facts.uses, _ids_in(gone)) if user is not None]
    name = ".".join(path)
    if name not in comparison.facts.removable:
        comparison._refuse(
            RefusalKind.REMOVED_COLUMN,
            where,
            "the table has this column and the declaration does not",
            f"Declare it, name it in a column's previousNames, or drop it by listing {name} in schema.removedColumns",
            found=found,
        )
    elif users:
        comparison._refuse(
            RefusalKind.COLUMN_IN_USE,
            where,
            f"the column cannot be dropped while {users[0]} uses it",
            "Declare the column; files and settings that use it need it",
            found=found,
        )
    else:
        comparison.changes.append(DropColumn(path, found))


def _existing(
    comparison: SchemaComparison, wanted: DeclaredField, existing: NestedField, mapped: Sequence[MappedField] | None
) -> NestedField:
    if wanted.name != existing.name:
        _check_name_mapping(comparison, wanted, existing.field_id, mapped)
        comparison.changes.append(RenameColumn(wanted.path, existing.name))
    inner = None if mapped is None else _mapped_below(mapped, existing.field_id)
    field_type = _type(comparison, wanted, existing, inner)
    result = NestedField(
        existing.field_id,
        wanted.name,
        field_type,
        required=_required(comparison, wanted, existing),
        doc=_doc(comparison, wanted, existing),
        initial_default=existing.initial_default,
        write_default=_write_default(comparison, wanted, existing, field_type),
    )
    if wanted.name != existing.name:
        comparison._renamed[existing.field_id] = result
    return result


def _type(
    comparison: SchemaComparison, wanted: DeclaredField, existing: NestedField, mapped: Sequence[MappedField] | None
) -> IcebergType:
    now, declared = existing.field_type, wanted.type
    if isinstance(now, StructType) and isinstance(declared, StructType):
        inner = _struct(comparison, wanted.path, existing.field_id, wanted.children, now.fields, mapped)
        return StructType(*inner)
    if isinstance(now, ListType) and isinstance(declared, ListType):
        (element,) = wanted.children
        return rebuilt_type(now, (_existing(comparison, element, now.element_field, mapped),))
    if isinstance(now, MapType) and isinstance(declared, MapType):
        key, value = wanted.children
        if type_text(now.key_type) != type_text(declared.key_type):
            comparison._refuse(
                RefusalKind.MAP_KEY,
                column_field(key.path, "type"),
                "the keys of a map can never change: rows that are there would not be found by them",
                "Keep the key as it is, or add a new column",
                declared=type_text(declared.key_type),
                found=type_text(now.key_type),
            )
        return rebuilt_type(now, (now.key_field, _existing(comparison, value, now.value_field, mapped)))
    if now == declared:
        return now
    if widens(now, declared):
        comparison.changes.append(WidenColumn(wanted.path, str(now), str(declared)))
        return declared
    narrower = widens(declared, now)
    comparison._refuse(
        RefusalKind.TYPE_CHANGE,
        column_field(wanted.path, "type"),
        f"{type_text(now)} cannot become {type_text(declared)}"
        + (", which is narrower: values that are there might not fit" if narrower else ""),
        "Keep the type, or add a new column of the new type and move the values"
        + ("" if narrower else " (only int to long, float to double and more decimal digits are possible)"),
        declared=type_text(declared),
        found=type_text(now),
    )
    return now


def widens(now: IcebergType, wanted: IcebergType) -> bool:
    """Whether every value of the one type is exactly a value of the other, as all engines read it."""
    match now, wanted:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case (DecimalType(), DecimalType()):
            return now.scale == wanted.scale and now.precision < wanted.precision
    return False


def _required(comparison: SchemaComparison, wanted: DeclaredField, existing: NestedField) -> bool:
    if wanted.required == existing.required:
        return existing.required
    where = column_field(wanted.path, "required")
    if wanted.required:
        comparison.relies_on_emptiness = True
        if comparison.facts.has_data:
            comparison._refuse(
                RefusalKind.REQUIRED_COLUMN,
                where,
                "the column may hold nulls in the rows that are there",
                "Leave it optional, or copy the rows into a new table where it is required",
                declared="true",
                found="false",
            )
            return existing.required
    comparison.changes.append(ChangeRequired(wanted.path, wanted.required))
    return wanted.required


def _doc(comparison: SchemaComparison, wanted: DeclaredField, existing: NestedField) -> str | None:
    if wanted.doc is None or wanted.doc == (existing.doc or ""):
        return existing.doc
    comparison.changes.append(ChangeDoc(wanted.path, existing.doc, wanted.doc or None))
    return wanted.doc or None


def _write_default(
    comparison: SchemaComparison, wanted: DeclaredField, existing: NestedField, field_type: IcebergType
) -> Any:
    found = _default_text(existing.field_type, existing.initial_default)
    if wanted.initial_default is not None:
        initial = _default_or_none(field_type, wanted.initial_default)
        if initial is not None and initial != existing.initial_default:
            comparison._refuse(
                RefusalKind.IMMUTABLE_FIELD,
                column_field(wanted.path, "initialDefault"),
                "the initial default is fixed when a column is added: another would change the rows that are there",
                "Keep it, and change the writeDefault for new rows",
                declared=str(wanted.initial_default),
                found=found,
            )
    declared = wanted.effective_write_default
    value = _default_or_none(field_type, declared)
    if declared is None or value is None or value == existing.write_default:
        return existing.write_default
    old = _default_text(existing.field_type, existing.write_default)
    comparison.changes.append(ChangeWriteDefault(wanted.path, old, str(declared)))
    return value


def _default_or_none(field_type: IcebergType, declared: bool | int | float | str | None) -> Any:
    try:
        return default_value(field_type, declared)
    except ValueError:  # the declared type, which it fits, was refused already
        return None


def _default_text(field_type: IcebergType, value: object) -> str | None:
    return None if value is None or not isinstance(field_type, PrimitiveType) else str(to_json(field_type, value))


def _check_name_mapping(
    comparison: SchemaComparison,
    wanted: DeclaredField,
    own_id: int | None,
    mapped: Sequence[MappedField] | None,
) -> None:
    """Files without ids are read by name: a name that another column had would show that column's old values."""
    for other in mapped or ():
        if wanted.name in other.names and other.field_id is not None and other.field_id != own_id:
            comparison._refuse(
                RefusalKind.AMBIGUOUS_NAME,
                column_field(wanted.path, "name"),
                f"another column was named {wanted.name!r}, and files without column ids are read by that name "
                "(schema.name-mapping.default): the name would bring old values back",
                "Choose a name that the table has never had",
            )


def _mapped_below(mapped: Sequence[MappedField], field_id: int) -> Sequence[MappedField]:
    return next((other.fields for other in mapped if other.field_id == field_id), ())


def _ids_in(existing: NestedField) -> Iterator[int]:
    yield existing.field_id
    field_type = existing.field_type
    if isinstance(field_type, StructType):
        for inner in field_type.fields:
            yield from _ids_in(inner)
    elif isinstance(field_type, ListType):
        yield from _ids_in(field_type.element_field)
    elif isinstance(field_type, MapType):
        yield from _ids_in(field_type.key_field)
        yield from _ids_in(field_type.value_field)
