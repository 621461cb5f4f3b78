"""Thrift's compact protocol, as far as Parquet footers and page indexes need it: structs as they are, whatever fields
they have.

No schema is known here, so a field that a newer writer adds is kept. Only what `parquet_file` joins is ever read, and
that was written by this process a moment before; nothing here is made for bytes of unknown origin.
"""

import struct
from dataclasses import dataclass

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12


@dataclass
class List:
    kind: int
    items: list["bool | int | float | bytes | Struct | List"]


@dataclass
class Struct:
    """Values with their wire types by field id, in the order of the ids."""

    fields: dict[int, tuple[int, "bool | int | float | bytes | Struct | List"]]

    def number(self, field_id: int) -> int:
        found = self.fields[field_id][1]
        if not isinstance(found, int):
            raise TypeError(f"field {field_id} is no number")
        return found

    def set_number(self, field_id: int, value: int) -> None:
        """Change a number that is there already."""
        self.fields[field_id] = (self.fields[field_id][0], value)

    def struct(self, field_id: int) -> "Struct":
        found = self.fields[field_id][1]
        if not isinstance(found, Struct):
            raise TypeError(f"field {field_id} is no struct")
        return found

    def structs(self, field_id: int) -> "list[Struct]":
        found = self.fields[field_id][1]
        if not isinstance(found, List):
            raise TypeError(f"field {field_id} is no list")
        return [item for item in found.items if isinstance(item, Struct)]

    def set_struct(self, field_id: int, value: "Struct") -> None:
        self.fields[field_id] = (_STRUCT, value)
        self.fields = dict(sorted(self.fields.items()))

    def set_structs(self, field_id: int, items: "list[Struct]") -> None:
        self.fields[field_id] = (_LIST, List(_STRUCT, list(items)))
        self.fields = dict(sorted(self.fields.items()))

    def binaries(self, field_id: int) -> list[bytes]:
        found = self.fields[field_id][1]
        if not isinstance(found, List):
            raise TypeError(f"field {field_id} is no list")
        return [item for item in found.items if isinstance(item, bytes)]

    def set_binaries(self, field_id: int, items: "list[bytes]") -> None:
        """Change a list that is there already."""
        self.fields[field_id] = (_LIST, List(_BINARY, list(items)))


Field = tuple[int, "bool | int | float | bytes | Struct | List"]


def text(value: str) -> Field:
    return _BINARY, value.encode()


def enumeration(value: int) -> Field:
    return _I32, value


def byte(value: int) -> Field:
    return _BYTE, value


def structure(value: Struct) -> Field:
    return _STRUCT, value


def decode(data: bytes) -> Struct:
    return _Decoder(data).struct()


def encode(value: Struct) -> bytes:
    out = bytearray()
    _write_struct(out, value)
    return bytes(out)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self) -> Struct:
        fields: dict[int, tuple[int, bool | int | float | bytes | Struct | List]] = {}
        field_id = 0
        while header := self._byte():
            kind = header & 0x0F
            field_id = field_id + (header >> 4) if header >> 4 else self._zigzag()
            fields[field_id] = (kind, self._value(kind))
        return Struct(fields)

    def _value(self, kind: int) -> "bool | int | float | bytes | Struct | List":
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            return self._list()
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return float(struct.unpack("<d", self._take(8))[0])
        raise ValueError(f"a footer has a value of the unknown kind {kind}")

    def _list(self) -> List:
        header = self._byte()
        size, kind = header >> 4, header & 0x0F
        if size == 15:
            size = self._varint()
        if kind in (_TRUE, _FALSE):  # booleans in lists take a byte each, unlike those in structs
            return List(kind, [self._byte() == _TRUE for _ in range(size)])
        return List(kind, [self._value(kind) for _ in range(size)])

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _write_struct(out: bytearray, value: Struct) -> None:
    before = 0
    for field_id, (kind, content) in value.fields.items():
        wire = (_TRUE if content else _FALSE) if kind in (_TRUE, _FALSE) else kind
        if 0 < field_id - before <= 15:
            out.append((field_id - before) << 4 | wire)
        else:
            out.append(wire)
            _write_varint(out, _zigzagged(field_id))
        before = field_id
        if kind not in (_TRUE, _FALSE):
            _write_value(out, kind, content)
    out.append(0)


def _write_value(out: bytearray, kind: int, content: "bool | int | float | bytes | Struct | List") -> None:
    if isinstance(content, Struct):
        _write_struct(out, content)
    elif isinstance(content, List):
        size = len(content.items)
        out.append(min(size, 15) << 4 | content.kind)
        if size >= 15:
            _write_varint(out, size)
        for item in content.items:
            _write_value(out, content.kind, item)
    elif isinstance(content, bytes):
        _write_varint(out, len(content))
        out += content
    elif isinstance(content, float):
        out += struct.pack("<d", content)
    elif kind in (_TRUE, _FALSE):
        out.append(_TRUE if content else _FALSE)
    elif kind == _BYTE:
        out.append(content & 0xFF)
    else:
        _write_varint(out, _zigzagged(content))


def _zigzagged(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
