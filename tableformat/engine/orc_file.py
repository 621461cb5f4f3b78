"""Reads the rows of an ORC file as Arrow batches, a part of a stripe at a time.

pyarrow decodes, and gives what Iceberg notes with the columns: field ids, and which plain types stand for a uuid, a
fixed or a time. It reads timestamps in nanoseconds, and fails where one is too far from 1970 for that (before 1677 or
after 2262) rather than to change it.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc

from tableformat.engine import restoring
from tableformat.engine.projection import FIELD_ID, TargetSchema, children
from tableformat.engine.restoring import Form, UnknownForm, with_id

_BATCH_ROWS = 64 * 1024
_ID, _BINARY_TYPE, _LENGTH, _LONG_TYPE = b"iceberg.id", b"iceberg.binary-type", b"iceberg.length", b"iceberg.long-type"
_UUID_BYTES = 16


class OrcFile:
    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        opened = orc.ORCFile(file)
        self.records: int = opened.nrows
        try:
            self._forms = [_form(field) for field in opened.schema]
            self.schema = pa.schema([_field(*pair) for pair in zip(opened.schema, self._forms, strict=True)])
        except (KeyError, ValueError) as error:
            raise UnknownForm(f"has columns whose attributes are not as Iceberg's: {error!r}") from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order."""
        fragment = ds.OrcFileFormat().make_fragment(self._file)
        # Nothing is read far ahead: files that are small are read side by side, and large ones would fill memory.
        batches = fragment.to_batches(
            batch_size=_BATCH_ROWS, batch_readahead=1, fragment_readahead=0, use_threads=False
        )
        for batch in batches:
            columns = [form.restored(column) for form, column in zip(self._forms, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def require_same_zones(fields: list[pa.Field], target: TargetSchema) -> None:
    """ORC's timestamps without a zone are times of day where they were written, and never stand for an instant."""
    wanted = dict(_timestamps(list(target.arrow)))
    for field_id, timestamp in _timestamps(fields):
        if field_id in wanted and (wanted[field_id].tz is None) != (timestamp.tz is None):
            raise UnknownForm(f"field {int(field_id)} is {timestamp} in ORC, and {wanted[field_id]} in the table")


def _timestamps(fields: list[pa.Field]) -> Iterator[tuple[bytes, pa.DataType]]:
    for field in fields:
        if pa.types.is_timestamp(field.type) and FIELD_ID in (field.metadata or {}):
            yield field.metadata[FIELD_ID], field.type
        yield from _timestamps(children(field.type))


def _field(field: pa.Field, form: Form, name: str | None = None) -> pa.Field:
    field_id = (field.metadata or {}).get(_ID)
    return with_id(name or field.name, form, None if field_id is None else int(field_id), nullable=field.nullable)


def _form(field: pa.Field) -> Form:
    arrow, notes = field.type, field.metadata or {}
    if pa.types.is_struct(arrow):
        inner = [arrow.field(place) for place in range(arrow.num_fields)]
        forms = [_form(child) for child in inner]
        return restoring.struct([_field(*pair) for pair in zip(inner, forms, strict=True)], forms)
    if pa.types.is_list(arrow):
        form = _form(arrow.value_field)
        return restoring.list_of(_field(arrow.value_field, form, "element"), form)
    if pa.types.is_map(arrow):
        key, value = _form(arrow.key_field), _form(arrow.item_field)
        return restoring.map_of(
            _field(arrow.key_field, key, "key").with_nullable(False),
            key,
            _field(arrow.item_field, value, "value"),
            value,
        )
    if pa.types.is_int64(arrow) and notes.get(_LONG_TYPE) == b"TIME":
        return restoring.viewed(pa.time64("us"))
    if pa.types.is_binary(arrow) and notes.get(_BINARY_TYPE) == b"UUID":
        return restoring.fixed(_UUID_BYTES)
    if pa.types.is_binary(arrow) and notes.get(_BINARY_TYPE) == b"FIXED":
        return restoring.fixed(int(notes[_LENGTH]))
    return restoring.as_is(arrow)
