"""Decodes Avro files straight into Arrow columns, and only those that are asked for, without an object for each record.

DataFusion's reader does the decoding. It would rather see plain columns than nested records (an empty record it does
not read at all), and it has its own idea of some logical types. So it is given another header: Avro writes a record as
its fields one after the other, which makes the fields of an inner record fields of the outer one without a change to
the bytes, and a logical type is only a name for a plain one.

Nor does it mind a file that was cut off, and it never ends where a block has more bytes than its records. So blocks are
unpacked here and given to it as a single one, behind whose records comes one more with a value that only this process
knows, which is not found where the records do not end as they should. No batch is asked for beyond that record.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from tableformat.avro_bytes import MAGIC, SYNC_BYTES, data_frame, header, long
from tableformat.avro_codecs import DECOMPRESS
from tableformat.inspection.avro_schemas import with_lengths

_BATCH_ROWS: Final = 8192
_PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_END: Final = uuid4()
"""What the record behind the last one has, in a form that its column can hold."""
_ZEROS: Final = {"null": 0, "float": 4, "double": 8}


class BrokenAvro(ValueError):
    """The bytes are not a complete Avro file whose fields have Iceberg's ids."""


@dataclass(frozen=True)
class Column:
    """A field of a record, or of a record within it."""

    field_id: int
    within: int | None
    """The id of the inner record that has it."""
    avro_type: Mapping[str, Any]
    """As it was written, logical type and all, without the choice of null."""
    plain_type: Any
    """Without logical types, names that mean something, and with the choice of null."""

    @property
    def is_always_null(self) -> bool:
        """Then it takes no bytes, and there is nothing to read."""
        return bool(self.avro_type["type"] == "null")


@dataclass(frozen=True)
class AvroContent:
    """One file: what its header says, and where its blocks are."""

    content: bytes
    columns: tuple[Column, ...]
    plain_schema: str
    """Of a file with the same blocks and plain columns only, each named by its place."""
    meaning: str
    """The plain schema, and what its columns are."""
    schema: str
    """What its records are, which is not always what its header says."""
    codec: str
    sync: bytes
    blocks_at: int
    records: int

    @property
    def form(self) -> str:
        """Equal for files whose records mean the same, byte by byte: their plain schemas may agree by chance."""
        return f"{self.codec} {self.meaning}"

    def unpacked_blocks(self) -> Iterator[tuple[int, bytes]]:
        """How many records each block has, and their bytes, without compression."""
        if self.codec not in DECOMPRESS:
            raise BrokenAvro(f"its codec {self.codec!r} is unknown")
        for number, start, end in _blocks(self.content, self.blocks_at, self.sync):
            try:
                block = DECOMPRESS[self.codec](self.content[start:end])
            except Exception as error:  # each codec raises its own
                raise BrokenAvro(f"a block cannot be decompressed: {error!r}") from error
            yield number, block


def parse_avro(content: bytes, *, inline: frozenset[int] = frozenset()) -> AvroContent:
    """Read the header and count the records. The inner records of the ids in `inline` are taken apart into columns."""
    try:
        metadata, position = _header(content)
        sync, blocks_at = content[position : position + SYNC_BYTES], position + SYNC_BYTES
        schema, codec = metadata["avro.schema"].decode(), metadata.get("avro.codec", b"null").decode()
        records = sum(number for number, _, _ in _blocks(content, blocks_at, sync))
        if (java_schema := with_lengths(schema)) is not None:
            fixed = _flattened(schema, inline)[0]
            flattened = _flattened(java_schema, inline)
            file = AvroContent(content, *flattened, java_schema, codec, sync, blocks_at, records)
            if _has_lengths(file, fixed):
                return file
        flattened = _flattened(schema, inline)
    except BrokenAvro:
        raise
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BrokenAvro(f"it is no whole Avro file with Iceberg's field ids: {error!r}") from error
    return AvroContent(content, *flattened, schema, codec, sync, blocks_at, records)


def _has_lengths(file: AvroContent, fixed: Sequence[Column]) -> bool:
    """Whether the `bytes` of the file are all as long as the header's `fixed` says, and its records end well."""
    if not file.records:
        return False
    sizes = {
        place: column.avro_type["size"]
        for place, column in enumerate(fixed)
        if column.avro_type["type"] == "fixed" and file.columns[place].avro_type["type"] == "bytes"
    }
    try:
        [rows] = read_columns([file], list(sizes))
        return all(
            pc.all(pc.equal(pc.binary_length(rows[f"c{place}"]), size), min_count=0).as_py() is not False
            for place, size in sizes.items()
        )
    except BrokenAvro:
        return False


def columns_of(schema: str, *, inline: frozenset[int] = frozenset()) -> tuple[Column, ...]:
    """The columns of a file that would be written with this schema."""
    return _flattened(schema, inline)[0]


def read_columns(files: Sequence[AvroContent], places: Sequence[int]) -> list[pa.Table]:
    """The columns at the given places, for each of the files; they must have one schema and one codec."""
    end = _end_record(files[0].columns)
    wanted = dict.fromkeys([*places, end.place])
    rows = pa.Table.from_batches(read_batches(files, list(wanted), _content(files) + [end.content], more=1))
    starts = [0]
    for file in files:
        starts.append(starts[-1] + file.records)
    if rows[f"c{end.place}"][starts[-1]].as_py() != end.value:
        raise BrokenAvro("its blocks do not have the records that they should have")
    rows = rows.select([f"c{place}" for place in places])
    return [rows.slice(start, file.records) for start, file in zip(starts, files, strict=False)]


def read_batches(
    files: Sequence[AvroContent], places: Sequence[int], content: Sequence[bytes], *, more: int = 0
) -> Iterator[pa.RecordBatch]:
    """The records of all the files in their order, whose bytes the content is, and as many more as come behind them."""
    records = sum(file.records for file in files) + more
    if not records:
        return
    batches = -(-records // _BATCH_ROWS)
    batch_rows = -(-records // batches)
    # The last batch is to be full as well: for another record it would look among bytes that are not there, or that are
    # too many. A record of zeros is one of any schema.
    missing = batches * batch_rows - records
    filling = bytes(missing * sum(_zeros(c.plain_type) for c in files[0].columns if not c.is_always_null))
    size = sum(len(part) for part in content) + len(filling)
    sync = files[0].sync
    head = header(files[0].plain_schema, "null", sync) + long(records + missing) + long(size)
    try:
        with data_frame((head, *content, filling, sync), batch_rows=batch_rows) as frame:
            stream = iter(frame.select(*(f"c{place}" for place in places)).execute_stream())
            while records > 0:
                batch: pa.RecordBatch = next(stream).to_pyarrow()
                yield batch.slice(0, records)
                records -= batch.num_rows
    except Exception as error:  # DataFusion raises the class itself
        raise BrokenAvro(f"it cannot be decoded: {error}") from error


def _content(files: Sequence[AvroContent]) -> list[bytes]:
    return [block for file in files for _, block in file.unpacked_blocks()]


@dataclass(frozen=True)
class _EndRecord:
    content: bytes
    place: int
    """Of the column that has the value."""
    value: bytes | str | int


def _end_record(columns: Sequence[Column]) -> _EndRecord:
    """A record of zeros, but for one column: the first that can be, since a byte too many before a zero may be lost."""
    marks = {place: mark for place, column in enumerate(columns) if (mark := _mark(column.plain_type)) is not None}
    if not marks:
        raise BrokenAvro("it has no column by whose values the end of its records can be known")
    place, (content, value) = next(iter(marks.items()))
    before, after = (
        bytes(sum(_zeros(column.plain_type) for column in part if not column.is_always_null))
        for part in (columns[:place], columns[place + 1 :])
    )
    return _EndRecord(before + content + after, place, value)


def _mark(plain_type: Any) -> tuple[bytes, bytes | str | int] | None:
    """A value of this type that no file has but by chance, and its bytes."""
    if isinstance(plain_type, list):
        choices = {choice: mark for choice, each in enumerate(plain_type) if (mark := _mark(each)) is not None}
        if len(plain_type) > 2 or len(choices) != 1:
            return None
        [(choice, (content, value))] = choices.items()
        return long(choice) + content, value
    if plain_type == "string":
        return long(32) + _END.hex.encode(), _END.hex
    if plain_type == "bytes":
        return long(16) + _END.bytes, _END.bytes
    if plain_type in ("int", "long"):
        number = _END.int % 2**30
        return long(number), number
    if isinstance(plain_type, dict) and plain_type["type"] == "fixed":
        content = (_END.bytes * plain_type["size"])[: plain_type["size"]]
        return content, content
    return None


def _zeros(plain_type: Any) -> int:
    """How many bytes the value takes that is written as zeros alone."""
    if isinstance(plain_type, list):
        return 1 + _zeros(plain_type[0])
    if isinstance(plain_type, str):
        return _ZEROS.get(plain_type, 1)
    if plain_type["type"] == "record":
        return sum(_zeros(field["type"]) for field in plain_type["fields"])
    return int(plain_type["size"]) if plain_type["type"] == "fixed" else 1


@lru_cache(maxsize=256)
def _flattened(schema: bytes | str, inline: frozenset[int]) -> tuple[tuple[Column, ...], str, str]:
    """The columns, the plain schema, and both as a text. Remembered: a table's many small files have few headers."""
    columns, plain_schema = _Flattening(inline).flatten(json.loads(schema))
    meanings = [(column.field_id, column.within, column.avro_type) for column in columns]
    return columns, plain_schema, json.dumps([plain_schema, meanings], sort_keys=True)


class _Flattening:
    """Makes one level of fields out of a schema, and plain types out of logical ones."""

    def __init__(self, inline: frozenset[int]) -> None:
        self._inline = inline
        self._definitions: dict[str, Mapping[str, Any]] = {}
        self._names = count()

    def flatten(self, schema: Mapping[str, Any]) -> tuple[tuple[Column, ...], str]:
        columns = tuple(self._fields(schema, within=None))
        plain = [
            {"name": f"c{place}", "type": column.plain_type}
            for place, column in enumerate(columns)
            if not column.is_always_null
        ]
        return columns, json.dumps({"type": "record", "name": "plain", "fields": plain})

    def _fields(self, record: Mapping[str, Any], within: int | None) -> Iterator[Column]:
        for field in record["fields"]:
            field_id, avro_type = int(field["field-id"]), field["type"]
            definition = self._definition(avro_type)
            if field_id in self._inline:
                if isinstance(avro_type, list) or definition["type"] != "record":
                    raise ValueError(f"field {field_id} is no record that is always there")
                yield from self._fields(definition, within=field_id)
            else:
                yield Column(field_id, within, definition, self._plain(avro_type))

    def _definition(self, avro_type: Any) -> Mapping[str, Any]:
        """What the type is, apart from null."""
        if isinstance(avro_type, list):
            [avro_type] = [choice for choice in avro_type if choice != "null"] or ["null"]
        if isinstance(avro_type, str):
            return {"type": avro_type} if avro_type in _PLAIN else self._definitions[avro_type]
        if isinstance(avro_type["type"], dict):
            return self._definition(avro_type["type"])
        if "name" in avro_type:
            self._definitions[avro_type["name"]] = avro_type
        return dict(avro_type)

    def _plain(self, avro_type: Any) -> Any:
        if isinstance(avro_type, list):
            return [choice if choice == "null" else self._plain(choice) for choice in avro_type]
        definition = self._definition(avro_type)
        kind = definition["type"]
        if kind == "array":
            return {"type": kind, "items": self._plain(definition["items"])}
        if kind == "map":
            return {"type": kind, "values": self._plain(definition["values"])}
        if kind == "fixed":
            return {"type": kind, "name": self._new_name(), "size": definition["size"]}
        if kind == "record":
            fields = [
                {"name": f"f{place}", "type": self._plain(f["type"])} for place, f in enumerate(definition["fields"])
            ]
            return {"type": kind, "name": self._new_name(), "fields": fields}
        if kind not in _PLAIN:
            raise ValueError(f"type {kind} is not one that Iceberg writes")
        return kind

    def _new_name(self) -> str:
        return f"t{next(self._names)}"


def _header(content: bytes) -> tuple[dict[str, bytes], int]:
    if not content.startswith(MAGIC):
        raise ValueError("it does not begin like one")
    metadata: dict[str, bytes] = {}
    pairs, position = _long(content, len(MAGIC))
    while pairs:
        if pairs < 0:  # then the size in bytes follows
            pairs, (_, position) = -pairs, _long(content, position)
        for _ in range(pairs):
            key, position = _bytes(content, position)
            metadata[key.decode()], position = _bytes(content, position)
        pairs, position = _long(content, position)
    return metadata, position


def _blocks(content: bytes, position: int, sync: bytes) -> Iterator[tuple[int, int, int]]:
    """How many records each block has, where these begin, and where the marker behind them is."""
    end = len(content)
    while position < end:
        number, position = _long(content, position)
        size, start = _long(content, position)
        position = start + size
        if number < 0 or size < 0 or not content.startswith(sync, position):
            raise ValueError("a block does not end where it should")
        yield number, start, position
        position += SYNC_BYTES


def _long(content: bytes, position: int) -> tuple[int, int]:
    byte = content[position]
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        position += 1
        byte = content[position]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position + 1


def _bytes(content: bytes, position: int) -> tuple[bytes, int]:
    size, position = _long(content, position)
    return content[position : position + size], position + size
