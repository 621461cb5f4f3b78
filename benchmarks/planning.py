"""How long it takes to plan a compaction of a table with very many files, and to commit one, and in how much memory.

The manifests are like those of Iceberg Java: ten thousand entries each, in deflated blocks of 64 KB, with the
statistics of 15 columns. All files are small, so that every one of them ends up in the plan. With deletes, one file of
ten has a position delete file of its own, and each partition has an equality delete. The commit replaces the files of
one partition, of which every manifest has some. Each measurement has a process of its own, and its peak memory is that
of the whole process.

    python -m benchmarks.planning --files 100000 1000000
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, TimestamptzType

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.commits import AddedFile, Replacement, commit_replacement
from tableformat.commits.manifests import FullManifestWriter
from tableformat.engine import WrittenFile
from tableformat.inspection import table_health
from tableformat.inspection.avro_columns import parse_avro
from tableformat.inspection.avro_records import raw_records
from tableformat.maintenance.compaction import CompactionOptions, plan_compaction

COLUMNS, PARTITIONS, TEMPLATES, BLOCK_BYTES, FILES_PER_MANIFEST = 15, 1000, 64, 64 * 1024, 10_000
SCHEMA = Schema(
    NestedField(1, "ts", TimestamptzType(), required=False),
    *(NestedField(number, f"c{number}", LongType(), required=False) for number in range(2, COLUMNS + 1)),
)
SPEC = PartitionSpec(PartitionField(1, 1000, DayTransform(), "ts_day"))
IDENTIFIER = ("db", "events")
WORKS = ("plan", "health", "commit")


def open_lake(folder: Path) -> Catalog:
    uri, warehouse = f"sqlite:///{folder / 'catalog.db'}", f"file://{folder / 'warehouse'}"
    catalog = open_catalog(SqlConfig(name="bench", uri=uri, warehouse=warehouse))
    catalog.create_namespace_if_not_exists("db")
    return catalog


class Generator:
    """Fills a table with entries for files that do not exist; planning reads no data."""

    def __init__(
        self,
        folder: Path,
        files: int,
        *,
        deletes: bool,
        files_per_manifest: int = FILES_PER_MANIFEST,
        name: str = IDENTIFIER[1],
    ) -> None:
        self._random = random.Random(7)
        self._files_per_manifest = files_per_manifest
        self._table = open_lake(folder).create_table(
            (IDENTIFIER[0], name), SCHEMA, partition_spec=SPEC, properties={"format-version": "2"}
        )
        self._folder = Path(self._table.location().removeprefix("file://")) / "metadata"
        manifests = self._data_manifests(files)
        self._commit(manifests)
        if deletes:
            self._commit([*manifests, *self._delete_manifests(files)])

    def _data_manifests(self, files: int) -> list[ManifestFile]:
        """One is written by PyIceberg; its entries are repeated, with other paths, partitions and sizes."""
        snapshot_id = self._table.metadata.new_snapshot_id()
        examples = [self._data_file(number) for number in range(TEMPLATES)]
        template = self._written(ManifestContent.DATA, snapshot_id, examples)
        content = Path(template.manifest_path.removeprefix("file://")).read_bytes()
        parsed = parse_avro(content, inline=frozenset({2, 102}))
        header, sync = content[: parsed.blocks_at], parsed.sync
        raw = raw_records([parsed], cuts=[0, len(parsed.columns)])
        tails = []
        for number in range(TEMPLATES):
            record = raw.content[raw.starts[0][number] : raw.starts[len(parsed.columns)][number]]
            head = _head(snapshot_id, number)
            if not record.startswith(head):
                raise ValueError("the head of an entry is not what PyIceberg writes")
            tails.append(record[len(head) :])
        manifests = []
        for first in range(0, files, self._files_per_manifest):
            numbers = range(first, min(first + self._files_per_manifest, files))
            path = self._folder / f"{uuid.uuid4()}-m0.avro"
            entries = (_head(snapshot_id, number) + tails[number % TEMPLATES] for number in numbers)
            path.write_bytes(header + b"".join(block + sync for block in _blocks(entries)))
            manifests.append(
                ManifestFile.from_args(
                    3,
                    manifest_path=f"file://{path}",
                    manifest_length=path.stat().st_size,
                    partition_spec_id=0,
                    content=ManifestContent.DATA,
                    sequence_number=-1,  # that of the list that it is in first
                    min_sequence_number=-1,
                    added_snapshot_id=snapshot_id,
                    added_files_count=len(numbers),
                    existing_files_count=0,
                    deleted_files_count=0,
                    added_rows_count=0,
                    existing_rows_count=0,
                    deleted_rows_count=0,
                )
            )
        return manifests

    def _delete_manifests(self, files: int) -> Iterator[ManifestFile]:
        snapshot_id, named = self._table.metadata.new_snapshot_id(), range(0, files, 10)
        for first in range(0, len(named), FILES_PER_MANIFEST):
            numbers = named[first : first + FILES_PER_MANIFEST]
            yield self._written(ManifestContent.DELETES, snapshot_id, [self._position_deletes(n) for n in numbers])
        equality = [self._equality_deletes(number) for number in range(min(PARTITIONS, files))]
        yield self._written(ManifestContent.DELETES, snapshot_id, equality)

    def _data_file(self, number: int) -> DataFile:
        columns = range(1, COLUMNS + 1)
        return _file(
            DataFileContent.DATA,
            number,
            file_path=_path(number),
            record_count=_records(number),
            file_size_in_bytes=_size(number),
            column_sizes={column: self._random.randrange(100_000) for column in columns},
            value_counts=dict.fromkeys(columns, 10_000),
            null_value_counts=dict.fromkeys(columns, 0),
            nan_value_counts={},
            lower_bounds={column: self._random.randbytes(8) for column in columns},
            upper_bounds={column: self._random.randbytes(8) for column in columns},
            split_offsets=[4],
            sort_order_id=0,
        )

    def _position_deletes(self, number: int) -> DataFile:
        return _file(DataFileContent.POSITION_DELETES, number, referenced_data_file=_path(number))

    def _equality_deletes(self, number: int) -> DataFile:
        return _file(DataFileContent.EQUALITY_DELETES, number, equality_ids=[2])

    def _written(self, content: ManifestContent, snapshot_id: int, files: Iterable[DataFile]) -> ManifestFile:
        output = self._table.io.new_output(f"file://{self._folder}/{uuid.uuid4()}-m0.avro")
        with FullManifestWriter(2, content, self._table.spec(), SCHEMA, output, snapshot_id, "deflate") as writer:
            for file in files:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file
                )
                writer.add(entry)
        return writer.to_manifest_file()

    def _commit(self, manifests: Sequence[ManifestFile]) -> None:
        table, head = self._table, self._table.metadata.current_snapshot_id
        number, snapshot_id = table.metadata.next_sequence_number(), manifests[-1].added_snapshot_id
        path = f"file://{self._folder}/snap-{snapshot_id}-{uuid.uuid4()}.avro"
        with write_manifest_list(2, table.io.new_output(path), snapshot_id, head, number, "deflate") as writer:
            writer.add_manifests(list(manifests))
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=head,
            sequence_number=number,
            manifest_list=path,
            summary=Summary(Operation.APPEND),
            schema_id=0,
        )
        update = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id)
        table.catalog.commit_table(
            table, (AssertRefSnapshotId(ref="main", snapshot_id=head),), (AddSnapshotUpdate(snapshot=snapshot), update)
        )
        table.refresh()


def _day(number: int) -> int:
    return 19_000 + number % PARTITIONS


def _path(number: int) -> str:
    scattered = number * 0x9E3779B97F4A7C15 % 2**64  # as random as the names that writers give
    return f"s3://bucket/warehouse/db/events/data/ts_day={_day(number)}/{scattered:016x}-{number:09d}.parquet"


def _records(number: int) -> int:
    return 10_000 + number % 5000


def _size(number: int) -> int:
    return 1_000_000 + number * 7919 % 1_000_000


def _file(content: DataFileContent, number: int, **arguments: Any) -> DataFile:
    known: dict[str, Any] = {
        "file_path": _path(number).replace(".parquet", f"-{content.name.lower()}.parquet"),
        "record_count": 100,
        "file_size_in_bytes": 5000,
    }
    file = DataFile.from_args(
        3, content=content, file_format=FileFormat.PARQUET, partition=Record(_day(number)), **(known | arguments)
    )
    file.spec_id = 0
    return file


def _head(snapshot_id: int, number: int) -> bytes:
    """The fields of a new entry in front of the statistics, as version 2 has them; its numbers are inherited."""
    path = _path(number).encode()
    return b"".join(
        [
            b"\x02\x02" + _long(snapshot_id) + b"\x00\x00\x00" + _long(len(path)) + path + b"\x0ePARQUET\x02",
            _long(_day(number)) + _long(_records(number)) + _long(_size(number)),
        ]
    )


def _blocks(entries: Iterable[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    for entry in entries:
        pending.append(entry)
        if len(pending) * len(entry) >= BLOCK_BYTES:
            yield _block(pending)
            pending = []
    if pending:
        yield _block(pending)


def _block(entries: Sequence[bytes]) -> bytes:
    deflated = zlib.compress(b"".join(entries), 1, wbits=-15)
    return _long(len(entries)) + _long(len(deflated)) + deflated


def _long(value: int) -> bytes:
    value, encoded = value << 1, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def measure(folder: Path, work: str, files: int) -> None:
    """In a process of its own, whose peak memory is printed too."""
    catalog = open_lake(folder)
    table = catalog.load_table(IDENTIFIER)
    before = _peak()
    started, busy = time.perf_counter(), time.process_time()
    if work == "health":
        health = table_health(table, small_file_bytes=384 * 1024 * 1024)
        found = {"files": health.small_files}
    elif work == "commit":
        summary = commit_replacement(catalog, IDENTIFIER, _replacement(table, files)).summary or {}
        found = {"files": int(summary["deleted-data-files"]), "manifests": int(summary["manifests-replaced"])}
    else:
        plan = plan_compaction(table, CompactionOptions(), now=datetime.now(UTC))
        found = {"files": plan.source_files, "tasks": len(plan.tasks)}
    seconds, processor = time.perf_counter() - started, time.process_time() - busy
    print(json.dumps({**found, "seconds": seconds, "cpu": processor, "peak_mib": _peak(), "before_mib": before}))


def _replacement(table: Table, files: int) -> Replacement:
    """Of the files of a partition, another one each time, by a single one that does not exist either."""
    head, chosen = table.current_snapshot(), len(table.metadata.snapshots)
    if head is None:
        raise ValueError("the table has no files")
    removed = {_path(number): _records(number) for number in range(chosen, files, PARTITIONS)}
    file = WrittenFile(
        path=f"{table.location()}/data/ts_day={_day(chosen)}/compacted.parquet",
        spec_id=0,
        partition=Record(_day(chosen)),
        size_bytes=2**28,
        records=sum(removed.values()),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=(4,),
        sort_order_id=None,
    )
    return Replacement(
        table_uuid=table.metadata.table_uuid,
        format_version=table.metadata.format_version,
        starting_snapshot_id=head.snapshot_id,
        removed=removed,
        added=(AddedFile(file.spec_id, file.partition, file),),
        rows_deleted=0,
        run_id=f"run-{chosen}",
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--works", nargs="+", default=WORKS, choices=WORKS)
    parser.add_argument("--measure", nargs=3, metavar=("FOLDER", "WORK", "FILES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        folder, work, files = arguments.measure
        measure(Path(folder), work, int(files))
        return
    for files in arguments.files:
        for deletes in (False, True):
            folder = Path(tempfile.mkdtemp(prefix="planning-"))
            try:
                Generator(folder, files, deletes=deletes)
                for work in arguments.works:
                    for _ in range(arguments.repeat):
                        command = [
                            sys.executable,
                            "-m",
                            "benchmarks.planning",
                            "--measure",
                            str(folder),
                            work,
                            str(files),
                        ]
                        found = json.loads(subprocess.check_output(command))
                        print(f"{work:<8}{files:>10} files{' with deletes' if deletes else '':<14}{found}", flush=True)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
