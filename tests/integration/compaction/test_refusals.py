"""What cannot be rewritten exactly is refused before anything is written, and damaged files fail with their names."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tableformat.engine import UnreadableDataFile, UnwritableDataFile
from tableformat.maintenance import UnsupportedTable
from tableformat.maintenance.compaction import CompactionOptions, plan_compaction
from tests.integration.compaction.tables import (
    NOW,
    SMALL_TARGET,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    put_file,
    stored_rows,
)


def append_file(table: Table, **arguments: Any) -> None:
    """Commit an entry as another engine might have."""
    known: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": f"{table.location()}/data/x.parquet",
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": 1,
        "file_size_in_bytes": 100,
    }
    file = DataFile.from_args(**(known | arguments))
    file.spec_id = 0
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"file_format": FileFormat.PUFFIN}, "PUFFIN, which the kernel does not read"),
        ({"key_metadata": b"key"}, "is encrypted"),
    ],
)
def test_a_file_that_cannot_be_rewritten_exactly_makes_the_plan_refuse(
    catalog: SqlCatalog, arguments: dict[str, object], reason: str
) -> None:
    table = create(catalog)
    append_many(table, 4)
    append_file(table, **arguments)

    with pytest.raises(UnsupportedTable, match=reason) as refusal:
        plan_compaction(table, SMALL_TARGET, now=NOW)

    assert "table db.events is left alone" in str(refusal.value)


def test_a_table_without_columns_is_left_alone(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 5)
    with table.update_schema(allow_incompatible_changes=True) as update:
        for column in table.schema().column_names:
            update.delete_column(column)

    with pytest.raises(UnsupportedTable, match="it has no columns"):
        plan_compaction(table.refresh(), SMALL_TARGET, now=NOW)


@pytest.mark.parametrize("changes", [{}, {"max_bytes_per_run": 1}, {"commit_every_tasks": 1}])
def test_a_file_that_is_there_twice_keeps_its_rows(catalog: SqlCatalog, changes: dict[str, int]) -> None:
    table = create(catalog)
    append_many(table, 5, rows=100)
    twice = data_files(table)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in twice:
            append.append_data_file(file)
    before = stored_rows(table)
    in_two_tasks = CompactionOptions(target_file_bytes=sum(file.file_size_in_bytes for file in twice), **changes)
    in_two_tasks = in_two_tasks.model_copy(update={"max_bytes_per_task": in_two_tasks.target_file_bytes})

    with pytest.raises(UnsupportedTable, match="more than once"):
        compacted(catalog, in_two_tasks)

    assert stored_rows(table.refresh()) == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4 : len(content) - 8] = bytes(len(content) - 12)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (Path.unlink, "does not exist"),
        (truncate, "bytes, and its manifest says"),
        (damage, "Couldn't deserialize thrift"),
    ],
)
def test_a_broken_file_fails_the_run_with_its_name_and_leaves_the_table_as_it_was(
    catalog: SqlCatalog, break_it: Callable[[Path], None], reason: str
) -> None:
    table = create(catalog)
    append_many(table, 6)
    broken = data_files(table)[3].file_path
    break_it(Path(broken.removeprefix("file://")))
    folder = Path(table.location().removeprefix("file://"))
    before = {path for path in folder.rglob("*") if path.is_file()}

    with pytest.raises(UnreadableDataFile, match=reason) as failure:
        compacted(catalog)

    assert failure.value.path == broken
    assert {path for path in folder.rglob("*") if path.is_file()} == before
    assert len(table.refresh().metadata.snapshots) == 6


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """The system refuses to let a file grow beyond this, as it refuses on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_storage_that_takes_no_more_fails_the_run_and_leaves_the_table_as_it_was(
    catalog: SqlCatalog, request: pytest.FixtureRequest
) -> None:
    table = create(catalog)
    for seed in range(5):
        rows = plain_rows(0, 10_000)
        incompressible = pa.array(np.random.default_rng(seed).integers(0, 2**63, rows.num_rows))
        put_file(table, rows.set_column(0, rows.schema.field("id"), incompressible))
    folder = Path(table.location().removeprefix("file://"))
    before = {path for path in folder.rglob("*") if path.is_file()}
    request.getfixturevalue("small_files_only")

    with pytest.raises(UnwritableDataFile, match=r"cannot be written: .*File too large"):
        compacted(catalog, CompactionOptions(target_file_bytes=10**6))

    assert {path for path in folder.rglob("*") if path.is_file()} == before
    assert len(table.refresh().metadata.snapshots) == 5


def test_a_wrong_row_count_in_a_manifest_is_noticed(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 4)
    path = data_files(table)[0].file_path
    size = len(table.io.new_input(path))
    copied = f"{table.location()}/data/copy.parquet"
    with table.io.new_input(path).open() as source, table.io.new_output(copied).create() as target:
        target.write(source.read())
    append_file(table, file_path=copied, record_count=11, file_size_in_bytes=size)

    with pytest.raises(UnreadableDataFile, match="has 10 rows, and its manifest says 11"):
        compacted(catalog)


def test_a_column_of_a_foreign_type_fails_the_run_with_the_files_name(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 4)
    fields = table.schema().as_arrow()
    foreign = pa.schema([fields.field("id"), fields.field("city").with_type(pa.int64()), fields.field("quantity")])
    path = put_file(table, pa.table([[1], [2], pa.array([3], pa.int32())], schema=foreign), field_ids=False)

    with pytest.raises(UnreadableDataFile, match=r"column 'city' is int64, which is not a form of string") as failure:
        compacted(catalog)

    assert failure.value.path == path


def test_a_null_in_a_required_column_is_never_written_as_something_else(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 4)
    fields = table.schema().as_arrow()
    nullable = pa.schema([fields.field("id").with_nullable(True), fields.field("city"), fields.field("quantity")])
    put_file(table, pa.Table.from_pylist([{"id": None}], schema=nullable), field_ids=False)
    before = stored_rows(table)

    with pytest.raises(UnreadableDataFile, match="required column 'id'"):
        compacted(catalog)

    assert stored_rows(table.refresh()) == before


def test_a_file_without_field_ids_and_without_a_name_mapping_is_not_guessed_at(catalog: SqlCatalog) -> None:
    table = create(catalog)
    append_many(table, 4)
    put_file(table, pa.table({"id": pa.array([1], pa.int64())}), field_ids=False)

    with pytest.raises(UnreadableDataFile, match="no field ids, and the table has no name mapping"):
        compacted(catalog)
