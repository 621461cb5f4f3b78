"""Random types, declarations and edits of declarations, as Hypothesis strategies."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableformat.declaration import Column, NestedAttributes

names = st.text(alphabet="abcdefgh_xyz `.ü9", min_size=1, max_size=6)

primitives: st.SearchStrategy[IcebergType] = st.one_of(
    st.sampled_from(
        [
            BooleanType(),
            IntegerType(),
            LongType(),
            FloatType(),
            DoubleType(),
            DateType(),
            TimeType(),
            TimestampType(),
            TimestamptzType(),
            StringType(),
            UUIDType(),
            BinaryType(),
        ]
    ),
    st.integers(1, 38).flatmap(lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))),
    st.builds(FixedType, st.integers(1, 20)),
)


def iceberg_types(field_names: st.SearchStrategy[str] = names) -> st.SearchStrategy[IcebergType]:
    """Types of any shape, with the id 0 in every nested place, as the grammar gives them."""

    def nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
        fields = st.lists(
            st.builds(NestedField, st.just(0), field_names, inner, st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=lambda field: field.name.lower(),
        )
        return st.one_of(
            st.builds(ListType, st.just(0), inner, st.booleans()),
            st.builds(MapType, st.just(0), primitives, st.just(0), inner, st.booleans()),
            fields.map(lambda chosen: StructType(*chosen)),
        )

    return st.recursive(primitives, nested, max_leaves=5)


@dataclass(frozen=True)
class Edit:
    """A declaration that follows another, and which old column each of its columns is meant to be."""

    columns: tuple[Column, ...]
    kept: dict[tuple[str, ...], tuple[str, ...]]
    """By the new path, the old path."""


_few_names = st.sampled_from(["a", "b", "c", "d", "e", "f"])


def declared_columns() -> st.SearchStrategy[tuple[Column, ...]]:
    return st.lists(
        st.builds(Column, _few_names, iceberg_types(_few_names), st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda column: column.name,
    ).map(tuple)


@st.composite
def edits(draw: st.DrawFn, columns: tuple[Column, ...]) -> Edit:
    """Keeps, renames, drops, widens, loosens, adds and moves fields at every depth."""
    kept: dict[tuple[str, ...], tuple[str, ...]] = {}
    previous: dict[tuple[str, ...], str] = {}
    fields = [NestedField(0, column.name, column.type, column.required) for column in columns]
    after = _edit_fields(draw, fields, (), (), kept, previous)
    return Edit(
        tuple(
            Column(
                field.name,
                field.field_type,
                field.required,
                previous_names=(previous[(field.name,)],) if (field.name,) in previous else (),
                nested=tuple(
                    NestedAttributes(path[1:], previous_names=(name,))
                    for path, name in previous.items()
                    if path[0] == field.name and len(path) > 1
                ),
            )
            for field in after
        ),
        kept,
    )


def _edit_fields(
    draw: st.DrawFn,
    fields: Sequence[NestedField],
    old_path: tuple[str, ...],
    new_path: tuple[str, ...],
    kept: dict[tuple[str, ...], tuple[str, ...]],
    previous: dict[tuple[str, ...], str],
) -> list[NestedField]:
    after: list[NestedField] = []
    taken: set[str] = set()
    dropped: set[str] = set()
    for field in fields:
        action = draw(st.sampled_from(["keep", "keep", "keep", "rename", "drop"]))
        name = draw(_few_names) if action == "rename" else field.name
        if action == "drop" or name in taken:
            dropped.add(field.name)
            continue
        taken.add(name)
        old, new = (*old_path, field.name), (*new_path, name)
        kept[new] = old
        if name != field.name:
            previous[new] = field.name
        field_type = _edit_type(draw, field.field_type, old, new, kept, previous)
        required = field.required and draw(st.booleans())
        after.append(NestedField(0, name, field_type, required))
    for name in draw(st.lists(_few_names, max_size=2, unique=True)):
        if name not in taken | dropped:  # a dropped column of that name, declared again, is the same column
            taken.add(name)
            after.append(NestedField(0, name, draw(iceberg_types(_few_names)), draw(st.booleans())))
    if not after:
        fresh = next(name for name in "abcdefg" if name not in dropped)
        after.append(NestedField(0, fresh, StringType(), required=False))
    return draw(st.permutations(after))


def _edit_type(
    draw: st.DrawFn,
    field_type: IcebergType,
    old: tuple[str, ...],
    new: tuple[str, ...],
    kept: dict[tuple[str, ...], tuple[str, ...]],
    previous: dict[tuple[str, ...], str],
) -> IcebergType:
    def inside(name: str, inner: IcebergType) -> IcebergType:
        kept[(*new, name)] = (*old, name)
        return _edit_type(draw, inner, (*old, name), (*new, name), kept, previous)

    if isinstance(field_type, StructType):
        return StructType(*_edit_fields(draw, field_type.fields, old, new, kept, previous))
    if isinstance(field_type, ListType):
        required = field_type.element_required and draw(st.booleans())
        return ListType(0, inside("element", field_type.element_type), required)
    if isinstance(field_type, MapType):
        required = field_type.value_required and draw(st.booleans())
        kept[(*new, "key")] = (*old, "key")
        return MapType(0, field_type.key_type, 0, inside("value", field_type.value_type), required)
    if isinstance(field_type, IntegerType) and draw(st.booleans()):
        return LongType()
    if isinstance(field_type, FloatType) and draw(st.booleans()):
        return DoubleType()
    if isinstance(field_type, DecimalType):
        return DecimalType(draw(st.integers(field_type.precision, 38)), field_type.scale)
    return field_type
