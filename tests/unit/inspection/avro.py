"""Writes Avro files byte by byte, so that they can have what no writer at hand would put into one."""

import json
import zlib
from collections.abc import Sequence
from typing import Any

MAGIC, SYNC = b"Obj\x01", bytes(range(16))


def long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def text(value: str | bytes) -> bytes:
    encoded = value if isinstance(value, bytes) else value.encode()
    return long(len(encoded)) + encoded


def field(field_id: int, avro_type: Any) -> dict[str, Any]:
    return {"name": f"field_{field_id}", "type": avro_type, "field-id": field_id}


def header(fields: Sequence[dict[str, Any]], codec: str | None = "null", sync: bytes = SYNC) -> bytes:
    schema = json.dumps({"type": "record", "name": "entry", "fields": list(fields)})
    pairs = {"avro.schema": schema} | ({} if codec is None else {"avro.codec": codec})
    encoded = b"".join(text(word) for pair in pairs.items() for word in pair)
    # With its size, as some writers have it: a negative number of pairs says so.
    return MAGIC + long(-len(pairs)) + long(len(encoded)) + encoded + long(0) + sync


def block(records: Sequence[bytes], codec: str | None = "null", sync: bytes = SYNC) -> bytes:
    content = b"".join(records)
    if codec == "deflate":
        content = zlib.compress(content, wbits=-15)
    return long(len(records)) + text(content) + sync
