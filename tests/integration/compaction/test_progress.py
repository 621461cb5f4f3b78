"""Large plans commit as they go, and contents are verified before they are committed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tableformat.engine import RewriteTask, UnreadableDataFile, UnwritableDataFile, WrittenFile
from tableformat.engine.kernel import RowsChanged
from tableformat.engine.writing import RollingWriter
from tableformat.maintenance import Executor, FailedTask, InProcessExecutor, Outcomes
from tableformat.maintenance.compaction import CompactionOptions, CompactionResult, compact
from tableformat.maintenance.compaction.run import CompactionFailed
from tablejobs.executor import SessionExecutor
from tests.integration.compaction.deletes import delete_positions
from tests.integration.compaction.tables import (
    IDENTIFIER,
    NOW,
    create,
    data_files,
    plain_rows,
    put_file,
    stored_rows,
)

STEPWISE = CompactionOptions(target_file_bytes=1024 * 1024, commit_every_tasks=2)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """Five partitions of five small files each."""
    table = create(catalog, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")))
    for city in range(5):
        for number in range(5):
            put_file(table, plain_rows(city * 100 + number, 1), partition=Record(f"city {city}"))
    return table


def run(
    catalog: SqlCatalog, options: CompactionOptions = STEPWISE, executor: Executor | None = None
) -> CompactionResult:
    executor = executor or InProcessExecutor()
    return compact(catalog, IDENTIFIER, options, executor=executor, run_id="the run", now=NOW)


class StopsAfter(InProcessExecutor):
    def __init__(self, tasks: int, error: BaseException) -> None:
        self._tasks, self._error = tasks, error

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        yield from super().run(tasks[: self._tasks])
        raise self._error


def test_a_commit_is_made_every_so_many_tasks(catalog: SqlCatalog, table: Table) -> None:
    before = stored_rows(table)

    result = run(catalog)

    assert (result.commits, result.files_rewritten, result.files_added, result.rows) == (3, 25, 5, 25)
    assert result.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert stored_rows(table) == before


def test_what_was_done_before_a_failure_stays_done(catalog: SqlCatalog, table: Table) -> None:
    before = stored_rows(table)
    broken = UnreadableDataFile("somewhere", "is broken")

    with pytest.raises(UnreadableDataFile):
        run(catalog, executor=StopsAfter(3, broken))

    assert len(data_files(table.refresh())) == 3 + 10
    assert stored_rows(table) == before


def broken_file(table: Table) -> str:
    """The path of a file of the third partition that is not there any more."""
    path = sorted(file.file_path for file in data_files(table) if file.partition[0] == "city 2")[0]
    Path(path.removeprefix("file://")).unlink()
    return path


@pytest.mark.parametrize("on_spark", [False, pytest.param(True, marks=pytest.mark.xdist_group("spark"))])
def test_a_file_that_cannot_be_read_keeps_no_other_group_from_being_compacted(
    catalog: SqlCatalog, table: Table, on_spark: bool, request: pytest.FixtureRequest
) -> None:
    broken = broken_file(table)
    executor = SessionExecutor(request.getfixturevalue("spark").session) if on_spark else InProcessExecutor()

    with pytest.raises(UnreadableDataFile) as failure:
        run(catalog, executor=executor)

    assert failure.value.path == broken
    by_city = Counter(file.partition[0] for file in data_files(table.refresh()))
    assert by_city == {"city 0": 1, "city 1": 1, "city 2": 5, "city 3": 1, "city 4": 1}


@pytest.mark.parametrize("on_spark", [False, pytest.param(True, marks=pytest.mark.xdist_group("spark"))])
def test_without_partial_progress_it_leaves_the_table_and_its_folder_as_they_were(
    catalog: SqlCatalog, table: Table, on_spark: bool, request: pytest.FixtureRequest
) -> None:
    broken = broken_file(table)
    executor = SessionExecutor(request.getfixturevalue("spark").session) if on_spark else InProcessExecutor()
    folder, head = Path(table.location().removeprefix("file://")), table.metadata.current_snapshot_id
    before = sorted(folder.rglob("*.parquet"))

    with pytest.raises(UnreadableDataFile) as failure:
        run(catalog, STEPWISE.model_copy(update={"commit_every_tasks": None}), executor)

    assert failure.value.path == broken
    assert table.refresh().metadata.current_snapshot_id == head
    if not on_spark:  # which ends tasks where they are
        assert sorted(folder.rglob("*.parquet")) == before


def test_a_run_that_was_killed_goes_on_and_counts_what_it_did_before(catalog: SqlCatalog, table: Table) -> None:
    before = stored_rows(table)
    with pytest.raises(KeyboardInterrupt):
        run(catalog, executor=StopsAfter(3, KeyboardInterrupt()))
    assert len(data_files(table.refresh())) == 2 + 15

    result = run(catalog)

    assert (result.commits, result.files_rewritten, result.files_added, result.rows) == (3, 25, 5, 25)
    assert stored_rows(table.refresh()) == before
    assert run(catalog) == result.model_copy(update={"tasks": 0})


def test_a_verified_run_compares_contents_and_changes_nothing_else(catalog: SqlCatalog, table: Table) -> None:
    before = stored_rows(table)
    options = CompactionOptions(target_file_bytes=1024 * 1024, verify_contents=True)
    assert run(catalog, options).files_added == 5
    assert stored_rows(table.refresh()) == before


def test_contents_that_differ_abort_the_run(catalog: SqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that changes a value, though the number of rows is right, does not get as far as a commit."""
    real = RollingWriter.write_all

    def careless(self: RollingWriter, batches: Iterable[pa.RecordBatch]) -> tuple[WrittenFile, ...]:
        return real(self, map(without_quantities, batches))

    def without_quantities(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.schema.get_field_index("quantity")
        zeroes = pa.array([0] * batch.num_rows, batch.schema.field(column).type)
        return batch.set_column(column, batch.schema.field(column), zeroes)

    monkeypatch.setattr(RollingWriter, "write_all", careless)
    folder = Path(table.location().removeprefix("file://"))
    before = {path for path in folder.rglob("*") if path.is_file()}

    with pytest.raises(RowsChanged, match="the contents of the new files are not those of the old ones"):
        run(catalog, CompactionOptions(target_file_bytes=1024 * 1024, verify_contents=True))

    assert {path for path in folder.rglob("*") if path.is_file()} == before


class FailsAt(InProcessExecutor):
    """Gives the tasks at these places up, for a reason that may pass."""

    def __init__(self, *places: int) -> None:
        self._places = places

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        for place, task in enumerate(tasks):
            if place in self._places:
                yield FailedTask(task.task_id, UnwritableDataFile(f"file {place}", "storage is away"))
            else:
                yield from super().run([task])


def test_a_task_that_was_tried_in_vain_keeps_no_other_from_being_done(catalog: SqlCatalog, table: Table) -> None:
    with pytest.raises(UnwritableDataFile, match="file 1"):
        run(catalog, executor=FailsAt(1, 3))

    assert len(data_files(table.refresh())) == 3 + 10


def test_two_that_were_tried_in_vain_one_after_the_other_end_the_run(catalog: SqlCatalog, table: Table) -> None:
    """Storage is away then, and the rest would only be waited for."""
    with pytest.raises(UnwritableDataFile, match="file 2"):
        run(catalog, executor=FailsAt(1, 2))

    assert len(data_files(table.refresh())) == 1 + 20


def files_by_city(table: Table) -> Counter[str]:
    return Counter(file.partition[0] for file in data_files(table.refresh()) if not file.content.value)


class DeletesARow(InProcessExecutor):
    """While the tasks of a plan run, a writer deletes a row of a file of the third partition: each time anew."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
        yield from super().run(tasks)
        live = [file for file in data_files(self._table.refresh()) if not file.content.value]
        path = min(file.file_path for file in live if file.partition[0] == "city 2")
        delete_positions(self._table, {path: [0]}, partition=Record("city 2"))


def test_a_row_deleted_in_one_partition_keeps_no_other_from_being_compacted(catalog: SqlCatalog, table: Table) -> None:
    options = STEPWISE.model_copy(update={"commit_every_tasks": 64})
    folder = Path(table.location().removeprefix("file://"))

    with pytest.raises(CompactionFailed, match="changed under the run 4 times"):
        run(catalog, options, DeletesARow(table))

    assert files_by_city(table) == {"city 0": 1, "city 1": 1, "city 2": 5, "city 3": 1, "city 4": 1}
    in_the_table = {file.file_path for each in table.metadata.snapshots for file in data_files(table, each.snapshot_id)}
    assert {f"file://{path}" for path in folder.rglob("*.parquet")} == in_the_table


def test_what_a_writer_overtook_is_planned_again_and_the_result_counts_everything(
    catalog: SqlCatalog, table: Table
) -> None:
    class Once(DeletesARow):
        def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
            yield from (super().run if len(tasks) > 1 else InProcessExecutor().run)(tasks)

    result = run(catalog, STEPWISE.model_copy(update={"commit_every_tasks": 64}), Once(table))

    assert set(files_by_city(table).values()) == {1}
    assert (result.commits, result.replans, result.files_rewritten, result.rows_deleted) == (2, 1, 25, 1)


def test_without_partial_progress_a_conflict_is_one_of_the_whole_commit(catalog: SqlCatalog, table: Table) -> None:
    with pytest.raises(CompactionFailed):
        run(catalog, STEPWISE.model_copy(update={"commit_every_tasks": None}), DeletesARow(table))

    assert set(files_by_city(table).values()) == {5}
