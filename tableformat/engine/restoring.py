"""What a decoder gives for a column of an ORC or Avro file, brought to the Arrow form that a Parquet file would have.

Field ids go where those of Parquet files are, and values get the types that such files only have names for. Validity
and offsets stay as they are at every depth, so that a null list, an empty one and a list of nulls remain three things.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tableformat.engine.projection import FIELD_ID

_DECIMAL_BYTES = 16


class UnknownForm(Exception):
    """The file has a form that nobody could read with certainty, or is broken; the caller adds the file's name."""


@dataclass(frozen=True)
class Form:
    """What a column becomes, and how."""

    arrow: pa.DataType
    restored: Callable[[pa.Array], pa.Array]


def with_id(name: str, form: Form, field_id: int | None, *, nullable: bool) -> pa.Field:
    metadata = None if field_id is None else {FIELD_ID: str(field_id)}
    return pa.field(name, form.arrow, nullable, metadata)


def as_is(arrow: pa.DataType) -> Form:
    return Form(arrow, lambda array: array)


def viewed(arrow: pa.DataType) -> Form:
    """The same bytes under another type."""
    return Form(arrow, lambda array: array.view(arrow))


def fixed(length: int) -> Form:
    """Of binary values, each of which has to have the length."""
    arrow = pa.binary(length)

    def restored(array: pa.Array) -> pa.Array:
        filled = array.fill_null(bytes(length)) if array.null_count else array
        if not pc.all(pc.equal(pc.binary_length(filled), length)).as_py() and len(filled):
            raise UnknownForm(f"has a value that is not {length} bytes long, as its column says")
        offsets = np.frombuffer(filled.buffers()[1], np.int32)
        data = filled.buffers()[2] or pa.py_buffer(b"")
        content = data.slice(int(offsets[filled.offset]), length * len(filled)) if len(filled) else data
        return pa.Array.from_buffers(arrow, len(array), [_validity(array), content])

    return Form(arrow, restored)


def big_endian_decimal(precision: int, scale: int) -> Form:
    """Of two's complements with the highest byte first, all of one length."""
    arrow = pa.decimal128(precision, scale)

    def restored(array: pa.Array) -> pa.Array:
        size = array.type.byte_width
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        values = data[array.offset * size : (array.offset + len(array)) * size].reshape(len(array), size)
        extended = np.empty((len(array), _DECIMAL_BYTES), np.uint8)
        extended[:, :size] = values[:, ::-1]
        extended[:, size:] = np.where(values[:, :1] & 0x80, 0xFF, 0)
        decimals = pa.Array.from_buffers(arrow, len(array), [_validity(array), pa.py_buffer(extended)])
        decimals.validate(full=True)  # that none has more digits than it may
        return decimals

    return Form(arrow, restored)


def struct(fields: Sequence[pa.Field], forms: Sequence[Form]) -> Form:
    arrow = pa.struct(list(fields))

    def restored(array: pa.Array) -> pa.Array:
        columns = [form.restored(array.field(place)) for place, form in enumerate(forms)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(fields), mask=mask)

    return Form(arrow, restored)


def list_of(element: pa.Field, form: Form) -> Form:
    arrow = pa.list_(element)
    return Form(arrow, lambda array: _nested(arrow, array, form.restored(array.values)))


def map_of(key: pa.Field, key_form: Form, value: pa.Field, value_form: Form, *, of_records: bool = False) -> Form:
    """Of a map, or of a list of records that have a key and a value each."""
    arrow = pa.map_(key, value)

    def restored(array: pa.Array) -> pa.Array:
        parts = (array.values.field(0), array.values.field(1)) if of_records else (array.keys, array.items)
        keys, values = key_form.restored(parts[0]), value_form.restored(parts[1])
        if keys.null_count:
            raise UnknownForm("a map has null keys")
        return _nested(arrow, array, pa.StructArray.from_arrays([keys, values], fields=[key, value]))

    return Form(arrow, restored)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Its bitmap as if it began with its first value."""
    return pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1] if array.null_count else None


def _nested(arrow: pa.DataType, array: pa.Array, children: pa.Array) -> pa.Array:
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        arrow, len(array), [validity, offsets], array.null_count, array.offset, children=[children]
    )
