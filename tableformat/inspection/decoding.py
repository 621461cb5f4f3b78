"""The entries of manifests as Arrow columns, as they were written: what they inherit from a list is not in them yet.

So a decoded manifest is good for every snapshot that has it. Partition values are kept in one form for each kind of
value, whatever the writer's schema was at the time, so that those of different manifests can be compared.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.utils.decimal import unscaled_to_decimal

from tableformat.errors import PermanentError
from tableformat.inspection.avro_columns import AvroContent, BrokenAvro, Column, parse_avro, read_columns

FORMATS: Final = tuple(FileFormat)
"""Of files, by their number in the column `file_format`."""

INLINE: Final = frozenset({2, 102})
"""The ids of the records that entries have within them: the data file, and its partition."""
_PARTITION: Final = 102
_PATH_FIELD_ID: Final = 2147483546
_LONGEST_DECIMAL: Final = 38

_STATUS: Final = pa.field("status", pa.int8())
ENTRY: Final = pa.schema(
    [
        _STATUS,
        ("added_snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("file_sequence_number", pa.int64()),
        ("path", pa.large_string()),
        ("file_format", pa.int8()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),
        ("encrypted", pa.bool_()),
        ("sort_order_id", pa.int32()),
        ("first_row_id", pa.int64()),
    ]
)
DELETE_ENTRY: Final = pa.schema(
    [
        *ENTRY,
        ("content", pa.int8()),
        ("equality_ids", pa.list_(pa.int32())),
        ("path_lower", pa.binary()),
        ("path_upper", pa.binary()),
        ("content_offset", pa.int64()),
        ("content_size", pa.int64()),
    ]
)
_FIELD_IDS: Final = {
    "status": 0,
    "added_snapshot_id": 1,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "path": 100,
    "file_format": 101,
    "records": 103,
    "size_bytes": 104,
    "encrypted": 131,
    "content": 134,
    "equality_ids": 135,
    "sort_order_id": 140,
    "first_row_id": 142,
    "content_offset": 144,
    "content_size": 145,
}
_REQUIRED: Final = ("status", "path", "file_format", "records", "size_bytes", "content")
_REFERENCED_DATA_FILE, _LOWER_BOUNDS, _UPPER_BOUNDS = 143, 125, 128


class UnreadableManifest(PermanentError):
    """A manifest, or a list of them, is not there or broken: nobody can say which files the table has."""

    def __init__(self, path: str, reason: str, *, kind: str = "manifest") -> None:
        super().__init__(
            f"{kind} {path} cannot be read: {reason}. Restore it, or roll the table back to a snapshot without it"
        )
        self.path = path


class ValueForm(Enum):
    """How a partition value is kept in a column, and what it is to PyIceberg."""

    AS_IS = "as it is"
    UUID = "uuid"


@dataclass(frozen=True)
class DecodedManifest:
    """Live entries, in the manifest's order."""

    entries: pa.Table
    forms: tuple[ValueForm, ...]
    """Of the values of each partition field, whose columns come after those of the entries."""

    @property
    def size_bytes(self) -> int:
        return int(self.entries.nbytes)


@dataclass(frozen=True)
class EncodedManifest:
    path: str
    content: ManifestContent
    avro: AvroContent


def parse_manifest(path: str, kind: ManifestContent, content: bytes) -> EncodedManifest:
    try:
        return EncodedManifest(path, kind, parse_avro(content, inline=INLINE))
    except BrokenAvro as error:
        raise UnreadableManifest(path, str(error)) from error


def decode_whole(manifest: EncodedManifest) -> DecodedManifest:
    """All entries of the manifest, those of removed files among them."""
    try:
        [decoded] = _decode_alike([manifest], live_only=False)
    except (BrokenAvro, pa.ArrowInvalid) as error:
        raise UnreadableManifest(manifest.path, str(error)) from error
    return decoded


def decode_manifests(manifests: Sequence[EncodedManifest]) -> list[DecodedManifest]:
    """Those that were written alike are decoded together, because each call has its price."""
    alike: dict[tuple[str, ManifestContent], list[int]] = defaultdict(list)
    for number, manifest in enumerate(manifests):
        alike[manifest.avro.form, manifest.content].append(number)
    decoded: dict[int, DecodedManifest] = {}
    for numbers in alike.values():
        group = [manifests[number] for number in numbers]
        try:
            decoded.update(zip(numbers, _decode_alike(group), strict=True))
        except (BrokenAvro, pa.ArrowInvalid) as error:
            if len(group) == 1:
                raise UnreadableManifest(group[0].path, str(error)) from error
            for number in numbers:  # to know which one it is
                decoded[number] = decode_manifests([manifests[number]])[0]
    return [decoded[number] for number in range(len(manifests))]


def _decode_alike(manifests: Sequence[EncodedManifest], *, live_only: bool = True) -> list[DecodedManifest]:
    columns = manifests[0].avro.columns
    is_data = manifests[0].content == ManifestContent.DATA
    partition = [place for place, column in enumerate(columns) if column.within == _PARTITION]
    wanted = {_FIELD_IDS[name] for name in ENTRY.names}
    if not is_data:
        wanted |= {*_FIELD_IDS.values(), _REFERENCED_DATA_FILE, _LOWER_BOUNDS, _UPPER_BOUNDS}
    of_file = {
        column.field_id: place
        for place, column in enumerate(columns)
        if column.within != _PARTITION and column.field_id in wanted and not column.is_always_null
    }
    places = [*of_file.values(), *(place for place in partition if not columns[place].is_always_null)]
    decoded = []
    for rows in read_columns([manifest.avro for manifest in manifests], places):
        written = _Written(rows, {field_id: f"c{place}" for field_id, place in of_file.items()})
        entries = _entries(written, ENTRY if is_data else DELETE_ENTRY)
        forms = []
        for number, place in enumerate(partition):
            values = pa.nulls(rows.num_rows) if columns[place].is_always_null else rows[f"c{place}"].combine_chunks()
            array, form = _partition_values(values, columns[place])
            entries = entries.append_column(partition_column(number), array)
            forms.append(form)
        if live_only:
            # The filter copies: a part of what was decoded together must not keep the rest in memory.
            entries = entries.filter(pc.not_equal(entries["status"], ManifestEntryStatus.DELETED.value))
        decoded.append(DecodedManifest(entries, tuple(forms)))
    return decoded


def partition_column(number: int) -> str:
    """The name of the column with the values of a partition field, by its place in the spec."""
    return f"partition.{number}"


@dataclass(frozen=True)
class _Written:
    """The columns of one manifest as its writer wrote them; older formats lack some."""

    rows: pa.Table
    names: Mapping[int, str]

    def column(self, field_id: int) -> pa.Array | None:
        name = self.names.get(field_id)
        return None if name is None else self.rows[name].combine_chunks()


def _entries(written: _Written, schema: pa.Schema) -> pa.Table:
    number = written.rows.num_rows
    found: dict[str, pa.Array] = {}
    for name in schema.names:
        values = written.column(_FIELD_IDS[name]) if name in _FIELD_IDS else None
        if values is None:
            found[name] = pa.nulls(number, schema.field(name).type)
        elif name == "file_format":
            found[name] = _format_numbers(values)
        elif name != "encrypted":
            found[name] = values.cast(schema.field(name).type)
    keys = written.column(_FIELD_IDS["encrypted"])
    found["encrypted"] = pa.array(np.zeros(number, bool)) if keys is None else pc.is_valid(keys)
    for name in _REQUIRED:
        if name in found and found[name].null_count:
            raise BrokenAvro(f"it has entries without a {name.replace('_', ' ')}")  # which would be lost without a word
    if "content" in found:
        is_position_delete = pc.equal(found["content"], DataFileContent.POSITION_DELETES.value)
        found["path_lower"], found["path_upper"] = _path_bounds(written, is_position_delete)
        for name in ("content_offset", "content_size"):  # only deletion vectors are a part of their file
            found[name] = pc.if_else(is_position_delete, found[name], pa.scalar(None, pa.int64()))
    return pa.table(found, schema)


def _path_bounds(written: _Written, is_position_delete: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest path that a position delete file names: one, if it says for which file it is."""
    number, nothing = written.rows.num_rows, pa.scalar(None, pa.binary())
    referenced = written.column(_REFERENCED_DATA_FILE)
    referenced = pa.nulls(number, pa.binary()) if referenced is None else referenced.cast(pa.binary())
    lower, upper = (_path_bound(number, written.column(field_id)) for field_id in (_LOWER_BOUNDS, _UPPER_BOUNDS))
    lower, upper = pc.coalesce(referenced, lower), pc.coalesce(referenced, upper)
    known = pc.and_(is_position_delete, pc.and_(pc.is_valid(lower), pc.is_valid(upper)))
    return pc.if_else(known, lower, nothing), pc.if_else(known, upper, nothing)


def _format_numbers(formats: pa.Array) -> pa.Array:
    known = pa.array([file_format.value for file_format in FORMATS])
    numbers = pc.index_in(pc.utf8_upper(formats), value_set=known)
    if numbers.null_count:
        unknown = formats.filter(pc.is_null(numbers))[0].as_py()
        raise BrokenAvro(f"it has a file of the unknown format {unknown!r}")
    return numbers.cast(pa.int8())


def _path_bound(number: int, bounds: pa.Array | None) -> pa.Array:
    """The bound of the column of paths, out of a list of pairs of field id and value for each entry."""
    if bounds is None:
        return pa.nulls(number, pa.binary())
    pairs, parents = pc.list_flatten(bounds), pc.list_parent_indices(bounds)
    of_path = pc.equal(pairs.field(0), _PATH_FIELD_ID)
    values, owners = pairs.field(1).filter(of_path).cast(pa.binary()), parents.filter(of_path)
    return values.take(pc.index_in(pa.array(np.arange(number), owners.type), value_set=owners))


def _partition_values(values: pa.Array, column: Column) -> tuple[pa.Array, ValueForm]:
    """In the widest form of their kind."""
    logical, data_type = column.avro_type.get("logicalType"), values.type
    if logical == "uuid":
        return _by_value(values, _uuid_bytes, pa.binary()), ValueForm.UUID
    if logical == "decimal":
        scale = int(column.avro_type.get("scale", 0))
        kept = pa.decimal128(_LONGEST_DECIMAL, scale)
        return _by_value(values, lambda unscaled: _decimal(unscaled, scale), kept), ValueForm.AS_IS
    if pa.types.is_null(data_type) or pa.types.is_boolean(data_type):
        return values, ValueForm.AS_IS
    if pa.types.is_integer(data_type):
        return values.cast(pa.int64()), ValueForm.AS_IS
    if pa.types.is_floating(data_type):
        return values.cast(pa.float64()), ValueForm.AS_IS
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return values.cast(pa.large_string()), ValueForm.AS_IS
    return values.cast(pa.binary()), ValueForm.AS_IS


def _by_value(values: pa.Array, convert: Any, data_type: pa.DataType) -> pa.Array:
    """Convert each distinct value once."""
    distinct = values.unique()
    converted = pa.array([None if value is None else convert(value) for value in distinct.to_pylist()], data_type)
    return converted.take(pc.index_in(values, value_set=distinct))


def _uuid_bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else UUID(value).bytes


def _decimal(unscaled: bytes, scale: int) -> Decimal:
    return unscaled_to_decimal(int.from_bytes(unscaled, "big", signed=True), scale)
