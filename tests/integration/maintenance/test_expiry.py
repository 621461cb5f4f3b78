"""Expiry on real files: what stays reads as before, what goes leaves nothing behind, and no moment is a bad one."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate, SetStatisticsUpdate

from tableformat.inspection.avro_columns import parse_avro
from tableformat.locations import Place
from tableformat.maintenance.errors import (
    ClockBehind,
    DeletionDisabled,
    DeletionIncomplete,
    UnreadableMetadata,
)
from tableformat.maintenance.expiry import ExpiryOptions, ExpiryResult, expire_snapshots, plan_expiry
from tableformat.storage import open_store
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
    records_of,
    rows,
    set_ref,
    stage,
    tag,
)

LAST_ONE = ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=1)


def expire(table: Table, options: ExpiryOptions = LAST_ONE) -> ExpiryResult:
    table.refresh()
    result = expire_snapshots(table.catalog, IDENTIFIER, options, now=later(table, hours=1))
    table.refresh()
    return result


def remaining(table: Table) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.metadata.snapshots}


def exists(location: str) -> bool:
    return Path(Place.of(location).path).exists()


def test_what_only_old_snapshots_lead_to_is_deleted_and_nothing_else(table: Table) -> None:
    append(table, 3)
    table.overwrite(rows())
    append(table)
    before = read_all(table)[head(table).snapshot_id]

    result = expire(table)

    assert result.snapshots_expired == 5  # the overwrite made two
    assert read_all(table) == {head(table).snapshot_id: before}
    assert on_disk(table, records=True) == reachable(table)


def test_a_dry_run_lists_exactly_what_a_run_deletes(table: Table) -> None:
    append(table, 3)
    table.overwrite(rows())
    plan = plan_expiry(table, LAST_ONE, now=later(table, hours=1))
    before = on_disk(table)
    size = sum(Path(Place.of(file.location).path).stat().st_size for file in plan.files)

    assert plan.bytes == size
    assert "expire 4 snapshots" in str(plan)
    assert on_disk(table) == before

    result = expire(table)
    assert {Place.of(file.location).path for file in plan.files} == before - on_disk(table)
    assert (result.files_deleted, result.bytes_deleted) == (len(plan.files), plan.bytes)


def test_a_run_knows_its_own_record_however_the_table_s_location_is_spelled(
    catalog: LocalCatalog, tmp_path: Path
) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table(IDENTIFIER, SCHEMA, location=f"file:{tmp_path}/events")  # as Spark spells it
    append(table)
    table.overwrite(rows())

    assert expire(table).runs_resumed == 0
    assert on_disk(table, records=True) == reachable(table)


def test_a_quiet_table_is_not_committed_to(table: Table) -> None:
    append(table)
    location = table.metadata_location

    assert expire(table).snapshots_expired == 0
    assert table.metadata_location == location


def test_a_table_without_snapshots_is_left_as_it_is(table: Table) -> None:
    assert expire(table) == ExpiryResult()


def test_tags_branches_and_the_starts_of_running_jobs_are_kept(table: Table) -> None:
    ids = append(table, 6)
    tag(table, "audit", ids[0])
    set_ref(table, "side", ids[1])
    before = read_all(table)

    result = expire(
        table, ExpiryOptions(max_snapshot_age_ms=0, min_snapshots_to_keep=1, protected_snapshots=frozenset({ids[4]}))
    )

    assert remaining(table) == {ids[0], ids[1], ids[4], ids[5]}
    assert result.refs_removed == ()
    assert read_all(table) == {each: before[each] for each in remaining(table)}
    assert on_disk(table, records=True) == reachable(table)


def test_a_tag_beyond_its_age_goes_with_its_snapshot(table: Table) -> None:
    ids = append(table, 2)
    tag(table, "short", ids[0], max_ref_age_ms=1000)

    assert expire(table).refs_removed == ("short",)
    assert remaining(table) == {ids[1]}
    assert set(table.metadata.refs) == {"main"}


def test_staged_commits_go_when_they_are_old_and_not_before(table: Table) -> None:
    append(table)
    staged = stage(table)
    append(table)

    expire(table, ExpiryOptions(max_snapshot_age_ms=3 * 3600 * 1000))
    assert staged in remaining(table)

    expire(table)
    assert staged not in remaining(table)
    assert on_disk(table, records=True) == reachable(table)


def test_a_file_published_from_an_expired_snapshot_lives_on(table: Table) -> None:
    """The published copy has another sequence number; the file is the same."""
    append(table)
    staged = stage(table)
    file = next(
        entry.data_file
        for manifest in table.metadata.snapshot_by_id(staged).manifests(table.io)  # type: ignore[union-attr]
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.snapshot_id == staged
    )
    append(table)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as publish:
        publish.append_data_file(file)
    rows_before = read_all(table)[head(table).snapshot_id]

    expire(table)

    assert staged not in remaining(table)
    assert exists(file.file_path)
    assert read_all(table) == {head(table).snapshot_id: rows_before}


def test_statistics_files_go_with_their_snapshots_alone(table: Table) -> None:
    ids = append(table, 2)
    paths = {}
    for each in ids:
        for kind in ("statistics", "partitions"):
            paths[each, kind] = f"{table.location()}/metadata/{each}-{kind}.puffin"
            with table.io.new_output(paths[each, kind]).create() as stream:
                stream.write(b"PFA1")
        table.catalog.commit_table(
            table,
            (),
            (
                SetStatisticsUpdate(
                    statistics=StatisticsFile(
                        snapshot_id=each,
                        statistics_path=paths[each, "statistics"],
                        file_size_in_bytes=4,
                        file_footer_size_in_bytes=0,
                        blob_metadata=[],
                    )
                ),
                SetPartitionStatisticsUpdate(
                    partition_statistics=PartitionStatisticsFile(
                        snapshot_id=each, statistics_path=paths[each, "partitions"], file_size_in_bytes=4
                    )
                ),
            ),
        )

    expire(table)

    assert {key: exists(path) for key, path in paths.items()} == {key: key[0] == ids[1] for key in paths}
    assert [each.snapshot_id for each in table.metadata.partition_statistics] == [ids[1]]
    assert on_disk(table, records=True) == reachable(table)


def test_metadata_files_that_the_log_has_no_room_for_go(catalog: LocalCatalog) -> None:
    table = create(catalog, {"write.metadata.previous-versions-max": "2"})
    append(table, 2)
    dropped_by_expiry = table.metadata.metadata_log[0].metadata_file

    expire(table)

    assert not exists(dropped_by_expiry)
    assert all(exists(entry.metadata_file) for entry in table.metadata.metadata_log)


def test_the_history_has_no_gaps_that_time_travel_would_fall_into(table: Table) -> None:
    ids = append(table, 4)
    tag(table, "audit", ids[1])

    expire(table)

    assert [entry.snapshot_id for entry in table.metadata.snapshot_log] == [ids[3]]


def test_a_table_whose_files_belong_to_others_is_refused(catalog: LocalCatalog) -> None:
    table = create(catalog, {"gc.enabled": "false"})
    append(table, 2)

    with pytest.raises(DeletionDisabled, match=r"gc\.enabled"):
        expire(table)
    assert len(remaining(table)) == 2


def test_a_clock_before_the_last_commit_stops_it(table: Table) -> None:
    append(table, 2)

    with pytest.raises(ClockBehind):
        expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=later(table, hours=-1))


def test_a_clock_that_is_minutes_behind_does_no_harm(table: Table) -> None:
    append(table, 2)

    expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=later(table, minutes=-5))

    assert on_disk(table.refresh()) == reachable(table)


def cut_off_between_blocks(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: parse_avro(content).blocks_at])


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"no manifest"), cut_off_between_blocks])
def test_a_manifest_that_cannot_be_read_stops_it_before_anything_changes(table: Table, damage: object) -> None:
    append(table)
    table.overwrite(rows())
    append(table)
    manifest = head(table).manifests(table.io)[-1].manifest_path
    location, before = table.metadata_location, on_disk(table)
    assert callable(damage)
    damage(Path(Place.of(manifest).path))

    with pytest.raises(UnreadableMetadata, match="manifest"):
        expire(table)

    assert table.refresh().metadata_location == location
    assert on_disk(table) | {Place.of(manifest).path} == before


def test_a_manifest_list_that_was_cut_off_is_no_empty_snapshot(table: Table) -> None:
    append(table, 3)
    location, before = table.metadata_location, on_disk(table)
    cut_off_between_blocks(Path(Place.of(head(table).manifest_list).path))

    with pytest.raises(UnreadableMetadata, match="manifest list"):
        expire(table)

    assert table.refresh().metadata_location == location
    assert on_disk(table) == before


def test_what_could_not_be_deleted_is_reported_and_goes_with_the_next_run(table: Table) -> None:
    append(table, 2)
    table.overwrite(rows())
    now = later(table, hours=1)

    with pytest.raises(DeletionIncomplete, match="permission denied") as caught:
        expire_snapshots(table.catalog, IDENTIFIER, LAST_ONE, now=now, store=Stubborn(open_store(table.io), ".parquet"))
    table.refresh()
    left = on_disk(table) - reachable(table)
    assert {Place.of(location).path for location in caught.value.failed} == left
    assert len(left) == 2

    result = expire(table)
    assert (result.snapshots_expired, result.files_deleted, result.runs_resumed) == (0, 2, 1)
    assert on_disk(table, records=True) == reachable(table)


def test_a_tag_put_on_an_expiring_snapshot_at_the_last_moment_keeps_it(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    ids = append(table, 3)
    before = read_all(table)

    class Racing(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            other = catalog.load_table(IDENTIFIER)
            if "audit" not in other.metadata.refs:
                tag(other, "audit", ids[0])
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    expire_snapshots(racing, IDENTIFIER, LAST_ONE, now=later(table, hours=1), sleep=lambda _: None)
    racing.close()

    table.refresh()
    assert remaining(table) == {ids[0], ids[2]}
    assert read_all(table) == {each: before[each] for each in (ids[0], ids[2])}
    assert on_disk(table, records=True) == reachable(table)


def test_what_was_planned_and_may_not_go_any_more_is_not_reported_as_gone(
    catalog: LocalCatalog, tmp_path: Path
) -> None:
    table = create(catalog)
    ids = append(table, 2)

    class Racing(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            tag(catalog.load_table(IDENTIFIER), "audit", ids[0])
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    result = expire_snapshots(racing, IDENTIFIER, LAST_ONE, now=later(table, hours=1), sleep=lambda _: None)
    racing.close()

    assert result == ExpiryResult(snapshots_kept=2)
    assert on_disk(table.refresh(), records=True) == reachable(table)


def test_appends_that_win_the_race_do_not_disturb_it(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    append(table, 3)

    class Racing(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            append(catalog.load_table(IDENTIFIER))
            return super().commit_table(table, requirements, updates)

    racing = Racing(tmp_path)
    result = expire_snapshots(racing, IDENTIFIER, LAST_ONE, now=later(table, hours=1), sleep=lambda _: None)
    racing.close()

    table.refresh()
    assert (result.snapshots_expired, len(remaining(table))) == (2, 2)
    assert on_disk(table, records=True) == reachable(table)


def test_a_commit_whose_answer_was_lost_is_looked_up_and_its_files_go(catalog: LocalCatalog, tmp_path: Path) -> None:
    table = create(catalog)
    append(table, 3)

    class Deaf(LocalCatalog):
        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            super().commit_table(table, requirements, updates)
            raise ConnectionError("the answer was lost")

    deaf = Deaf(tmp_path)
    result = expire_snapshots(deaf, IDENTIFIER, LAST_ONE, now=later(table, hours=1), sleep=lambda _: None)
    deaf.close()

    assert result.snapshots_expired == 2
    assert on_disk(table.refresh(), records=True) == reachable(table)


def test_the_files_of_a_commit_whose_answer_was_lost_go_though_more_expires_since(
    catalog: LocalCatalog, tmp_path: Path
) -> None:
    table = create(catalog)
    append(table, 3)
    table.overwrite(rows())

    class Deaf(LocalCatalog):
        answers = False

        def commit_table(self, table, requirements, updates):  # type: ignore[no-untyped-def]
            answer = super().commit_table(table, requirements, updates)
            if not self.answers:
                self.answers = True
                append(catalog.load_table(IDENTIFIER))  # what was the last one expires as well
                raise ConnectionError("the answer was lost")
            return answer

    deaf = Deaf(tmp_path)
    result = expire_snapshots(deaf, IDENTIFIER, LAST_ONE, now=later(table, hours=1), sleep=lambda _: None)
    deaf.close()

    assert (result.snapshots_expired, result.snapshots_kept, result.runs_resumed) == (5, 1, 0)
    assert on_disk(table.refresh(), records=True) == reachable(table)


def test_killed_after_every_call_and_run_again_it_ends_the_same(tmp_path: Path) -> None:
    original = tmp_path / "original"
    original.mkdir()
    catalog = LocalCatalog(original)
    table = create(catalog, {"write.metadata.previous-versions-max": "3"})
    ids = append(table, 2)
    tag(table, "audit", ids[0])
    table.overwrite(rows())
    now, kept = later(table, hours=1), {ids[0], head(table).snapshot_id}
    expected = {each: data for each, data in read_all(table).items() if each in kept}
    catalog.close()
    backup = tmp_path / "backup"
    shutil.copytree(original, backup)

    def run(mortal: MortalCatalog) -> None:
        expire_snapshots(mortal, IDENTIFIER, LAST_ONE, now=now, store=mortal.store, sleep=lambda _: None)

    deaths = 0
    for _ in killed_after_every_call(original, run):
        deaths += 1
        again = LocalCatalog(original)
        table = again.load_table(IDENTIFIER)
        assert reachable(table) <= on_disk(table)
        expire_snapshots(again, IDENTIFIER, LAST_ONE, now=now)
        table.refresh()
        assert read_all(table) == expected
        spare = on_disk(table) - reachable(table)
        assert all(path.endswith(".metadata.json") for path in spare)  # written, and never pointed to
        # What is left of a run that died before its commit goes a day later.
        expire_snapshots(again, IDENTIFIER, LAST_ONE, now=now + timedelta(days=2))
        assert list(records_of(table)) == []
        again.close()
        shutil.rmtree(original)
        shutil.copytree(backup, original)
    assert deaths > 20
