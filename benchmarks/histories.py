"""Tables with very long histories or very many files, made in seconds: their files are stamped out of one example.

PyIceberg writes one manifest and one manifest list; all others are those bytes with other names and snapshot ids of
the same length. The metadata is put together from PyIceberg's own models and registered.
"""

import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.typedef import Identifier, Record
from pyiceberg.types import LongType, NestedField

from tableformat.commits.manifests import FullManifestWriter
from tableformat.inspection.avro_columns import parse_avro

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
_FIRST_ID = 2**61  # ids from here on take the same number of bytes
_SECOND = 1000


def long_history(catalog: Catalog, identifier: Identifier, root: Path, snapshots: int, *, bytes_each: int = 1) -> Table:
    """Each snapshot replaces the one data file of the snapshot before; the last is an hour old, and all a second apart.

    `root` is where the table's location is on this machine.
    """
    table = catalog.create_table(identifier, SCHEMA, properties={"format-version": "2"})
    for folder in ("data", "metadata"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    stamp = _Stamp(table, root)
    first_ms = int(time.time() * 1000) - 3600 * _SECOND - snapshots * _SECOND
    made = []
    for number in range(snapshots):
        (root / "data" / f"{number:08d}.parquet").write_bytes(b"x" * bytes_each)
        stamp.manifest(number)
        made.append(
            Snapshot(
                snapshot_id=_FIRST_ID + number,
                parent_snapshot_id=_FIRST_ID + number - 1 if number else None,
                sequence_number=number + 1,
                timestamp_ms=first_ms + number * _SECOND,
                manifest_list=stamp.manifest_list(number),
                summary=Summary(Operation.OVERWRITE),
                schema_id=0,
            )
        )
    return _registered(catalog, table, made)


def many_files(
    catalog: Catalog, identifier: Identifier, root: Path, names: Sequence[str], *, per_manifest: int = 10_000
) -> Table:
    """One snapshot with these data files, which are not made here. All names have one length."""
    table = catalog.create_table(identifier, SCHEMA, properties={"format-version": "2"})
    (root / "metadata").mkdir(parents=True, exist_ok=True)
    example = _manifest(table, [names[0]], ManifestEntryStatus.ADDED)
    content = _local(table, root, example.manifest_path).read_bytes()
    start = parse_avro(content).blocks_at
    header, sync = content[:start], content[start - 16 : start]
    record = _record(content[start:-16])
    path = f"{table.location()}/data/{{}}"
    old = path.format(names[0]).encode()
    manifests = []
    for first in range(0, len(names), per_manifest):
        some = names[first : first + per_manifest]
        records = b"".join(record.replace(old, path.format(name).encode()) for name in some)
        target = root / "metadata" / f"{uuid.uuid4()}-m0.avro"
        target.write_bytes(header + _long(len(some)) + _long(len(records)) + records + sync)
        manifests.append(
            ManifestFile.from_args(
                2,
                manifest_path=f"{table.location()}/metadata/{target.name}",
                manifest_length=target.stat().st_size,
                partition_spec_id=0,
                content=ManifestContent.DATA,
                sequence_number=1,
                min_sequence_number=1,
                added_snapshot_id=_FIRST_ID,
                added_files_count=len(some),
                existing_files_count=0,
                deleted_files_count=0,
                added_rows_count=len(some),
                existing_rows_count=0,
                deleted_rows_count=0,
            )
        )
    _local(table, root, example.manifest_path).unlink()
    snapshot = Snapshot(
        snapshot_id=_FIRST_ID,
        sequence_number=1,
        timestamp_ms=int(time.time() * 1000),
        manifest_list=_manifest_list(table, manifests),
        summary=Summary(Operation.APPEND),
        schema_id=0,
    )
    return _registered(catalog, table, [snapshot])


class _Stamp:
    def __init__(self, table: Table, root: Path) -> None:
        self._table = table
        self._root = root
        manifest = _manifest(table, [_name(0), _name(1)], ManifestEntryStatus.DELETED)
        self._manifest = _local(table, root, manifest.manifest_path).read_bytes()
        _local(table, root, manifest.manifest_path).unlink()
        example = ManifestFile(*(manifest[position] for position in range(len(manifest))))
        example[0] = f"{table.location()}/metadata/{_name(0)}-m0.avro"
        example[1] = len(self._manifest)
        location = _manifest_list(table, [example])
        self._list = _local(table, root, location).read_bytes()
        _local(table, root, location).unlink()

    def manifest(self, number: int) -> None:
        """The snapshot's file is new in it, and that of the snapshot before is removed."""
        before = _name(max(0, number - 1)).encode()
        content = self._manifest.replace(_name(0).encode(), b"@" * len(before)).replace(
            _name(1).encode(), _name(number).encode()
        )
        content = content.replace(b"@" * len(before), before).replace(_long(_FIRST_ID), _long(_FIRST_ID + number))
        (self._root / "metadata" / f"{_name(number)}-m0.avro").write_bytes(content)

    def manifest_list(self, number: int) -> str:
        content = self._list.replace(_name(0).encode(), _name(number).encode())
        content = content.replace(_long(_FIRST_ID), _long(_FIRST_ID + number))
        (self._root / "metadata" / f"snap-{_name(number)}.avro").write_bytes(content)
        return f"{self._table.location()}/metadata/snap-{_name(number)}.avro"


def _name(number: int) -> str:
    return f"{number:08d}"


def _manifest(table: Table, names: Sequence[str], first: ManifestEntryStatus) -> ManifestFile:
    """Uncompressed, so that what is in it can be found and changed."""
    path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    with FullManifestWriter(
        2, ManifestContent.DATA, table.spec(), SCHEMA, table.io.new_output(path), _FIRST_ID, "null"
    ) as writer:
        for position, name in enumerate(names):
            file = DataFile.from_args(
                3,
                content=DataFileContent.DATA,
                file_path=f"{table.location()}/data/{name}{'' if name.endswith('.parquet') else '.parquet'}",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1,
                file_size_in_bytes=1,
            )
            file.spec_id = 0
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=_FIRST_ID,
                sequence_number=1,
                file_sequence_number=1,
                data_file=file,
            )
            if first == ManifestEntryStatus.DELETED and position == 0:
                writer.delete(entry)
            else:
                writer.add(entry)
    return writer.to_manifest_file()


def _manifest_list(table: Table, manifests: Sequence[ManifestFile]) -> str:
    location = f"{table.location()}/metadata/snap-{uuid.uuid4()}.avro"
    with write_manifest_list(2, table.io.new_output(location), _FIRST_ID, None, 1, "null") as writer:
        writer.add_manifests(list(manifests))
    return location


def _registered(catalog: Catalog, table: Table, snapshots: Sequence[Snapshot]) -> Table:
    """The table with these snapshots instead, under its name."""
    identifier, last = table.name(), snapshots[-1]
    metadata = table.metadata.model_copy(
        update={
            "snapshots": list(snapshots),
            "current_snapshot_id": last.snapshot_id,
            "refs": {
                "main": SnapshotRef(
                    snapshot_id=last.snapshot_id,
                    snapshot_ref_type=SnapshotRefType.BRANCH,
                    min_snapshots_to_keep=None,
                    max_snapshot_age_ms=None,
                    max_ref_age_ms=None,
                )
            },
            "snapshot_log": [
                SnapshotLogEntry(snapshot_id=each.snapshot_id, timestamp_ms=each.timestamp_ms) for each in snapshots
            ],
            "last_sequence_number": last.sequence_number,
            "last_updated_ms": last.timestamp_ms,
        }
    )
    location = f"{table.location()}/metadata/00001-{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(metadata, table.io.new_output(location))
    table.io.delete(table.metadata_location)
    catalog.drop_table(identifier)
    return catalog.register_table(identifier, location)


def _local(table: Table, root: Path, location: str) -> Path:
    return root / location.removeprefix(table.location()).removeprefix("/")


def _record(block: bytes) -> bytes:
    """The one record of a block, behind its count and its size."""
    position = 0
    for _ in range(2):
        while block[position] & 0x80:
            position += 1
        position += 1
    return block[position:]


def _long(value: int) -> bytes:
    value, encoded = value << 1, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
