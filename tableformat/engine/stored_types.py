"""How types are stored that Arrow's writer has no form for: as bytes, with a note in the footer.

Geometry and geography are WKB in a column of bytes, and the footer's logical type names the reference system. pyarrow
would write the default in the place of EPSG:4326, and knows one algorithm, so columns are written as bytes, and
`parquet_file` puts the note there. A variant is a group of two such columns, its metadata and its value. A column of
type unknown has nulls alone, and nothing is stored for it, as in files of Iceberg's own writer.
"""

from collections.abc import Callable, Iterator, Set

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
)

from tableformat.engine.thrift import Struct, byte, enumeration, structure, text
from tableformat.types_as_written import TypeAsWritten, is_geospatial, is_variant

# Of Parquet's own definition: members of the union of logical types, and fields of the two.
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_ENCODING_VERSION = 1
_REFERENCE_SYSTEM, _ALGORITHM = 1, 2
VARIANT_PARTS = ("metadata", "value")
"""Columns of a variant that is not shredded, which has more."""
_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")


def logical_types(schema: Schema) -> dict[int, Struct]:
    """By field id, what the footer has to say of columns that are plain bytes to pyarrow."""
    fields = schema._lazy_id_to_field.values()
    return {
        field.field_id: _logical_type(field.field_type)
        for field in fields
        if is_geospatial(field.field_type) or is_variant(field.field_type)
    }


def _logical_type(iceberg_type: IcebergType) -> Struct:
    if is_variant(iceberg_type):
        return Struct({_VARIANT: structure(Struct({_ENCODING_VERSION: byte(1)}))})
    match iceberg_type:
        case TypeAsWritten():
            name, system, *algorithm = iceberg_type.parts
        case GeometryType():
            name, system, algorithm = "geometry", iceberg_type.crs, []
        case GeographyType():
            name, system, algorithm = "geography", iceberg_type.crs, [iceberg_type.algorithm]
        case _:
            raise ValueError(f"{iceberg_type} has no logical type of its own")
    if name == "geometry":
        return Struct({_GEOMETRY: structure(Struct({_REFERENCE_SYSTEM: text(system)}))})
    number = _ALGORITHMS.index(algorithm[0].lower() if algorithm else _ALGORITHMS[0])
    parameters = Struct({_REFERENCE_SYSTEM: text(system), _ALGORITHM: enumeration(number)})
    return Struct({_GEOGRAPHY: structure(parameters)})


def why_not_stored(schema: Schema) -> Iterator[tuple[str, str]]:
    """Columns that a new file could not have as they are, by name, and why."""
    for field in schema._lazy_id_to_field.values():
        name, kind = schema.find_column_name(field.field_id) or field.name, field.field_type
        parts = kind.parts if isinstance(kind, TypeAsWritten) else ()
        if is_geospatial(kind) and parts[2:] and parts[2].lower() not in _ALGORITHMS:
            yield name, f"has type {kind}, whose algorithm Parquet has no word for"
        elif isinstance(kind, StructType) and not without_unknown(kind).fields:
            yield (
                name,
                "is a struct of nothing but columns of type unknown, or of none at all, which no Parquet file can have",
            )
        elif isinstance(kind, ListType | MapType) and any(isinstance(inner, UnknownType) for inner in _inside(kind)):
            yield name, f"has type {kind}, which no Parquet file can have"


def _inside(kind: ListType | MapType) -> tuple[IcebergType, ...]:
    return (kind.element_type,) if isinstance(kind, ListType) else (kind.key_type, kind.value_type)


def stored_schema(metadata: TableMetadata) -> Schema:
    """Schema of new data files: the table's, without columns of type unknown.

    A field that was optional once stays optional in files. Iceberg's Java reader takes the nulls that older files have
    of it as they are, so they have to survive.
    """
    nullable = {
        field.field_id
        for schema in metadata.schemas
        for field in schema._lazy_id_to_field.values()
        if not field.required
    }
    schema = metadata.schema()
    return Schema(*_optional(without_unknown(schema.as_struct()), nullable).fields, schema_id=schema.schema_id)


def _optional(struct: StructType, nullable: Set[int]) -> StructType:
    def inside(kind: IcebergType) -> IcebergType:
        if isinstance(kind, StructType):
            return _optional(kind, nullable)
        if isinstance(kind, ListType):
            required = kind.element_required and kind.element_id not in nullable
            return ListType(kind.element_id, inside(kind.element_type), required)
        if isinstance(kind, MapType):
            required = kind.value_required and kind.value_id not in nullable
            return MapType(kind.key_id, inside(kind.key_type), kind.value_id, inside(kind.value_type), required)
        return kind

    return StructType(
        *(
            field.model_copy(
                update={
                    "field_type": inside(field.field_type),
                    "required": field.required and field.field_id not in nullable,
                }
            )
            for field in struct.fields
        )
    )


def without_unknown(struct: StructType) -> StructType:
    return StructType(
        *(
            _with_type(field, _mapped(field.field_type, without_unknown))
            for field in struct.fields
            if not isinstance(field.field_type, UnknownType)
        )
    )


def as_bytes(struct: StructType) -> StructType:
    """With bytes in the place of geometries and geographies, and a struct of bytes in that of variants."""
    return StructType(
        *(_with_type(field, _mapped(field.field_type, as_bytes, _bytes_of(field))) for field in struct.fields)
    )


def _mapped(
    kind: IcebergType, change: Callable[[StructType], StructType], instead: IcebergType | None = None
) -> IcebergType:
    """The type with a change made to every struct in it."""
    if isinstance(kind, StructType):
        return change(kind)
    if isinstance(kind, ListType):
        element = _mapped(kind.element_type, change, _bytes_of(kind.element_field))
        return ListType(kind.element_id, element, kind.element_required)
    if isinstance(kind, MapType):
        key = _mapped(kind.key_type, change, _bytes_of(kind.key_field))
        value = _mapped(kind.value_type, change, _bytes_of(kind.value_field))
        return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
    return instead if change is as_bytes and instead is not None else kind


def _bytes_of(field: NestedField) -> IcebergType | None:
    """What Arrow has in the place of the field's type, if it has no form for it."""
    if is_geospatial(field.field_type):
        return BinaryType()
    if not is_variant(field.field_type):
        return None
    # Parquet files have no ids for these two, and pyarrow writes none that is negative.
    return StructType(
        *(
            NestedField(-2 * field.field_id - number, name, BinaryType(), required=True)
            for number, name in enumerate(VARIANT_PARTS)
        )
    )


def _with_type(field: NestedField, kind: IcebergType) -> NestedField:
    return field if kind == field.field_type else field.model_copy(update={"field_type": kind})
