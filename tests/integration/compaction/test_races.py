"""Other writers, other compactions and broken connections between plan and commit: no row is lost or comes back."""

import re
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate

from tableformat.catalogs import SqlConfig, open_catalog
from tableformat.catalogs.outcomes import CatalogAccessError
from tableformat.commits import CommitOutcomeUnknown
from tableformat.commits.validation import ReplacementBase, validate_replacement
from tableformat.inspection import UnreadableManifest, reading
from tableformat.inspection.decoding import EncodedManifest
from tableformat.maintenance import Executor, InProcessExecutor, UnsupportedTable
from tableformat.maintenance.compaction import CompactionResult, compact
from tableformat.maintenance.compaction.run import CompactionFailed
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.faults import CommitRequest, FaultyCatalog, Meanwhile, connection_lost
from tests.integration.compaction.tables import (
    IDENTIFIER,
    NOW,
    SMALL_TARGET,
    append_many,
    compacted,
    create,
    data_files,
    plain_rows,
    put_file,
    scanned_rows,
    sql_catalog,
)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """Six small files; it stays what it was for whoever holds it."""
    table = create(catalog)
    append_many(table, 6)
    return table


@pytest.fixture
def faulty(table: Table, tmp_path: Path) -> FaultyCatalog:
    return FaultyCatalog(tmp_path)


def run(catalog: SqlCatalog, executor: Executor | None = None, run_id: str = "run") -> CompactionResult:
    executor = executor or InProcessExecutor()
    return compact(catalog, IDENTIFIER, SMALL_TARGET, executor=executor, run_id=run_id, now=NOW)


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def files_on_disk(table: Table) -> set[str]:
    folder = Path(table.location().removeprefix("file://")) / "data"
    return {f"file://{path}" for path in folder.rglob("*.parquet")}


def test_an_append_during_the_rewrite_survives(catalog: SqlCatalog, table: Table) -> None:
    result = run(catalog, Meanwhile(lambda: append_many(catalog.load_table(IDENTIFIER), 1, start=1000)))

    assert result.replans == 0
    assert ids(table) == [*range(60), *range(1000, 1010)]
    assert len(data_files(table)) == 2


def test_an_append_that_wins_the_race_for_the_pointer_survives(table: Table, faulty: FaultyCatalog) -> None:
    for start in (1000, 2000, 3000):
        faulty.before.append(partial(append_many, table, 1, start=start))

    result = run(faulty)

    assert (result.files_rewritten, result.replans) == (6, 0)
    assert ids(table) == [*range(60), *range(1000, 1010), *range(2000, 2010), *range(3000, 3010)]
    head = table.current_snapshot()
    assert head is not None
    own = [manifest for manifest in head.manifests(table.io) if manifest.added_snapshot_id == head.snapshot_id]
    assert {manifest.sequence_number for manifest in own} == {head.sequence_number}, "not those of lost attempts"
    assert len(data_files(table)) == 4


def test_a_lost_race_leaves_no_metadata_files_behind(table: Table, faulty: FaultyCatalog) -> None:
    faulty.before.append(lambda: append_many(table.refresh(), 1, start=1000))

    run(faulty)

    table.refresh()
    snapshots = table.metadata.snapshots
    reachable = {snapshot.manifest_list for snapshot in snapshots} | {
        manifest.manifest_path for snapshot in snapshots for manifest in snapshot.manifests(table.io)
    }
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    assert {f"file://{path}" for path in folder.glob("*.avro")} == reachable


def test_a_file_deleted_during_the_rewrite_stays_deleted(catalog: SqlCatalog, table: Table) -> None:
    result = run(catalog, Meanwhile(lambda: catalog.load_table(IDENTIFIER).delete("id < 10")))

    assert result.replans == 1
    assert ids(table) == [*range(10, 60)]
    assert len(data_files(table)) == 1


def test_rows_rewritten_during_the_rewrite_stay_as_the_other_writer_left_them(
    catalog: SqlCatalog, table: Table
) -> None:
    def overwrite() -> None:
        catalog.load_table(IDENTIFIER).overwrite(plain_rows(500, 1), overwrite_filter="id = 3")

    result = run(catalog, Meanwhile(overwrite))

    assert result.replans == 1
    assert ids(table) == [*(i for i in range(60) if i != 3), 500]


def test_a_file_that_is_added_once_more_meanwhile_keeps_its_rows(catalog: SqlCatalog, table: Table) -> None:
    def add_again() -> None:
        again = catalog.load_table(IDENTIFIER)
        with again.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append.append_data_file(data_files(again)[0])

    before = Counter(ids(table))
    with pytest.raises(UnsupportedTable, match="more than once"):
        run(catalog, Meanwhile(add_again))

    assert (Counter(ids(table)) - before).total() == 10


def test_position_deletes_that_arrive_meanwhile_make_the_run_plan_again(catalog: SqlCatalog, table: Table) -> None:
    victim = data_files(table)[-1].file_path

    result = run(catalog, Meanwhile(lambda: delete_positions(catalog.load_table(IDENTIFIER), {victim: [0, 1]})))

    assert (result.replans, result.rows) == (1, 58)
    assert len(ids(table)) == 58
    assert [file.content for file in data_files(table)] == [DataFileContent.DATA]


def test_position_deletes_for_files_that_stay_are_no_conflict(catalog: SqlCatalog, table: Table) -> None:
    def append_and_delete() -> None:
        table = catalog.load_table(IDENTIFIER)
        path = put_file(table, plain_rows(100, 10))
        delete_positions(table, {path: [3]})

    result = run(catalog, Meanwhile(append_and_delete))

    assert result.replans == 0
    assert ids(table) == [*range(60), 100, 101, 102, *range(104, 110)]


def test_equality_deletes_that_arrive_meanwhile_apply_to_the_new_files(catalog: SqlCatalog, table: Table) -> None:
    result = run(catalog, Meanwhile(lambda: delete_equal(catalog.load_table(IDENTIFIER), ["id"], [{"id": 7}])))

    snapshot = table.refresh().current_snapshot()
    assert result.replans == 0
    assert snapshot is not None
    entries = [e for manifest in snapshot.manifests(table.io) for e in manifest.fetch_manifest_entry(table.io)]
    sequence = {entry.data_file.content: entry.sequence_number for entry in entries}
    assert (sequence[DataFileContent.DATA] or 0) < (sequence[DataFileContent.EQUALITY_DELETES] or 0)


def test_a_conflict_at_the_last_moment_plans_again(table: Table, faulty: FaultyCatalog) -> None:
    faulty.before.append(lambda: table.refresh().delete("id < 10"))

    assert run(faulty).replans == 1
    assert ids(table) == [*range(10, 60)]


def test_a_rollback_during_the_rewrite_is_respected(catalog: SqlCatalog, table: Table) -> None:
    first_five = table.metadata.snapshots[4].snapshot_id

    def roll_back() -> None:
        catalog.load_table(IDENTIFIER).manage_snapshots().rollback_to_snapshot(first_five).commit()

    result = run(catalog, Meanwhile(roll_back))

    assert result.replans == 1
    assert ids(table) == [*range(50)]


def test_a_table_replaced_by_another_of_its_name_is_not_touched_by_the_old_plan(
    catalog: SqlCatalog, table: Table
) -> None:
    def replace() -> None:
        catalog.drop_table(IDENTIFIER)
        append_many(create(catalog), 1, start=700)

    result = run(catalog, Meanwhile(replace))

    assert (result.replans, result.snapshot_id) == (1, None)
    assert ids(catalog.load_table(IDENTIFIER)) == [*range(700, 710)]


def test_files_of_a_plan_that_was_given_up_are_removed(catalog: SqlCatalog, table: Table) -> None:
    before = files_on_disk(table)

    run(catalog, Meanwhile(lambda: catalog.load_table(IDENTIFIER).delete("id < 10")))

    assert files_on_disk(table) == before | {file.file_path for file in data_files(table.refresh())}


def test_a_table_that_never_holds_still_is_given_up_on_and_is_as_its_writers_left_it(
    catalog: SqlCatalog, table: Table
) -> None:
    deletes = [lambda i=i: catalog.load_table(IDENTIFIER).delete(f"id = {i}") for i in range(4)]
    before = files_on_disk(table)

    with pytest.raises(CompactionFailed, match=r"db\.events changed under the run 4 times"):
        run(catalog, Meanwhile(*deletes))

    assert ids(table) == [*range(4, 60)]
    assert files_on_disk(table) - before == {
        file.file_path
        for snapshot in table.metadata.snapshots
        for file in data_files(table, snapshot.snapshot_id)
        if file.file_path not in before
    }


def test_two_compactions_at_once_leave_one_outcome(table: Table, tmp_path: Path) -> None:
    before = scanned_rows(table)
    start = threading.Barrier(2, timeout=240)
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            run(sql_catalog(tmp_path), Meanwhile(lambda: start.wait()), run_id=f"run-{number}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert scanned_rows(table.refresh()) == before
    assert len(data_files(table)) == 1
    assert sum(s.summary is not None and s.summary.operation.value == "replace" for s in table.metadata.snapshots) == 1


def test_a_commit_that_landed_though_the_connection_broke_is_recognised(table: Table, faulty: FaultyCatalog) -> None:
    faulty.after.append(connection_lost)

    result = run(faulty)

    assert result.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert len(table.metadata.snapshots) == 7
    assert ids(table) == [*range(60)]


def test_a_commit_that_never_arrived_is_made_again(table: Table, faulty: FaultyCatalog) -> None:
    faulty.before.append(connection_lost)

    result = run(faulty)

    assert result.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert len(table.metadata.snapshots) == 7
    assert ids(table) == [*range(60)]


def test_while_the_outcome_is_unknown_no_file_is_removed(table: Table, faulty: FaultyCatalog) -> None:
    def lose_the_answer_and_the_catalog() -> None:
        faulty.loads_fail = 100
        connection_lost()

    faulty.after.append(lose_the_answer_and_the_catalog)
    with pytest.raises(CommitOutcomeUnknown, match="Run again with the same run id"):
        run(faulty)

    assert ids(table) == [*range(60)]
    assert len(data_files(table)) == 1


def test_a_commit_that_is_refused_for_good_is_not_tried_again_and_leaves_nothing_behind(
    table: Table, faulty: FaultyCatalog
) -> None:
    def refuse() -> None:
        raise CatalogAccessError("the job's account may not update the pointer")

    before = files_on_disk(table)
    faulty.before.append(refuse)
    with pytest.raises(CatalogAccessError, match="may not update"):
        run(faulty)
    assert len(faulty.requests) == 1
    assert files_on_disk(table) == before


def test_a_refusal_after_an_unknown_outcome_does_not_settle_it(table: Table, faulty: FaultyCatalog) -> None:
    """What was sent first may have been applied, or may still be."""

    def refuse() -> None:
        raise CatalogAccessError("the account may not update the pointer any more")

    before = files_on_disk(table)
    faulty.before += [connection_lost, refuse]
    with pytest.raises(CommitOutcomeUnknown, match="may not update the pointer any more"):
        run(faulty)
    assert any(path.endswith(".parquet") for path in files_on_disk(table) - before)


def test_a_commit_that_landed_though_its_client_calls_it_lost_is_recognised_by_patient_looks(
    table: Table, faulty: FaultyCatalog
) -> None:
    """A client that repeats requests by itself is told of the conflict with its own first copy."""

    def take_it_for_lost() -> None:
        faulty.loads_fail = 2
        raise CommitFailedException("somebody was first")

    faulty.after.append(take_it_for_lost)
    result = run(faulty)
    assert result.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert ids(table) == [*range(60)]


def test_a_restarted_run_recognises_its_own_commit(catalog: SqlCatalog, table: Table) -> None:
    first = run(catalog, run_id="the run")
    append_many(table.refresh(), 6, start=100)

    again = run(catalog, run_id="the run")

    assert again.snapshot_id == first.snapshot_id
    assert (again.files_rewritten, again.files_added, again.rows) == (6, 1, 60)
    assert (again.bytes_rewritten, again.bytes_added) == (first.bytes_rewritten, first.bytes_added)
    assert len(data_files(table.refresh())) == 7


def test_another_run_goes_on_where_the_first_left_off(catalog: SqlCatalog, table: Table) -> None:
    run(catalog, run_id="first")
    append_many(table.refresh(), 6, start=100)
    assert compacted(catalog).files_rewritten == 7
    assert ids(table) == [*range(60), *range(100, 160)]


def test_what_a_commit_of_unknown_outcome_refers_to_stays_though_the_next_attempt_fails_for_good(
    table: Table, faulty: FaultyCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request may still be on the way."""
    faulty.before.append(connection_lost)
    calls = count()

    def broken(*arguments: Any) -> ReplacementBase:
        if next(calls):
            raise UnreadableManifest("somewhere", "it is broken")
        return validate_replacement(*arguments)

    monkeypatch.setattr("tableformat.commits.replace.validate_replacement", broken)
    before = files_on_disk(table)
    with pytest.raises(CommitOutcomeUnknown, match="somewhere"):
        run(faulty)
    assert any(path.endswith(".parquet") for path in files_on_disk(table) - before)


def test_what_a_commit_of_unknown_outcome_refers_to_stays_though_the_table_does_not_fit_any_more(
    table: Table, faulty: FaultyCatalog
) -> None:
    """As a REST server may apply it, when whoever asked has long been told that the gateway gave up."""
    planned_on = table.refresh().metadata.current_snapshot_id
    late: list[CommitRequest] = []

    def expire_the_start_and_lose_the_request() -> None:
        late.append(faulty.requests[-1])
        expire = RemoveSnapshotsUpdate(snapshot_ids=[planned_on])
        SqlCatalog.commit_table(faulty, faulty.load_table(IDENTIFIER), (), (expire,))
        connection_lost()

    def append() -> None:
        table.refresh().append(plain_rows(500, 5))
        faulty.before.append(expire_the_start_and_lose_the_request)

    with pytest.raises(CommitOutcomeUnknown, match="the snapshot that was planned on is gone"):
        run(faulty, Meanwhile(append))

    SqlCatalog.commit_table(faulty, faulty.load_table(IDENTIFIER), *late[0])
    assert ids(table.refresh()) == [*range(60), *range(500, 505)]
    assert run(faulty).files_added == 1


def test_what_a_commit_of_unknown_outcome_refers_to_stays_though_another_table_has_the_name(
    table: Table, faulty: FaultyCatalog
) -> None:
    kept = (*IDENTIFIER[:-1], "kept")

    def rename_and_lose_the_answer() -> None:
        faulty.rename_table(IDENTIFIER, kept)
        append_many(create(faulty), 1, start=700)
        connection_lost()

    faulty.after.append(rename_and_lose_the_answer)
    with pytest.raises(CommitOutcomeUnknown, match="another table of the same name"):
        run(faulty)
    assert ids(faulty.load_table(kept)) == [*range(60)]


@pytest.mark.parametrize(
    "operate",
    [
        lambda catalog: run(catalog),
        lambda catalog: compacted(catalog, SMALL_TARGET.model_copy(update={"commit_every_tasks": 1})),
        lambda catalog: rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="r"),
    ],
    ids=["compaction", "partial progress", "manifests"],
)
def test_commit_that_landed_keeps_its_files_though_a_repeated_request_finds_no_table(
    table: Table, faulty: FaultyCatalog, operate: Callable[[FaultyCatalog], object]
) -> None:
    """A client that repeats a request by itself tells only what became of the last one."""
    kept = (*IDENTIFIER[:-1], "kept")

    def rename_and_ask_again() -> None:
        faulty.rename_table(IDENTIFIER, kept)
        raise NoSuchTableError("Table does not exist: db.events")

    faulty.after.append(rename_and_ask_again)
    with pytest.raises(NoSuchTableError):
        operate(faulty)
    assert ids(faulty.load_table(kept)) == [*range(60)]


def test_files_are_removed_though_an_outcome_was_unknown_once_its_request_would_come_too_late(
    table: Table, faulty: FaultyCatalog
) -> None:
    def another_commit_and_a_lost_request() -> None:
        delete_positions(table.refresh(), {data_files(table)[0].file_path: [0]})
        connection_lost()

    before = files_on_disk(table)
    faulty.before.append(another_commit_and_a_lost_request)
    assert run(faulty).replans == 1
    assert len(data_files(table.refresh())) == 1
    new = {path for path in files_on_disk(table) - before if path.endswith(".parquet")}
    assert len(new) == 2  # the delete file of the other, and the file with all the rows


def test_an_attempt_after_a_lost_race_reads_and_writes_only_what_is_new(
    table: Table, faulty: FaultyCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (1000, 2000, 3000):
        faulty.before.append(partial(append_many, table, 1, start=start))
    reads: Counter[str] = Counter()
    fetch = reading._fetch

    def counted(io: FileIO, manifest: ManifestFile) -> EncodedManifest:
        reads[manifest.manifest_path] += 1
        return fetch(io, manifest)

    monkeypatch.setattr(reading, "_fetch", counted)
    before = set(metadata_files(table))
    run(faulty)
    table.refresh()

    assert sorted(reads.values()) == [1, 1, 1, *[2] * 6], "what is replaced is read to plan and to write, the rest once"
    written = {path for path in set(metadata_files(table)) - before if re.search(r"-m\d+\.avro$", path)}
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    own = {m.manifest_path for m in head.manifests(table.io) if m.added_snapshot_id == head.snapshot_id}
    appended = {m.manifest_path for m in head.manifests(table.io)} - own
    assert {f"file://{path}" for path in written} == own | appended, "nothing of the lost attempts is left"


def test_a_writer_that_never_pauses_does_not_keep_a_compaction_from_landing(tmp_path: Path) -> None:
    catalog = open_catalog(
        SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    )
    table = create(catalog)
    append_many(table, 40)
    stopped, appended = threading.Event(), 0

    def write() -> None:
        nonlocal appended
        writer = catalog.load_table(IDENTIFIER)
        while not stopped.is_set():
            append_many(writer.refresh(), 1, start=10_000 + 10 * appended)
            appended += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        result = compact(catalog, IDENTIFIER, SMALL_TARGET, executor=InProcessExecutor(), run_id="run", now=NOW)
    finally:
        stopped.set()
        thread.join()
    assert result.files_rewritten >= 40
    assert result.replans == 0
    assert ids(table) == [*range(400), *range(10_000, 10_000 + 10 * appended)]


def metadata_files(table: Table) -> list[str]:
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    return [str(path) for path in folder.iterdir()]
