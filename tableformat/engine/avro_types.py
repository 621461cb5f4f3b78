"""An Avro schema as Iceberg writes it: the plain schema that is decoded, and what becomes of the decoded values.

A logical type is only a name for a plain one, and DataFusion has its own idea of some; so it decodes plain types, and
the names are given here. What is not among the forms of Iceberg's specification is refused.
"""

from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from tableformat.engine import restoring
from tableformat.engine.restoring import Form, UnknownForm, with_id

_LONGEST_DECIMAL_BYTES = 16
_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}


@dataclass(frozen=True)
class AvroType:
    plain: Any
    """As a part of the schema that is decoded."""
    form: Form
    nullable: bool = False


class AvroTypes:
    """The types of one schema; a type that has a name may come again by it."""

    def __init__(self) -> None:
        self._definitions: dict[str, Any] = {}
        self._numbers = count()

    def read(self, avro_type: Any) -> AvroType:
        if isinstance(avro_type, list):
            return self._choice(avro_type)
        if isinstance(avro_type, str):
            if avro_type in _PLAIN:
                return AvroType(avro_type, restoring.as_is(_PLAIN[avro_type]))
            if self._definitions.get(avro_type) is None:
                raise UnknownForm(f"has the Avro type {avro_type!r}, which its schema does not define once before")
            return self.read(self._definitions[avro_type])
        if not isinstance(avro_type["type"], str):
            return self.read(avro_type["type"])
        found = self._definition(avro_type)
        if "name" in avro_type:
            for name in (avro_type["name"], f"{avro_type.get('namespace', '')}.{avro_type['name']}"):
                is_other = self._definitions.get(name, avro_type) != avro_type
                self._definitions[name] = None if is_other else avro_type
        return found

    def _choice(self, choices: list[Any]) -> AvroType:
        types = [choice for choice in choices if choice != "null"]
        if len(choices) != 2 or len(types) != 1:
            raise UnknownForm(f"has a column that is a choice of {len(choices)} Avro types, not of null and another")
        inner = self.read(types[0])
        plain = ["null" if choice == "null" else inner.plain for choice in choices]
        return AvroType(plain, inner.form, nullable=True)

    def _definition(self, avro_type: dict[str, Any]) -> AvroType:
        kind = avro_type["type"]
        if kind == "record":
            return self._record(avro_type)
        if kind == "array" and avro_type.get("logicalType") == "map":
            return self._map_of_records(avro_type)
        if kind == "array":
            element = self.read(avro_type["items"])
            field = with_id("element", element.form, _id(avro_type, "element-id"), nullable=element.nullable)
            return AvroType({"type": "array", "items": element.plain}, restoring.list_of(field, element.form))
        if kind == "map":
            key, value = self.read("string"), self.read(avro_type["values"])
            key_field = with_id("key", key.form, _id(avro_type, "key-id"), nullable=False)
            value_field = with_id("value", value.form, _id(avro_type, "value-id"), nullable=value.nullable)
            form = restoring.map_of(key_field, key.form, value_field, value.form)
            return AvroType({"type": "map", "values": value.plain}, form)
        if kind == "fixed":
            plain = {"type": "fixed", "name": self._new_name(), "size": avro_type["size"]}
            return AvroType(plain, _fixed_form(avro_type))
        if kind in _PLAIN:
            return AvroType(kind, _plain_form(kind, avro_type))
        raise UnknownForm(f"has the Avro type {kind!r}, which is not one of Iceberg's")

    def _record(self, avro_type: dict[str, Any]) -> AvroType:
        if not avro_type["fields"]:
            raise UnknownForm(f"has the record {avro_type['name']!r} without fields")
        types = [self.read(field["type"]) for field in avro_type["fields"]]
        fields = [
            with_id(field["name"], inner.form, _id(field, "field-id"), nullable=inner.nullable)
            for field, inner in zip(avro_type["fields"], types, strict=True)
        ]
        plain = [{"name": f"f{place}", "type": inner.plain} for place, inner in enumerate(types)]
        form = restoring.struct(fields, [inner.form for inner in types])
        return AvroType({"type": "record", "name": self._new_name(), "fields": plain}, form)

    def _map_of_records(self, avro_type: dict[str, Any]) -> AvroType:
        """A map whose keys are not texts."""
        record = avro_type["items"]
        if isinstance(record, str):
            record = self._definitions[record]
        if record["type"] != "record" or [field["name"] for field in record["fields"]] != ["key", "value"]:
            raise UnknownForm("has a map that is not an array of keys and values")
        entry = self.read(record)
        key, value = entry.form.arrow.field(0), entry.form.arrow.field(1)
        types = [self.read(field["type"]) for field in record["fields"]]
        form = restoring.map_of(key.with_nullable(False), types[0].form, value, types[1].form, of_records=True)
        return AvroType({"type": "array", "items": entry.plain}, form)

    def _new_name(self) -> str:
        return f"t{next(self._numbers)}"


def _id(holder: dict[str, Any], key: str) -> int | None:
    return None if key not in holder else int(holder[key])


def _plain_form(kind: str, avro_type: dict[str, Any]) -> Form:
    logical = avro_type.get("logicalType", "")
    if (kind, logical) in _TIMES:
        return restoring.viewed(_TIMES[kind, logical])
    if kind == "long" and logical.removeprefix("local-").startswith("timestamp-"):
        unit = logical.removeprefix("local-").removeprefix("timestamp-")
        if unit not in _UNITS:
            raise UnknownForm(f"has the Avro type {logical!r}, which is not one of Iceberg's")
        is_local = logical.startswith("local-") or avro_type.get("adjust-to-utc") is False
        return restoring.viewed(pa.timestamp(_UNITS[unit], None if is_local else "UTC"))
    if logical == "decimal":
        raise UnknownForm("has a decimal of varying length, where Iceberg's have a fixed one")
    return restoring.as_is(_PLAIN[kind])


def _fixed_form(avro_type: dict[str, Any]) -> Form:
    size = int(avro_type["size"])
    if avro_type.get("logicalType") != "decimal":
        return restoring.as_is(pa.binary(size))
    if size > _LONGEST_DECIMAL_BYTES:
        raise UnknownForm(f"has a decimal of {size} bytes, which is more than Iceberg's have")
    return restoring.big_endian_decimal(int(avro_type["precision"]), int(avro_type.get("scale", 0)))
