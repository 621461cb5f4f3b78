"""Small tables on SQLite and a local folder, their rows, and files put into them as an arbitrary writer would."""

import io
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, compact
from tests.integration.compaction.deletes import commit_files

IDENTIFIER = ("db", "events")
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
PLAIN = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "quantity", IntegerType(), required=False),
)
SMALL_TARGET = CompactionOptions(target_file_bytes=1024 * 1024)


def sql_catalog(folder: Path, name: str = "test") -> SqlCatalog:
    """A catalog on the folder; several of them on one folder are one catalog to many processes."""
    return SqlCatalog(
        name,
        uri=f"sqlite:///{folder / 'catalog.db'}",
        warehouse=f"file://{folder / 'warehouse'}",
        init_catalog_tables="true",
    )


def create(
    catalog: Catalog,
    schema: Schema = PLAIN,
    *,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    properties: Mapping[str, str] | None = None,
    format_version: int = 2,
) -> Table:
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(
        IDENTIFIER,
        schema,
        partition_spec=spec,
        properties={"format-version": str(format_version), **(properties or {})},
    )


def plain_rows(start: int, count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "city": [None if i % 7 == 0 else f"city {i % 5}" for i in range(start, start + count)],
            "quantity": pa.array([i % 100 for i in range(start, start + count)], pa.int32()),
        },
        schema=pa.schema([pa.field("id", pa.int64(), nullable=False), ("city", pa.string()), ("quantity", pa.int32())]),
    )


def append_many(table: Table, files: int, rows: int = 10, start: int = 0) -> None:
    """So many appends, each of one small file."""
    for number in range(files):
        table.append(plain_rows(start + number * rows, rows))


def put_file(table: Table, rows: pa.Table, *, partition: Record | None = None, field_ids: bool = True) -> str:
    """Commit the rows as a file that keeps them as they are: no writer of ours or PyIceberg's stands between."""
    [path] = put_files(table, [rows], partition=partition, field_ids=field_ids)
    return path


def put_files(
    table: Table, contents: Sequence[pa.Table], *, partition: Record | None = None, field_ids: bool = True
) -> list[str]:
    """The same for many files, in one commit."""
    files = [_stored(table, rows, partition, field_ids) for rows in contents]
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)
    return [file.file_path for file in files]


def put_files_as_java(table: Table, contents: Sequence[pa.Table], *, partition: Record) -> None:
    """The same for a partition that PyIceberg's own commit has no name for."""
    commit_files(table, [_stored(table, rows, partition, True) for rows in contents], ManifestContent.DATA)


def _stored(table: Table, rows: pa.Table, partition: Record | None, field_ids: bool) -> DataFile:
    if field_ids:
        rows = rows.cast(schema_to_pyarrow(table.schema()))
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, store_schema=False, store_decimal_as_integer=True)
    path = f"{table.location()}/data/{uuid.uuid4()}.parquet"
    with table.io.new_output(path).create() as stream:
        stream.write(buffer.getvalue())
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(buffer.getvalue()),
    )
    file.spec_id = table.spec().spec_id
    return file


def shuffled_files(table: Table, files: int = 6, rows: int = 2000) -> list[str]:
    """The paths of files whose rows are in no order, and not apart by id either."""
    order = np.random.default_rng(3).permutation(files * rows)
    everything = plain_rows(0, files * rows).take(pa.array(order))
    return [put_file(table, everything.slice(number * rows, rows)) for number in range(files)]


def repeated_cities(table: Table, files: int = 24, rows: int = 5_000) -> None:
    """Files whose rows, in the order of their long texts, take a third of the bytes or less."""
    random = np.random.default_rng(3)
    cities = np.array([f"{place:032x}" for place in random.integers(0, 2**62, 3000)])
    for number in range(files):
        part = plain_rows(number * rows, rows)
        put_file(table, part.set_column(1, "city", pa.array(cities[random.integers(0, 3000, rows)])))


def assert_near_the_target_and_in_order(table: Table, target: int) -> None:
    """By city and id."""
    files = data_files(table)
    near = [file.file_size_in_bytes / target for file in files]
    assert len(files) > 2
    assert 0.6 < min(near) <= max(near) < 1.7, near
    contents = [pq.read_table(file.file_path.removeprefix("file://")) for file in files]
    rows = [list(zip(part["city"].to_pylist(), part["id"].to_pylist(), strict=True)) for part in contents]
    rows.sort()
    everything = [row for part in rows for row in part]
    assert everything == sorted(everything)


def data_files(table: Table, snapshot_id: int | None = None) -> list[DataFile]:
    snapshot = table.metadata.snapshot_by_id(snapshot_id) if snapshot_id else table.current_snapshot()
    if snapshot is None:
        return []
    return [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def stored_rows(table: Table, snapshot_id: int | None = None) -> Counter[str]:
    """The rows as the files have them, as a multiset; only for tables whose schema never changed."""
    rows: Counter[str] = Counter()
    for file in data_files(table, snapshot_id):
        with table.io.new_input(file.file_path).open() as stream:
            rows.update(_canonical(pq.read_table(stream).to_pylist()))
    return rows


def scanned_rows(table: Table, snapshot_id: int | None = None) -> Counter[str]:
    """The rows as PyIceberg reads them, as a multiset."""
    return Counter(_canonical(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()))


def _canonical(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [repr(row) for row in rows]


def compacted(
    catalog: Catalog, options: CompactionOptions = SMALL_TARGET, run_id: str | None = None
) -> CompactionResult:
    return compact(
        catalog, IDENTIFIER, options, executor=InProcessExecutor(), run_id=run_id or uuid.uuid4().hex, now=NOW
    )
