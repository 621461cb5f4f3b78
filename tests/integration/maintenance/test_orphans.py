"""Orphan removal on real files: only what nothing leads to goes, and only where it may."""

import os
import shutil
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tableformat.inspection.avro_columns import parse_avro
from tableformat.locations import Place
from tableformat.maintenance.errors import (
    DeletionDisabled,
    DeletionIncomplete,
    ListingIncomplete,
    PathsNotComparable,
    SharedLocation,
    TooYoung,
    UnreadableMetadata,
)
from tableformat.maintenance.orphans import (
    OrphanAction,
    OrphanOptions,
    OrphanPlan,
    OrphanResult,
    PrefixMismatch,
    plan_orphans,
    remove_orphans,
)
from tableformat.maintenance.summaries import summarize
from tableformat.storage import Deleted, FileStore, StoredFile, open_store
from tableformat.storage.errors import StorageUnavailable
from tests.integration.maintenance.faults import MortalCatalog, Stubborn, killed_after_every_call
from tests.integration.maintenance.tables import (
    IDENTIFIER,
    SCHEMA,
    LocalCatalog,
    append,
    create,
    head,
    later,
    on_disk,
    reachable,
    read_all,
)

DELETE = OrphanOptions(action=OrphanAction.DELETE)
REPORT = OrphanOptions(action=OrphanAction.REPORT)
MARK = OrphanOptions(action=OrphanAction.MARK_THEN_DELETE)


def put(table: Table, name: str, content: bytes = b"orphan") -> str:
    path = Path(Place.of(table.location()).path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def clean(
    table: Table, options: OrphanOptions = DELETE, *, now: datetime | None = None, store: FileStore | None = None
) -> OrphanResult:
    result = remove_orphans(table.catalog, IDENTIFIER, options, now=now or later(table, days=10), store=store)
    table.refresh()
    return result


@pytest.fixture
def written(table: Table) -> Table:
    append(table, 3)
    table.delete("id >= 0")
    append(table)
    return table


def test_what_nothing_leads_to_goes_and_everything_else_stays(written: Table) -> None:
    orphans = {
        put(written, name)
        for name in (
            "data/lost.parquet",
            "data/a=1/b=x%20y/lost.parquet",
            "data/with#and?.parquet",
            "metadata/lost-m0.avro",
            "metadata/00007-lost.metadata.json",
            "metadata/lost.stats",
            "elsewhere/lost.bin",
        )
    }
    before = read_all(written)

    result = clean(written)

    assert (result.orphans, result.files_deleted, result.bytes_deleted) == (7, 7, 7 * len(b"orphan"))
    assert not any(Path(path).exists() for path in orphans)
    assert on_disk(written) == reachable(written)
    assert read_all(written) == before


def test_a_report_and_a_dry_run_change_nothing(written: Table) -> None:
    put(written, "data/lost.parquet")
    before = on_disk(written, records=True)

    result = clean(written, REPORT)
    _, plan = plan_orphans(
        written.catalog, IDENTIFIER, DELETE, now=later(written, days=10), store=open_store(written.io)
    )

    assert (result.orphans, result.orphan_bytes, result.files_deleted) == (1, 6, 0)
    assert [Path(Place.of(file.location).path).name for file in plan.orphans] == ["lost.parquet"]
    assert "1 of" in str(plan)
    assert on_disk(written, records=True) == before


def test_what_is_younger_than_the_guard_stays(written: Table) -> None:
    path = put(written, "data/soon-committed.parquet")

    assert clean(written, now=later(written, days=2)).orphans == 0
    assert Path(path).exists()


def test_a_guard_of_less_than_a_day_has_to_be_allowed(written: Table) -> None:
    put(written, "data/lost.parquet")

    with pytest.raises(TooYoung):
        clean(written, OrphanOptions(action=OrphanAction.DELETE, min_age_ms=1000))

    allowed = OrphanOptions(action=OrphanAction.DELETE, min_age_ms=1000, allow_short_min_age=True)
    assert clean(written, allowed, now=later(written, hours=1)).files_deleted == 1


def test_a_marked_file_stays_until_its_grace_is_over(written: Table) -> None:
    path = put(written, "data/lost.parquet")
    now = later(written, days=10)

    assert clean(written, MARK, now=now) == OrphanResult(
        files_listed=len(on_disk(written)), orphans=1, orphan_bytes=6, files_marked=1
    )
    assert clean(written, MARK, now=now + timedelta(days=6)).files_deleted == 0
    assert Path(path).exists()

    assert clean(written, MARK, now=now + timedelta(days=7)).files_deleted == 1
    assert on_disk(written, records=True) == reachable(written)


def test_a_dry_run_tells_what_would_go_from_what_would_be_marked(written: Table) -> None:
    put(written, "data/lost.parquet", b"x" * 10)
    now = later(written, days=10)

    def planned(when: datetime) -> OrphanPlan:
        return plan_orphans(written.catalog, IDENTIFIER, MARK, now=when, store=open_store(written.io))[1]

    first = summarize(planned(now))
    assert (first.files, first.bytes, len(first.lines)) == (0, 0, 2)
    assert "delete 0, mark 1" in str(planned(now))
    clean(written, MARK, now=now)
    put(written, "data/new.parquet")

    after = planned(now + timedelta(days=8))
    found = summarize(after)
    assert (found.files, found.bytes) == (1, 10)
    assert found.lines[0].startswith("1 more marked file, kept until")
    assert "new.parquet" in found.lines[2]
    result = clean(written, MARK, now=now + timedelta(days=8))
    assert (result.files_deleted, result.files_marked) == (len(after.going), len(after.marked))


def test_a_file_that_was_written_anew_starts_its_grace_anew(written: Table) -> None:
    path = put(written, "data/lost.parquet")
    now = later(written, days=10)
    clean(written, MARK, now=now)
    put(written, "data/lost.parquet", b"another")

    assert clean(written, MARK, now=now + timedelta(days=7)).files_deleted == 0
    assert Path(path).exists()


def commit_file(table: Table, location: str) -> None:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=3,
        file_size_in_bytes=1,
    )
    file.spec_id = 0
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as add:
        add.append_data_file(file)


def orphaned_data(table: Table) -> str:
    """A data file with rows that no snapshot leads to yet."""
    source = next(path for path in on_disk(table) if path.endswith(".parquet") and path in reachable(table))
    return put(table, "data/late.parquet", Path(source).read_bytes())


def test_a_marked_file_that_is_committed_after_all_stays(written: Table) -> None:
    path, now = orphaned_data(written), later(written, days=10)
    clean(written, MARK, now=now)
    commit_file(written, f"file://{path}")

    assert clean(written, MARK, now=now + timedelta(days=30)).orphans == 0
    assert Path(path).exists()


class Meanwhile:
    """Storage during whose listing, or right after the metadata was read, something happens."""

    def __init__(self, store: FileStore, table: Table, path: str) -> None:
        self._store, self._table, self._path = store, table, path

    def files(self, folder: str) -> Iterator[StoredFile]:
        yield from list(self._store.files(folder))
        if "_tablewright" not in folder:
            commit_file(self._table, f"file://{self._path}")

    def delete(self, locations: Collection[str]) -> Deleted:
        return self._store.delete(locations)


def test_a_file_that_is_committed_while_the_folder_is_listed_stays(written: Table) -> None:
    path = orphaned_data(written)

    assert clean(written, store=Meanwhile(open_store(written.io), written, path)).files_deleted == 0
    assert Path(path).exists()


def test_a_file_that_is_committed_between_plan_and_deletion_stays(
    catalog: LocalCatalog, written: Table, tmp_path: Path
) -> None:
    path = orphaned_data(written)

    class Racing(LocalCatalog):
        loads = 0

        def load_table(self, identifier: str | tuple[str, ...]) -> Table:
            self.loads += 1
            if self.loads == 4:  # to open the store, before and after the listing, before the deletion
                commit_file(written, f"file://{path}")
            return super().load_table(identifier)

    racing = Racing(tmp_path)
    result = remove_orphans(racing, IDENTIFIER, DELETE, now=later(written, days=10))
    racing.close()

    assert (result.orphans, result.files_deleted) == (1, 0)
    assert Path(path).exists()


def test_one_file_written_in_another_way_is_the_same_file(written: Table) -> None:
    path = orphaned_data(written)
    commit_file(written, f"file:{path}")

    assert clean(written).orphans == 0


def test_a_name_that_is_no_text_is_a_file_s_name_like_any_other(written: Table) -> None:
    put(written, os.fsdecode(b"data/caf\xe9.parquet"))
    now, plans = later(written, days=10), list[OrphanPlan]()

    remove_orphans(written.catalog, IDENTIFIER, MARK, now=now, planned=plans.append)
    clean(written, MARK, now=now + timedelta(days=7))

    assert summarize(plans[0]).model_dump_json()
    assert on_disk(written, records=True) == reachable(written)


def test_a_folder_that_is_named_twice_is_listed_once(written: Table) -> None:
    with written.transaction() as change:
        change.set_properties({"write.data.path": f"{written.location()}/", "write.object-storage.path": "/elsewhere"})
    put(written, "data/lost.parquet")

    _, plan = plan_orphans(
        written.catalog, IDENTIFIER, DELETE, now=later(written, days=10), store=open_store(written.io)
    )

    assert plan.folders == (written.location(), "/elsewhere")
    assert plan.files_listed == len(on_disk(written))
    assert len(plan.orphans) == 1


def test_a_live_file_that_is_named_through_a_symbolic_link_stays(written: Table, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(tmp_path / "warehouse")
    with written.transaction() as change:
        change.set_properties({"write.data.path": f"file://{tmp_path}/elsewhere/db.db/events/data"})
    append(written)
    put(written, "data/lost.parquet")
    before = read_all(written)

    assert clean(written).files_deleted == 1
    assert read_all(written) == before


def test_a_table_whose_folder_is_a_symbolic_link_is_cleaned(written: Table, tmp_path: Path) -> None:
    shutil.move(tmp_path / "warehouse" / "db.db" / "events", tmp_path / "moved")
    (tmp_path / "warehouse" / "db.db" / "events").symlink_to(tmp_path / "moved")
    put(written, "data/lost.parquet")
    before = read_all(written)

    assert clean(written).files_deleted == 1
    assert read_all(written) == before


def test_hidden_folders_are_passed_over_and_partition_folders_are_not(catalog: LocalCatalog) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    catalog.create_namespace("db")
    table = catalog.create_table(
        IDENTIFIER, SCHEMA, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "_part"))
    )
    hidden = {put(table, name) for name in ("data/_temporary/x.parquet", "data/.tmp/x", "metadata/_other/x")}
    seen = {put(table, name) for name in ("data/_part=1/x.parquet", "data/_part=1/y.parquet")}

    clean(table)

    assert all(Path(path).exists() for path in hidden)
    assert not any(Path(path).exists() for path in seen)


def test_the_table_s_own_paths_outside_its_location_are_cleaned_and_nothing_beside_them(
    catalog: LocalCatalog, tmp_path: Path
) -> None:
    outside = tmp_path / "fast" / "events"
    table = create(catalog, {"write.data.path": f"file://{outside}"})
    append(table)
    lost, beside = outside / "lost.parquet", tmp_path / "fast" / "other.parquet"
    sibling = tmp_path / "fast" / "events2" / "x.parquet"
    sibling.parent.mkdir()
    for path in (lost, beside, sibling):
        path.write_bytes(b"x")

    assert clean(table).files_deleted == 1
    assert (lost.exists(), beside.exists(), sibling.exists()) == (False, True, True)
    assert len(read_all(table)[head(table).snapshot_id]) == 3


def test_a_whole_bucket_is_no_table_s_own_folder(catalog: LocalCatalog) -> None:
    table = create(catalog, {"write.data.path": "s3://bucket/"})

    with pytest.raises(SharedLocation, match="bucket"):
        clean(table)


def test_a_table_whose_files_belong_to_others_is_refused(catalog: LocalCatalog) -> None:
    with pytest.raises(DeletionDisabled):
        clean(create(catalog, {"gc.enabled": "false"}))


class Elsewhere:
    """Storage that names its files by another host than the metadata does."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def files(self, folder: str) -> Iterator[StoredFile]:
        return (
            StoredFile(f"hdfs://other{Place.of(file.location).path}", file.size_bytes, file.modified_ms)
            for file in self._store.files(folder.replace("hdfs://here", "file://"))
        )

    def delete(self, locations: Collection[str]) -> Deleted:
        raise AssertionError(f"nothing may be deleted: {locations}")


def test_files_that_a_store_lists_under_another_host_are_not_the_table_s(written: Table) -> None:
    put(written, "data/lost.parquet")

    assert clean(written, store=Elsewhere(open_store(written.io))).orphans == 0


def test_live_files_named_in_another_store_stop_it_unless_told(catalog: LocalCatalog, written: Table) -> None:
    path = orphaned_data(written)
    commit_file(written, f"s3://elsewhere{path}")

    with pytest.raises(PathsNotComparable, match="elsewhere"):
        clean(written)
    assert clean(written, REPORT.model_copy(update={"prefix_mismatch": PrefixMismatch.KEEP})).orphans == 0
    assert clean(written, REPORT.model_copy(update={"prefix_mismatch": PrefixMismatch.DELETE})).orphans == 1


class Failing:
    """A listing that breaks half-way, or quietly lacks what is there."""

    def __init__(self, store: FileStore, *, raises: bool) -> None:
        self._store, self._raises = store, raises

    def files(self, folder: str) -> Iterator[StoredFile]:
        for file in self._store.files(folder):
            if file.location.endswith(".metadata.json"):
                if self._raises:
                    raise StorageUnavailable("connection lost")
                continue
            yield file

    def delete(self, locations: Collection[str]) -> Deleted:
        raise AssertionError(f"nothing may be deleted: {locations}")


@pytest.mark.parametrize(("raises", "error"), [(True, StorageUnavailable), (False, ListingIncomplete)])
def test_a_listing_that_cannot_be_trusted_deletes_nothing(written: Table, raises: bool, error: type[Exception]) -> None:
    put(written, "data/lost.parquet")

    with pytest.raises(error):
        clean(written, store=Failing(open_store(written.io), raises=raises))


def test_a_manifest_that_is_missing_deletes_nothing(written: Table) -> None:
    put(written, "data/lost.parquet")
    Path(Place.of(head(written).manifests(written.io)[0].manifest_path).path).unlink()
    before = on_disk(written)

    with pytest.raises(UnreadableMetadata):
        clean(written)
    assert on_disk(written) == before


def test_a_manifest_list_that_was_cut_off_deletes_nothing(written: Table) -> None:
    path = Path(Place.of(head(written).manifest_list).path)
    content = path.read_bytes()
    path.write_bytes(content[: parse_avro(content).blocks_at])
    before = on_disk(written)

    with pytest.raises(UnreadableMetadata, match="manifest list"):
        clean(written)
    assert on_disk(written) == before


def test_what_could_not_be_deleted_is_named(written: Table) -> None:
    put(written, "data/lost.parquet")
    stuck = put(written, "data/stuck.parquet")

    with pytest.raises(DeletionIncomplete) as caught:
        clean(written, store=Stubborn(open_store(written.io), "stuck"))

    assert list(caught.value.failed) == [f"file://{stuck}"]
    assert on_disk(written) - reachable(written) == {stuck}


def test_a_file_that_can_never_be_deleted_does_not_keep_later_orphans_for_ever(written: Table) -> None:
    stuck = put(written, "data/stuck.parquet")
    now, store = later(written, days=10), Stubborn(open_store(written.io), "stuck")
    clean(written, MARK, now=now, store=store)
    put(written, "data/found-later.parquet")

    for days in (7, 14):
        with pytest.raises(DeletionIncomplete):
            clean(written, MARK, now=now + timedelta(days=days), store=store)

    assert on_disk(written) - reachable(written) == {stuck}


def test_killed_after_every_call_and_run_again_it_ends_the_same(tmp_path: Path) -> None:
    original, backup = tmp_path / "original", tmp_path / "backup"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog)
    append(table, 2)
    put(table, "data/lost.parquet")
    put(table, "metadata/lost.avro")
    now, expected = later(table, days=10), read_all(table)
    clean(table, MARK, now=now)
    put(table, "data/found-later.parquet")
    catalog.close()
    shutil.copytree(original, backup)
    later_on = now + timedelta(days=7)

    def run(mortal: MortalCatalog) -> None:
        remove_orphans(mortal, IDENTIFIER, MARK, now=later_on, store=mortal.store)

    deaths = 0
    for _ in killed_after_every_call(original, run):
        deaths += 1
        again = LocalCatalog(original)
        table = again.load_table(IDENTIFIER)
        assert reachable(table) <= on_disk(table)
        clean(table, MARK, now=later_on)
        assert {Path(path).name for path in on_disk(table) - reachable(table)} == {"found-later.parquet"}
        clean(table, MARK, now=later_on + timedelta(days=7))
        assert on_disk(table, records=True) == reachable(table)
        assert read_all(table) == expected
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 10
