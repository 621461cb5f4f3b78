"""Carries entries from manifests to others as bytes: nobody looks into what does not change.

An entry is a head (status, snapshot, sequence numbers) and a file. The head is written anew, with what was inherited
from the manifest in it, or with the snapshot by which a file leaves the table; and so is a first row id. The rest of
the file is copied, wherever the old manifest has a field in the very bytes that the new one needs; a field of a newer
format version that the old one lacks is null. A manifest for which that does not hold (a decimal partition that was
widened since, an unusual writer) is decoded and encoded, entry by entry, by PyIceberg.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tableformat.commits.manifests import EncodedEntries, encoded, entry_schema, entry_writer
from tableformat.inspection import Booleans, Integers, UnreadableManifest, integers, read_entries
from tableformat.inspection.avro_columns import AvroContent, BrokenAvro, Column, columns_of
from tableformat.inspection.avro_records import RawRecords, raw_records
from tableformat.inspection.decoding import DELETE_ENTRY, ENTRY, DecodedManifest, decode_manifests
from tableformat.inspection.reading import batches_of, fetched_manifests
from tableformat.inspection.snapshot_files import live_entries, number_partitions

_STATUS, _SNAPSHOT_ID, _SEQUENCE_NUMBER, _FILE_SEQUENCE_NUMBER = 0, 1, 3, 4
_DATA_FILE, _PARTITION, _FIRST_ROW_ID = 2, 102, 142
_INLINE: Final = frozenset({_DATA_FILE, _PARTITION})
_THREADS: Final = 2  # each has a batch of manifests in memory

_Source = tuple[ManifestFile, AvroContent, DecodedManifest]


@dataclass(frozen=True)
class CarriedEntries:
    """The live entries of some manifests of one spec and content, in the order of their partitions."""

    records: list[bytes]
    _rows: Integers
    _sequence_numbers: Integers
    _partitions: Integers
    """The number of each entry's partition."""
    _values: Callable[[int], Record]

    def part(self, start: int, stop: int) -> EncodedEntries:
        part = slice(start, stop)
        return EncodedEntries(
            records=self.records[part],
            rows=int(self._rows[part].sum()),
            partitions=[self._values(int(number)) for number in np.unique(self._partitions[part])],
            min_sequence_number=int(self._sequence_numbers[part].min()) if start < stop else None,
        )


def carried_entries(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    *,
    format_version: TableVersion,
    content: ManifestContent,
    spec: PartitionSpec,
    schema: Schema,
    order: Callable[[Record], Any],
) -> CarriedEntries:
    """As a manifest of that format version has them."""
    carrying = _Carrying(io, format_version, content, spec, schema, {}, 0)
    decoded, records = carrying.read_all(manifests)
    numbers, partitions = number_partitions(manifests, decoded)
    entries = live_entries(manifests, decoded, carrying.entry)
    ranks = np.zeros(len(partitions), np.int64)
    ranks[sorted(range(len(partitions)), key=lambda number: order(partitions.record(number)))] = np.arange(
        len(partitions)
    )
    places = np.argsort(ranks[numbers], kind="stable")
    return CarriedEntries(
        [records[place] for place in places],
        integers(entries, "records")[places],
        integers(entries, "sequence_number")[places],
        numbers[places],
        partitions.record,
    )


def filtered_entries(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    removed: Mapping[str, Collection[int]],
    *,
    snapshot_id: int,
    format_version: TableVersion,
    content: ManifestContent,
    spec: PartitionSpec,
    schema: Schema,
) -> EncodedEntries:
    """The live entries of some manifests of one spec and content, in their order.

    By the path of a manifest, `removed` has the places of those among its live entries whose files leave the table by
    the snapshot.
    """
    carrying = _Carrying(io, format_version, content, spec, schema, removed, snapshot_id)
    decoded, records = carrying.read_all(manifests)
    numbers, partitions = number_partitions(manifests, decoded)
    entries = live_entries(manifests, decoded, carrying.entry)
    leaves = carrying.leaves(manifests, decoded)
    rows, sequence_numbers = integers(entries, "records"), integers(entries, "sequence_number")[~leaves]
    return EncodedEntries(
        records=records,
        rows=int(rows[~leaves].sum()),
        partitions=[partitions.record(number) for number in np.unique(numbers).tolist()],
        min_sequence_number=int(sequence_numbers.min()) if len(sequence_numbers) else None,
        deleted=int(leaves.sum()),
        deleted_rows=int(rows[leaves].sum()),
    )


class _Carrying:
    """Entries of manifests of one kind on their way into a manifest of that kind."""

    def __init__(
        self,
        io: FileIO,
        version: TableVersion,
        content: ManifestContent,
        spec: PartitionSpec,
        schema: Schema,
        removed: Mapping[str, Collection[int]],
        snapshot_id: int,
    ) -> None:
        self._io = io
        self._content = content
        self._removed = removed
        self._snapshot_id = snapshot_id
        avro = AvroSchemaConversion().iceberg_to_avro(entry_schema(version, content, spec, schema), "manifest_entry")
        self._columns = columns_of(json.dumps(avro), inline=_INLINE)
        self._writer = entry_writer(version, content, spec, schema)
        self.entry = ENTRY if content == ManifestContent.DATA else DELETE_ENTRY

    def read_all(self, manifests: Sequence[ManifestFile]) -> tuple[list[DecodedManifest], list[bytes]]:
        """The decoded columns of each of the manifests, and the entries of all of them."""
        batches = [[manifests[number] for number in batch] for batch in batches_of(range(len(manifests)), manifests)]
        decoded: list[DecodedManifest] = []
        records: list[bytes] = []
        with ThreadPoolExecutor(_THREADS) as pool:
            for found in pool.map(self._read, batches):
                for manifest, its_records in found:
                    decoded.append(manifest)
                    records += its_records
        return decoded, records

    def leaves(self, manifests: Sequence[ManifestFile], decoded: Sequence[DecodedManifest]) -> Booleans:
        """Whether the file of each of the entries leaves the table."""
        found = [np.zeros(0, bool)]
        for manifest, its in zip(manifests, decoded, strict=True):
            going = np.zeros(its.entries.num_rows, bool)
            going[list(self._removed.get(manifest.manifest_path, ()))] = True
            found.append(going)
        return np.concatenate(found)

    def _read(self, manifests: Sequence[ManifestFile]) -> list[tuple[DecodedManifest, list[bytes]]]:
        """The decoded columns of each of the manifests, and its entries as they are to be written."""
        fetched = fetched_manifests(self._io, manifests)
        decoded = decode_manifests(fetched)
        alike: dict[str, list[int]] = defaultdict(list)
        for number, manifest in enumerate(fetched):
            alike[manifest.avro.form].append(number)
        found: dict[int, list[bytes]] = {}
        for numbers in alike.values():
            group = [(manifests[number], fetched[number].avro, decoded[number]) for number in numbers]
            found.update(zip(numbers, self._carried(group), strict=True))
        return [(manifest, found[number]) for number, manifest in enumerate(decoded)]

    def _carried(self, group: Sequence[_Source]) -> list[list[bytes]]:
        """The entries of each of the manifests, which were written alike: copied, if that can be."""
        parts = self._parts(group[0][1])
        copied = None if parts is None else self._copied(group, parts)
        if copied is not None:
            return copied
        if parts is not None and len(group) > 1:  # one of them is unusual
            return [self._carried([source])[0] for source in group]
        return [self._encoded(manifest) for manifest, _, _ in group]

    def _copied(self, group: Sequence[_Source], parts: "Sequence[_Part]") -> list[list[bytes]] | None:
        manifests, files, decoded = zip(*group, strict=True)
        if files[0].columns[_STATUS_PLACE].field_id != _STATUS or not all(map(_has_what_it_must, manifests, decoded)):
            return None
        cuts = {cut for part in parts if isinstance(part, _Copy) for cut in (part.start, part.stop)}
        try:
            raw = raw_records(files, cuts=cuts, keep=[_STATUS_PLACE])
        except BrokenAvro:
            return None  # decoding it will say what it is
        entries = live_entries(manifests, decoded, self.entry)
        records = self._joined(raw, parts, entries, self.leaves(manifests, decoded))
        ends = np.cumsum([manifest.entries.num_rows for manifest in decoded]).tolist()
        return [records[start:end] for start, end in pairwise([0, *ends])]

    def _parts(self, file: AvroContent) -> "list[_Part] | None":
        """What a file's bytes are made of, in terms of the old manifest's columns."""
        places = {(column.within, column.field_id): place for place, column in enumerate(file.columns)}
        parts: list[_Part] = []
        for column in self._columns:
            if column.within is None:
                continue  # the head
            place = places.get((column.within, column.field_id))
            if column.field_id == _FIRST_ROW_ID and column.within == _DATA_FILE and self.entry is ENTRY:
                parts.append(_FirstRowId(column))
            elif place is None:
                if not _may_be_null(column):
                    return None
                parts.append(_null(column))
            elif _shape(file.columns[place].plain_type) != _shape(column.plain_type):
                return None
            elif parts and isinstance(parts[-1], _Copy) and parts[-1].stop == place:
                parts[-1] = _Copy(parts[-1].start, place + 1)
            else:
                parts.append(_Copy(place, place + 1))
        return parts

    def _joined(self, raw: RawRecords, parts: "Sequence[_Part]", entries: pa.Table, leaves: Booleans) -> list[bytes]:
        if not entries.num_rows:
            return []
        live = np.flatnonzero(raw.columns[_STATUS_PLACE].to_numpy() != ManifestEntryStatus.DELETED.value)
        content, columns = raw.content, [self._heads(entries, leaves)]
        for part in parts:
            if isinstance(part, _Copy):
                bounds = zip(raw.starts[part.start][live].tolist(), raw.starts[part.stop][live].tolist(), strict=True)
                columns.append([content[start:stop] for start, stop in bounds])
            elif isinstance(part, _FirstRowId):
                columns.append([_value(part.column, number) for number in entries["first_row_id"].to_pylist()])
            else:
                columns.append([part] * len(live))
        return [b"".join(pieces) for pieces in zip(*columns, strict=True)]

    def _heads(self, entries: pa.Table, leaves: Booleans) -> list[bytes]:
        going = pa.array(leaves)
        values = {
            _STATUS: pc.if_else(going, ManifestEntryStatus.DELETED.value, ManifestEntryStatus.EXISTING.value),
            _SNAPSHOT_ID: pc.if_else(going, self._snapshot_id, entries["added_snapshot_id"]),
            _SEQUENCE_NUMBER: entries["sequence_number"],
            _FILE_SEQUENCE_NUMBER: entries["file_sequence_number"],
        }
        columns = [column for column in self._columns if column.within is None]
        known: dict[tuple[int | None, ...], bytes] = {}
        heads = []
        for head in zip(*(values[column.field_id].to_pylist() for column in columns), strict=True):
            if head not in known:
                known[head] = b"".join(_value(column, value) for column, value in zip(columns, head, strict=True))
            heads.append(known[head])
        return heads

    def _encoded(self, manifest: ManifestFile) -> list[bytes]:
        records, removed = [], self._removed.get(manifest.manifest_path, ())
        for place, entry in enumerate(read_entries(self._io, manifest)):
            if entry.sequence_number is None:
                raise UnreadableManifest(manifest.manifest_path, "an existing file has no sequence number")
            entry.status = ManifestEntryStatus.EXISTING
            if place in removed:
                entry.status, entry.snapshot_id = ManifestEntryStatus.DELETED, self._snapshot_id
            records.append(encoded(self._writer, entry))
        return records


@dataclass(frozen=True)
class _Copy:
    """The bytes of columns of the old manifest, from one up to another."""

    start: int
    stop: int


@dataclass(frozen=True)
class _FirstRowId:
    column: Column


_Part = _Copy | _FirstRowId | bytes
_STATUS_PLACE: Final = 0


def _has_what_it_must(manifest: ManifestFile, decoded: DecodedManifest) -> bool:
    """Whether nothing is missing that an existing entry must have, and that it does not inherit."""
    entries = decoded.entries
    if manifest.added_snapshot_id is None and entries["added_snapshot_id"].null_count:
        return False
    missing = [name for name in ("sequence_number", "file_sequence_number") if entries[name].null_count]
    if not missing or not manifest.sequence_number:  # before version 2, nothing had a number
        return True
    is_new = pc.equal(entries["status"], ManifestEntryStatus.ADDED.value)
    return all(pc.all(pc.or_(is_new, pc.is_valid(entries[name]))).as_py() for name in missing)


def _shape(plain_type: Any) -> Any:
    """Equal for types whose values have the same bytes: not so names, nor the width of numbers."""
    if isinstance(plain_type, list):
        return [_shape(choice) for choice in plain_type]
    if isinstance(plain_type, dict):
        if plain_type["type"] == "record":
            return ["record", *(_shape(field["type"]) for field in plain_type["fields"])]
        return {key: _shape(value) for key, value in plain_type.items() if key != "name"}
    return "long" if plain_type == "int" else plain_type


def _may_be_null(column: Column) -> bool:
    return isinstance(column.plain_type, list) and "null" in column.plain_type


def _null(column: Column) -> bytes:
    return _number(column.plain_type.index("null"))


def _value(column: Column, value: int | None) -> bytes:
    """A number, with the choice of null if there is one."""
    if not _may_be_null(column):
        if value is None:
            raise ValueError(f"field {column.field_id} must have a value")
        return _number(value)
    return _null(column) if value is None else _number(1 - column.plain_type.index("null")) + _number(value)


def _number(value: int) -> bytes:
    value, encoded_bytes = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        encoded_bytes.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded_bytes, value])
