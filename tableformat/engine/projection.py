"""Brings a record batch of any older schema to the table's current one, by field id and without changing a value.

PyIceberg's own projection turns a null list or map of structs into an empty one, which is harmless to most readers but
would alter rows in a rewrite; this one keeps validity bitmaps as they are. A conversion happens only where Iceberg's
promotion rules allow one and it loses nothing; anything else is an error, never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BinaryType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from tableformat.engine.stored_types import VARIANT_PARTS, as_bytes
from tableformat.types_as_written import is_geospatial, is_variant

FIELD_ID = b"PARQUET:field_id"


class ProjectionError(Exception):
    """The batch cannot be brought to the schema without changing what it says; the caller adds the file's name."""


@dataclass(frozen=True)
class TargetSchema:
    """The schema that files are brought to, in both its forms: the second is costly to make for every file."""

    iceberg: Schema
    arrow: pa.Schema

    @classmethod
    def of(cls, schema: Schema) -> "TargetSchema":
        return cls(schema, arrow_schema(schema))


class Projection:
    """The way from one file's Arrow schema to the table's schema."""

    def __init__(
        self,
        target: TargetSchema,
        file_schema: pa.Schema,
        *,
        name_mapping: NameMapping | None,
        identity_values: Mapping[int, object],
    ) -> None:
        self._schema = target.iceberg
        self._target = target.arrow
        self._identity_values = identity_values
        source = _with_field_ids(file_schema, name_mapping)
        self.source_fields = list(source)
        """Of the file, with the ids by which they are found."""
        self._is_identity = _same(self.source_fields, list(self._target))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._is_identity:
            return pa.RecordBatch.from_arrays(batch.columns, schema=self._target)
        columns = _project_fields(
            self._schema.fields,
            list(self._target),
            self.source_fields,
            batch.columns,
            length=batch.num_rows,
            constants=self._identity_values,
        )
        _check_required(self._schema.fields, columns, None)
        return pa.RecordBatch.from_arrays(columns, schema=self._target)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The one Arrow form in which rows of this schema are handled and written: field ids, sanitized names."""
    return schema_to_pyarrow(sanitize_column_names(Schema(*as_bytes(schema.as_struct()).fields)))


def _with_field_ids(file_schema: pa.Schema, name_mapping: NameMapping | None) -> pa.Schema:
    if any(_has_field_id(field) for field in file_schema):
        return file_schema
    if name_mapping is None:
        raise ProjectionError("has no field ids, and the table has no name mapping (schema.name-mapping.default)")
    return pa.schema(_mapped_fields(list(file_schema), list(name_mapping)))


def _has_field_id(field: pa.Field) -> bool:
    if FIELD_ID in (field.metadata or {}):
        return True
    return any(_has_field_id(child) for child in children(field.type))


def children(arrow_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(arrow_type):
        return [arrow_type.key_field, arrow_type.item_field]
    if pa.types.is_struct(arrow_type):
        return [arrow_type.field(i) for i in range(arrow_type.num_fields)]
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return [arrow_type.value_field]
    return []


def _mapped_fields(fields: list[pa.Field], mapping: list[MappedField]) -> list[pa.Field]:
    """The fields with the ids that the name mapping gives them; a field without a mapping keeps none and is ignored."""
    return [_mapped_field(field, field.name, mapping) for field in fields]


def _mapped_field(field: pa.Field, name: str, mapping: list[MappedField]) -> pa.Field:
    found = next((mapped for mapped in mapping if name in mapped.names), None)
    if found is None:
        return field
    inner, arrow_type = list(found.fields), field.type
    if pa.types.is_struct(arrow_type):
        arrow_type = pa.struct(_mapped_fields(children(arrow_type), inner))
    elif pa.types.is_map(arrow_type):
        arrow_type = pa.map_(
            _mapped_field(arrow_type.key_field, "key", inner), _mapped_field(arrow_type.item_field, "value", inner)
        )
    elif pa.types.is_large_list(arrow_type):
        arrow_type = pa.large_list(_mapped_field(arrow_type.value_field, "element", inner))
    elif pa.types.is_list(arrow_type):
        arrow_type = pa.list_(_mapped_field(arrow_type.value_field, "element", inner))
    field = field.with_type(arrow_type)
    return field if found.field_id is None else field.with_metadata({FIELD_ID: str(found.field_id)})


def _field_id(field: pa.Field) -> int | None:
    raw = (field.metadata or {}).get(FIELD_ID)
    return None if raw is None else int(raw)


def _same(left: list[pa.Field], right: list[pa.Field]) -> bool:
    """Equal in types, names, order and field ids at every depth, and no null can be where none may: nothing to do."""
    return len(left) == len(right) and all(
        mine.name == other.name
        and _field_id(mine) == _field_id(other)
        and (other.nullable or not mine.nullable)
        and _same_type(mine.type, other.type)
        for mine, other in zip(left, right, strict=True)
    )


def _same_type(left: pa.DataType, right: pa.DataType) -> bool:
    left_children, right_children = children(left), children(right)
    if left_children or right_children:
        return left.id == right.id and _same(left_children, right_children)
    return bool(left == right)


def _project_fields(
    targets: tuple[NestedField, ...],
    target_fields: list[pa.Field],
    sources: list[pa.Field],
    arrays: list[pa.Array],
    *,
    length: int,
    constants: Mapping[int, object],
) -> list[pa.Array]:
    positions = {_field_id(source): position for position, source in enumerate(sources)}
    columns = []
    for target, target_field in zip(targets, target_fields, strict=True):
        position = positions.get(target.field_id)
        if position is None:
            columns.append(_absent(target, target_field.type, length, constants))
        else:
            column = _project(target.field_type, target_field.type, sources[position].type, arrays[position], target)
            columns.append(column)
    return columns


def _absent(target: NestedField, arrow_type: pa.DataType, length: int, constants: Mapping[int, object]) -> pa.Array:
    """A column that the file does not have: its partition's value, its default, or null, in Iceberg's order.

    A partition's null is a value like any other: Iceberg reads null there, whatever the default is.
    """
    value = constants.get(target.field_id, target.initial_default)
    if value is None:
        if target.required:
            raise ProjectionError(f"lacks the required column {target.name!r} (field {target.field_id})")
        return _nulls(arrow_type, length)
    return pa.repeat(pa.scalar(value, arrow_type), length)


def _nulls(arrow_type: pa.DataType, length: int) -> pa.Array:
    """Nulls alone. A Parquet writer refuses those that Arrow puts into the required fields of a null struct."""
    if pa.types.is_large_list(arrow_type) or pa.types.is_map(arrow_type):
        return _null_lists(arrow_type, length)
    if not pa.types.is_struct(arrow_type):
        return pa.nulls(length, arrow_type)
    columns = [_nulls(field.type, length) for field in arrow_type]
    columns = [
        column if field.nullable else _unmasked(column) for field, column in zip(arrow_type, columns, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=pa.repeat(True, length))


def _null_lists(arrow_type: pa.DataType, length: int) -> pa.Array:
    """As Arrow has them elsewhere: the children of its own nulls have buffers that are none of their type."""
    inner = [_nulls(field.type, 0) for field in children(arrow_type)]
    if pa.types.is_map(arrow_type):
        inner = [pa.StructArray.from_arrays(inner, fields=children(arrow_type))]
    validity = pa.py_buffer(bytes(-(-length // 8)))
    offsets = pa.py_buffer(np.zeros(length + 1, np.int32 if pa.types.is_map(arrow_type) else np.int64))
    return pa.Array.from_buffers(arrow_type, length, [validity, offsets], length, children=inner)


def _project(
    target: IcebergType, arrow_type: pa.DataType, source: pa.DataType, array: pa.Array, column: NestedField
) -> pa.Array:
    if isinstance(target, StructType):
        if not pa.types.is_struct(source):
            raise ProjectionError(f"column {column.name!r} is {source}, not a struct")
        inner = [array.field(i) for i in range(source.num_fields)]
        columns = _project_fields(
            target.fields, list(arrow_type), children(source), inner, length=len(array), constants={}
        )
        _check_required(target.fields, columns, array)
        columns = [
            _unmasked(column) if field.required and column.null_count else column
            for field, column in zip(target.fields, columns, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=mask)
    if isinstance(target, ListType):
        return _project_list(target, arrow_type, source, array)
    if isinstance(target, MapType):
        return _project_map(target, arrow_type, source, array)
    if is_variant(target):
        return _project_variant(arrow_type, source, array, column)
    return _convert(target, arrow_type, array, column)


def is_whole_variant(source: pa.DataType) -> bool:
    """Whether it is stored as it is written, and not shredded into columns of its own."""
    return pa.types.is_struct(source) and tuple(child.name for child in source) == VARIANT_PARTS


def _project_variant(arrow_type: pa.DataType, source: pa.DataType, array: pa.Array, column: NestedField) -> pa.Array:
    if not is_whole_variant(source):
        raise ProjectionError(f"column {column.name!r} is a shredded variant, which the kernel does not read")
    parts = [_convert(BinaryType(), field.type, array.field(place), column) for place, field in enumerate(arrow_type)]
    for name, part in zip(VARIANT_PARTS, parts, strict=True):
        if part.null_count and pc.any(pc.and_(part.is_null(), array.is_valid())).as_py():
            raise ProjectionError(f"column {column.name!r} has a variant without its {name}")
    parts = [_unmasked(part) if part.null_count else part for part in parts]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(arrow_type), mask=mask)


def _project_list(target: ListType, arrow_type: pa.DataType, source: pa.DataType, array: pa.Array) -> pa.Array:
    element = target.element_field
    if not (pa.types.is_list(source) or pa.types.is_large_list(source)):
        raise ProjectionError(f"field {element.field_id} is an element of {source}, not of a list")
    elements = _project(target.element_type, arrow_type.value_type, source.value_type, array.values, element)
    if target.element_required and elements.null_count and array.flatten().null_count:
        raise ProjectionError(f"a list has null elements (field {element.field_id}), which the schema forbids")
    return _nested(arrow_type, array, elements)


def _project_map(target: MapType, arrow_type: pa.DataType, source: pa.DataType, array: pa.Array) -> pa.Array:
    key, value = target.key_field, target.value_field
    if not pa.types.is_map(source):
        raise ProjectionError(f"field {key.field_id} is a key of {source}, not of a map")
    keys = _project(target.key_type, arrow_type.key_type, source.key_type, array.keys, key)
    values = _project(target.value_type, arrow_type.item_type, source.item_type, array.items, value)
    if keys.null_count:
        raise ProjectionError(f"a map has null keys (field {key.field_id})")
    if target.value_required and values.null_count:
        raise ProjectionError(f"a map has null values (field {value.field_id}), which the schema forbids")
    entries = pa.StructArray.from_arrays([keys, values], fields=[arrow_type.key_field, arrow_type.item_field])
    return _nested(arrow_type, array, entries)


def _nested(arrow_type: pa.DataType, array: pa.Array, values: pa.Array) -> pa.Array:
    """The list or map array with other children: its own validity and offsets stay, so a null stays a null."""
    validity, offsets = array.buffers()[:2]
    if pa.types.is_list(array.type):
        # Not by a cast, which refuses null structs that have required fields.
        offsets = pa.py_buffer(np.frombuffer(offsets or b"", np.int32).astype(np.int64))
    return pa.Array.from_buffers(
        arrow_type, len(array), [validity, offsets], array.null_count, array.offset, children=[values]
    )


def _unmasked(array: pa.Array) -> pa.Array:
    """The array as if it had no nulls, for a required part of a struct that is itself null wherever its part is.

    A Parquet writer refuses nulls there, and files in which only the struct is marked as null come like this.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(array.type, _unmasked(array.storage))
    if pa.types.is_struct(array.type):
        inner = [array.field(place) for place in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(inner, fields=list(array.type))
    if pa.types.is_large_list(array.type):
        inner = [array.values]
    elif pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        inner = [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    else:
        return array.fill_null(_nothing(array.type))
    offsets = array.buffers()[1]
    return pa.Array.from_buffers(array.type, len(array), [None, offsets], 0, array.offset, children=inner)


def _nothing(arrow_type: pa.DataType) -> pa.Scalar:
    if pa.types.is_large_string(arrow_type) or pa.types.is_large_binary(arrow_type):
        return pa.scalar(b"", pa.large_binary()).cast(arrow_type)
    if pa.types.is_fixed_size_binary(arrow_type):
        return pa.scalar(bytes(arrow_type.byte_width), arrow_type)
    return pa.scalar(False if pa.types.is_boolean(arrow_type) else 0, arrow_type)


def _convert(target: IcebergType, arrow_type: pa.DataType, array: pa.Array, column: NestedField) -> pa.Array:
    """The same values in the target's Arrow type, or an error: a lossy cast never happens."""
    if array.type == arrow_type:
        return array
    if isinstance(target, UUIDType) and array.type == pa.binary(16):
        return pa.ExtensionArray.from_storage(arrow_type, array)
    if pa.types.is_dictionary(array.type):
        return _convert(target, arrow_type, array.dictionary_decode(), column)
    if not _convertible(target, array.type, arrow_type):
        raise ProjectionError(f"column {column.name!r} is {array.type}, which is not a form of {target}")
    try:
        return array.cast(arrow_type, safe=True)
    except pa.ArrowInvalid as error:
        raise ProjectionError(f"column {column.name!r} does not fit {target}: {error}") from error


def _convertible(target: IcebergType, source: pa.DataType, arrow_type: pa.DataType) -> bool:
    types = pa.types
    if isinstance(target, FixedType | UUIDType):
        return False
    if isinstance(target, StringType | BinaryType) or is_geospatial(target):
        return any(
            is_form(source)
            for is_form in (
                types.is_string,
                types.is_large_string,
                types.is_string_view,
                types.is_binary,
                types.is_large_binary,
                types.is_binary_view,
            )
        )
    if types.is_integer(arrow_type):
        return bool(types.is_integer(source) and source.bit_width <= arrow_type.bit_width)
    if types.is_floating(arrow_type):
        return bool(types.is_floating(source) and source.bit_width <= arrow_type.bit_width)
    if types.is_decimal(arrow_type):
        return bool(
            types.is_decimal(source) and source.scale == arrow_type.scale and source.precision <= arrow_type.precision
        )
    if types.is_time(arrow_type):
        return bool(types.is_time(source))
    if types.is_timestamp(arrow_type):
        # Iceberg reads the stored number by the table's type, whichever way the file says it is adjusted; and a date
        # may have been promoted to a timestamp without a zone.
        return bool(types.is_timestamp(source) or (types.is_date(source) and arrow_type.tz is None))
    return False


def _check_required(fields: tuple[NestedField, ...], columns: list[pa.Array], parent: pa.Array | None) -> None:
    """A Parquet writer trusts the schema: a null in a required column would silently become another value."""
    for field, column in zip(fields, columns, strict=True):
        if not field.required or not column.null_count:
            continue
        nulls = column.is_null() if parent is None else pc.and_(column.is_null(), parent.is_valid())
        if pc.any(nulls).as_py():
            raise ProjectionError(f"the required column {field.name!r} (field {field.field_id}) has nulls")
