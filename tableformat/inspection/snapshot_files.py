"""The live files of one snapshot in Arrow: what every plan and every health figure starts from.

A file is a row of a table and a partition is a number, so that questions about a million files are a few operations on
columns. Python objects are made for those files and partitions only that somebody asks for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from tableformat.inspection.decoding import (
    DELETE_ENTRY,
    ENTRY,
    FORMATS,
    DecodedManifest,
    UnreadableManifest,
    ValueForm,
    partition_column,
)
from tableformat.inspection.files import LiveFile
from tableformat.inspection.manifests import manifest_first_row_id, read_manifests
from tableformat.inspection.reading import SHARED_CACHE, ManifestCache, decoded_manifests

Integers = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Partitions:
    """Each partition that has a file, once; its number is its place. Partitions of two specs are never one."""

    spec_ids: Integers
    _places: Integers = field(repr=False)
    _values: dict[int, pa.Table] = field(repr=False)
    _forms: dict[int, tuple[ValueForm, ...]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.spec_ids)

    def record(self, number: int) -> Record:
        """The partition's values as PyIceberg reads them from a manifest."""
        spec_id = int(self.spec_ids[number])
        place = int(self._places[number])
        values = [column[place].as_py() for column in self._values[spec_id].columns]
        return Record(
            *(
                UUID(bytes=value) if form is ValueForm.UUID and value is not None else value
                for value, form in zip(values, self._forms[spec_id], strict=True)
            )
        )


@dataclass(frozen=True)
class LiveManifest:
    manifest: ManifestFile
    files: int
    """How many live files it has: as many rows, behind those of the manifests before it."""


@dataclass(frozen=True)
class SnapshotFiles:
    """A row for each file: where it is, its size and its rows, its spec and the number of its partition, its sequence
    numbers, who added it, its sort order, row ids and encryption; of deletes, what they apply to as well."""

    manifests: tuple[ManifestFile, ...]
    data: pa.Table
    deletes: pa.Table
    partitions: Partitions
    data_manifests: tuple[LiveManifest, ...] = ()
    delete_manifests: tuple[LiveManifest, ...] = ()

    def data_files(self, rows: Integers) -> list[LiveFile]:
        return self._live_files(self.data.take(pa.array(rows, pa.int64())))

    def delete_files(self, rows: Integers) -> list[LiveFile]:
        return self._live_files(self.deletes.take(pa.array(rows, pa.int64())))

    def _live_files(self, table: pa.Table) -> list[LiveFile]:
        records = {number: self.partitions.record(number) for number in set(table["partition"].to_pylist())}
        return [
            LiveFile(
                path=row["path"],
                content=DataFileContent(row.get("content", 0)),
                file_format=FORMATS[row["file_format"]],
                size_bytes=row["size_bytes"],
                records=row["records"],
                spec_id=row["spec_id"],
                partition=records[row["partition"]],
                sequence_number=row["sequence_number"],
                added_snapshot_id=row["added_snapshot_id"],
                encrypted=row["encrypted"],
                sort_order_id=row["sort_order_id"],
                first_row_id=row["first_row_id"],
                equality_ids=tuple(row.get("equality_ids") or ()),
                path_bounds=_pair(row.get("path_lower"), row.get("path_upper")),
                content_range=_pair(row.get("content_offset"), row.get("content_size")),
            )
            for row in table.to_pylist()
        ]


T = TypeVar("T")


def _pair(first: T | None, second: T | None) -> tuple[T, T] | None:
    return None if first is None or second is None else (first, second)


def integers(table: pa.Table, column: str) -> Integers:
    """A column of numbers that is never null."""
    values: Integers = table[column].to_numpy()
    return values


def snapshot_files(io: FileIO, snapshot: Snapshot | None, cache: ManifestCache = SHARED_CACHE) -> SnapshotFiles:
    """Every live file of the snapshot, in the order of its manifests."""
    manifests = () if snapshot is None else tuple(read_manifests(io, snapshot))
    live = [manifest for manifest in manifests if manifest.has_added_files() or manifest.has_existing_files()]
    of_data = [manifest for manifest in live if manifest.content == ManifestContent.DATA]
    of_deletes = [manifest for manifest in live if manifest.content == ManifestContent.DELETES]
    decoded = decoded_manifests(io, [*of_data, *of_deletes], cache)
    known = [
        LiveManifest(manifest, found.entries.num_rows)
        for manifest, found in zip([*of_data, *of_deletes], decoded, strict=True)
    ]
    numbers, partitions = number_partitions([*of_data, *of_deletes], decoded)
    data = live_entries(of_data, decoded[: len(of_data)], ENTRY)
    deletes = live_entries(of_deletes, decoded[len(of_data) :], DELETE_ENTRY)
    return SnapshotFiles(
        manifests,
        data.append_column("partition", pa.array(numbers[: data.num_rows])),
        deletes.append_column("partition", pa.array(numbers[data.num_rows :])),
        partitions,
        tuple(known[: len(of_data)]),
        tuple(known[len(of_data) :]),
    )


def live_entries(manifests: Sequence[ManifestFile], decoded: Sequence[DecodedManifest], schema: pa.Schema) -> pa.Table:
    """The entries of the manifests, with what they inherit from them."""
    entries = pa.concat_tables([schema.empty_table(), *(d.entries.select(schema.names) for d in decoded)])
    counts = [manifest.entries.num_rows for manifest in decoded]

    def of_manifest(values: Iterable[int | None]) -> pa.Array:
        known = list(values)
        filled = np.repeat(np.array([value or 0 for value in known], np.int64), counts)
        return pa.array(filled, mask=np.repeat(np.array([value is None for value in known], bool), counts))

    sequence_numbers = of_manifest(manifest.sequence_number or 0 for manifest in manifests)
    # Only a file that its manifest's snapshot added has no number of its own; before version 2, nothing had one.
    is_new = pc.or_(
        pc.equal(entries["status"], ManifestEntryStatus.ADDED.value), pc.equal(sequence_numbers, pa.scalar(0))
    )
    inherited = pc.if_else(is_new, sequence_numbers, pa.scalar(None, pa.int64()))
    of_snapshot = of_manifest(manifest.added_snapshot_id for manifest in manifests)
    spec_ids = of_manifest(manifest.partition_spec_id for manifest in manifests)
    columns = {
        "spec_id": spec_ids.cast(pa.int32()),
        "sequence_number": pc.coalesce(entries["sequence_number"], inherited, pa.scalar(0)),
        "file_sequence_number": pc.coalesce(entries["file_sequence_number"], inherited),
        "added_snapshot_id": pc.coalesce(entries["added_snapshot_id"], of_snapshot),
    }
    if schema is ENTRY:
        columns["first_row_id"] = _first_row_ids(manifests, entries, counts)
    untouched = [name for name in schema.names if name not in columns and name != "status"]
    # In one piece each: to take rows of a column in many pieces, Arrow would put it together every time.
    return pa.table({name: entries[name] for name in untouched} | columns).combine_chunks()


def _first_row_ids(manifests: Sequence[ManifestFile], entries: pa.Table, counts: Sequence[int]) -> pa.ChunkedArray:
    """Files without row ids of their own take the next ones of their manifest, in its order."""
    own = entries["first_row_id"]
    first = [manifest_first_row_id(manifest) for manifest in manifests]
    if not entries.num_rows or all(number is None for number in first):
        return own
    takes = own.is_null().to_numpy()
    rows = np.where(takes, integers(entries, "records"), 0)
    before = np.cumsum(rows) - rows
    starts = np.cumsum(counts) - counts
    of_manifest = np.repeat(before[np.minimum(starts, len(before) - 1)], counts)
    numbers = np.repeat([number or 0 for number in first], counts) + before - of_manifest
    unknown = np.repeat([number is None for number in first], counts)
    return pc.coalesce(own, pa.array(numbers, pa.int64(), mask=unknown))


def number_partitions(
    manifests: Sequence[ManifestFile], decoded: Sequence[DecodedManifest]
) -> tuple[Integers, Partitions]:
    """The number of each file's partition, for the files of all the manifests in their order."""
    counts = np.array([manifest.entries.num_rows for manifest in decoded], np.int64)
    starts = np.cumsum(counts) - counts
    numbers: Integers = np.zeros(int(counts.sum()), np.int64)  # products of them must not run over
    spec_ids: list[Integers] = []
    places: list[Integers] = []
    values: dict[int, pa.Table] = {}
    forms: dict[int, tuple[ValueForm, ...]] = {}
    known = 0
    for spec_id in sorted({manifest.partition_spec_id for manifest in manifests}):
        chosen = [number for number, manifest in enumerate(manifests) if manifest.partition_spec_id == spec_id]
        forms[spec_id] = _forms([manifests[number] for number in chosen], [decoded[number] for number in chosen])
        columns = [
            _in_one_form([decoded[number].entries[partition_column(place)] for number in chosen])
            for place in range(len(forms[spec_id]))
        ]
        rows = np.concatenate([np.arange(starts[number], starts[number] + counts[number]) for number in chosen])
        codes, first = _distinct(columns, len(rows))
        numbers[rows] = codes + known
        known += len(first)
        spec_ids.append(np.full(len(first), spec_id, np.int64))
        places.append(np.arange(len(first)))
        values[spec_id] = pa.table([column.take(first) for column in columns], [str(n) for n in range(len(columns))])
    return numbers, Partitions(_joined(spec_ids), _joined(places), values, forms)


def _forms(manifests: Sequence[ManifestFile], decoded: Sequence[DecodedManifest]) -> tuple[ValueForm, ...]:
    """A writer that knew no type for a field had nothing but nulls in it, which have no form."""
    fields = len(decoded[0].forms)
    for manifest, found in zip(manifests, decoded, strict=True):
        if len(found.forms) != fields:
            reason = f"its files have {len(found.forms)} partition values, and others of their spec have {fields}"
            raise UnreadableManifest(manifest.manifest_path, reason)
    by_field = zip(*(found.forms for found in decoded), strict=True)
    return tuple(ValueForm.UUID if ValueForm.UUID in found else ValueForm.AS_IS for found in by_field)


def _joined(arrays: list[Integers]) -> Integers:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _in_one_form(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The values of one partition field, whose type may have been another, or unknown, when a manifest was written."""
    known = [column.type for column in columns if not pa.types.is_null(column.type)]
    # Types only ever become wider: a value that is cast to the widest stays itself.
    data_type = max(known, key=_width) if known else pa.null()
    return pa.chunked_array(
        [chunk.cast(data_type) for column in columns for chunk in column.chunks], data_type
    ).combine_chunks()


def _width(data_type: pa.DataType) -> int:
    if pa.types.is_decimal(data_type):
        return int(data_type.precision)
    return int(data_type.bit_width) if pa.types.is_primitive(data_type) else 0


def _distinct(columns: Sequence[pa.Array], rows: int) -> tuple[Integers, Integers]:
    """A number for each row, equal where all columns are, and the first row of each number."""
    combined: Integers = np.zeros(rows, np.int64)
    for column in columns:
        codes, distinct = _codes(column)
        # Neither factor is more than the number of rows, so this stays far from the end of the numbers.
        combined, _ = _codes(pa.array(combined * distinct + codes))
    codes, distinct = _codes(pa.array(combined))
    first = np.zeros(distinct, np.int64)
    first[codes[::-1]] = np.arange(rows)[::-1]
    return codes, first


def _codes(values: pa.Array) -> tuple[Integers, int]:
    """Equal for equal values, null among them, and for all that are not a number; 0.0 and -0.0 are two values."""
    if pa.types.is_floating(values.type):
        floats = values.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
        floats[np.isnan(floats)] = np.nan
        values = pa.array(floats.view(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
