"""Files in ORC and Avro, encoded from Python values as Iceberg's specification says, and the same in Parquet.

It shares no code with the kernel. Rows are dicts by column name, maps are lists of pairs, and times may be given as
the numbers that are stored.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from io import BytesIO
from struct import pack
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.unit.inspection.avro import block, header, long, text

FOREIGN = (FileFormat.ORC, FileFormat.AVRO)
_NUMBERED = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def encoded(
    file_format: FileFormat, schema: Schema, rows: Sequence[Mapping[str, Any]], *, field_ids: bool = True
) -> bytes:
    if file_format == FileFormat.AVRO:
        return avro_file(schema, [rows[: len(rows) // 2], rows[len(rows) // 2 :]], field_ids=field_ids)
    buffer = BytesIO()
    if file_format == FileFormat.ORC:
        fields = [_orc_field(field, field_ids) for field in schema.fields]
        columns = [
            pa.array([_orc_value(field.field_type, row.get(field.name)) for row in rows], stored.type)
            for field, stored in zip(schema.fields, fields, strict=True)
        ]
        orc.write_table(pa.table(columns, schema=pa.schema(fields)), buffer, compression="zlib")
    else:
        fields = [_without_extensions(field) for field in schema_to_pyarrow(schema)]
        table = pa.Table.from_pylist([_bytes_of_uuids(dict(row)) for row in rows], schema=pa.schema(fields))
        pq.write_table(table, buffer, store_schema=False, store_decimal_as_integer=True)
    return buffer.getvalue()


def _without_extensions(field: pa.Field) -> pa.Field:
    """pyarrow makes no nested values of such types out of Python's."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    elif pa.types.is_struct(kind):
        kind = pa.struct([_without_extensions(child) for child in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_without_extensions(kind.key_field), _without_extensions(kind.item_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_without_extensions(kind.value_field))
    return field.with_type(kind)


def _bytes_of_uuids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bytes_of_uuids(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bytes_of_uuids(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_bytes_of_uuids(item) for item in value)
    return value.bytes if isinstance(value, uuid.UUID) else value


def _number(kind: IcebergType, value: Any) -> Any:
    """Of a date or a time, as it is stored."""
    if isinstance(value, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=UTC if value.tzinfo else None)
        micros = (value - epoch) // timedelta(microseconds=1)
        return micros * 1000 if isinstance(kind, TimestampNanoType | TimestamptzNanoType) else micros
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    return value


def _orc_field(field: NestedField, field_ids: bool) -> pa.Field:
    kind = field.field_type
    notes = {"iceberg.id": str(field.field_id), "iceberg.required": str(field.required).lower()}
    if isinstance(kind, UUIDType):
        notes["iceberg.binary-type"] = "UUID"
    elif isinstance(kind, FixedType):
        notes |= {"iceberg.binary-type": "FIXED", "iceberg.length": str(len(kind))}
    elif isinstance(kind, TimeType):
        notes["iceberg.long-type"] = "TIME"
    return pa.field(field.name, _orc_type(kind, field_ids), True, notes if field_ids else None)


def _orc_type(kind: IcebergType, field_ids: bool) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_orc_field(field, field_ids) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_orc_field(kind.element_field, field_ids))
    if isinstance(kind, MapType):
        key, value = _orc_field(kind.key_field, field_ids), _orc_field(kind.value_field, field_ids)
        return pa.map_(key.with_nullable(False), value)
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, TimestampType | TimestampNanoType):
        return pa.timestamp("ns")
    if isinstance(kind, TimestamptzType | TimestamptzNanoType):
        return pa.timestamp("ns", "UTC")
    plain: dict[Any, pa.DataType] = {
        BooleanType: pa.bool_(),
        IntegerType: pa.int32(),
        LongType: pa.int64(),
        FloatType: pa.float32(),
        DoubleType: pa.float64(),
        DateType: pa.date32(),
        TimeType: pa.int64(),
        StringType: pa.string(),
        BinaryType: pa.binary(),
        UUIDType: pa.binary(),
        FixedType: pa.binary(),
    }
    return plain[type(kind)]


def _orc_value(kind: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _orc_value(field.field_type, value.get(field.name)) for field in kind.fields}
    if isinstance(kind, ListType):
        return [_orc_value(kind.element_type, element) for element in value]
    if isinstance(kind, MapType):
        return [(_orc_value(kind.key_type, key), _orc_value(kind.value_type, item)) for key, item in value]
    if isinstance(kind, TimestampType | TimestamptzType):
        return _number(kind, value) * 1000
    if isinstance(kind, _NUMBERED):
        return _number(kind, value)
    return value.bytes if isinstance(value, uuid.UUID) else value


def avro_file(
    schema: Schema,
    blocks: Sequence[Sequence[Mapping[str, Any]]],
    *,
    codec: str = "deflate",
    field_ids: bool = True,
    null_first: bool = True,
) -> bytes:
    writer = _AvroWriter(field_ids, null_first)
    fields = [writer.field(field) for field in schema.fields]
    records = [[writer.struct(schema.as_struct(), row) for row in rows] for rows in blocks]
    return header(fields, codec) + b"".join(block(rows, codec) for rows in records)


class _AvroWriter:
    def __init__(self, field_ids: bool, null_first: bool) -> None:
        self._field_ids = field_ids
        self._null_first = null_first
        self._named: set[str] = set()

    def field(self, field: NestedField) -> dict[str, Any]:
        return {"name": field.name, "type": self.optional(field), **self._ids({"field-id": field.field_id})}

    def optional(self, field: NestedField) -> Any:
        kind = self.type(field.field_type, field.field_id)
        if field.required:
            return kind
        return ["null", kind] if self._null_first else [kind, "null"]

    def type(self, kind: IcebergType, number: int) -> Any:
        if isinstance(kind, StructType):
            return {"type": "record", "name": f"r{number}", "fields": [self.field(field) for field in kind.fields]}
        if isinstance(kind, ListType):
            items = self.optional(kind.element_field)
            return {"type": "array", "items": items, **self._ids({"element-id": kind.element_id})}
        if isinstance(kind, MapType) and isinstance(kind.key_type, StringType):
            ids = self._ids({"key-id": kind.key_id, "value-id": kind.value_id})
            return {"type": "map", "values": self.optional(kind.value_field), **ids}
        if isinstance(kind, MapType):
            entry = [self.field(kind.key_field), self.field(kind.value_field)]
            items = {"type": "record", "name": f"k{kind.key_id}_v{kind.value_id}", "fields": entry}
            return {"type": "array", "logicalType": "map", "items": items}
        return self._primitive(kind)

    def _primitive(self, kind: IcebergType) -> Any:
        if isinstance(kind, DecimalType):
            notes = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            name = f"decimal_{kind.precision}_{kind.scale}"
            return self._fixed(name, _decimal_bytes(kind), notes)
        if isinstance(kind, UUIDType):
            return self._fixed("uuid_fixed", 16, {"logicalType": "uuid"})
        if isinstance(kind, FixedType):
            return self._fixed(f"fixed_{len(kind)}", len(kind), {})
        if isinstance(kind, DateType):
            return {"type": "int", "logicalType": "date"}
        if isinstance(kind, TimeType):
            return {"type": "long", "logicalType": "time-micros"}
        if isinstance(kind, TimestampType | TimestamptzType):
            adjusted = isinstance(kind, TimestamptzType)
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": adjusted}
        if isinstance(kind, TimestampNanoType | TimestamptzNanoType):
            adjusted = isinstance(kind, TimestamptzNanoType)
            return {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": adjusted}
        return {"binary": "bytes"}.get(str(kind), str(kind))

    def _fixed(self, name: str, size: int, notes: dict[str, Any]) -> Any:
        """Defined once, and named from then on, as writers do."""
        if name in self._named:
            return name
        self._named.add(name)
        return {"type": "fixed", "name": name, "size": size, **notes}

    def _ids(self, ids: dict[str, int]) -> dict[str, int]:
        return ids if self._field_ids else {}

    def struct(self, kind: StructType, row: Mapping[str, Any]) -> bytes:
        return b"".join(self._optional_value(field, row.get(field.name)) for field in kind.fields)

    def _optional_value(self, field: NestedField, value: Any) -> bytes:
        if field.required:
            return self._value(field.field_type, value)
        branch = long(int((value is not None) == self._null_first))
        return branch if value is None else branch + self._value(field.field_type, value)

    def _value(self, kind: IcebergType, value: Any) -> bytes:
        if isinstance(kind, StructType):
            return self.struct(kind, value)
        if isinstance(kind, ListType):
            return self._sequence([self._optional_value(kind.element_field, element) for element in value])
        if isinstance(kind, MapType):
            return self._sequence(
                [self._value(kind.key_type, key) + self._optional_value(kind.value_field, item) for key, item in value]
            )
        if isinstance(kind, DecimalType):
            unscaled = int(Decimal(value).scaleb(kind.scale, Context(prec=76)))
            return unscaled.to_bytes(_decimal_bytes(kind), "big", signed=True)
        if isinstance(kind, UUIDType):
            return bytes(value.bytes)
        if isinstance(kind, FixedType):
            return bytes(value)
        if isinstance(kind, BooleanType):
            return b"\x01" if value else b"\x00"
        if isinstance(kind, FloatType | DoubleType):
            return pack("<f" if isinstance(kind, FloatType) else "<d", value)
        if isinstance(kind, StringType | BinaryType):
            return text(value)
        return long(_number(kind, value))

    def _sequence(self, items: list[bytes]) -> bytes:
        return (long(len(items)) + b"".join(items) if items else b"") + long(0)


def _decimal_bytes(kind: DecimalType) -> int:
    return int(10**kind.precision - 1).bit_length() // 8 + 1


def rows_of(content: pa.Table) -> list[str]:
    """In a certain order, and so that NaN equals NaN."""
    return as_texts(content.to_pylist())


def as_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    def text_of(value: Any) -> str:
        return str(value.isoformat()) if isinstance(value, datetime) else repr(value)

    return sorted(json.dumps(row, default=text_of, sort_keys=True) for row in rows)
