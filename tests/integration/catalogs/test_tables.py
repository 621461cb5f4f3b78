"""What every catalog promises about tables, whatever holds the pointer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider
from pyiceberg.types import LongType, NestedField, StringType

from tableformat.catalogs import UnreadableMetadataError, UnusableLocationError

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([str(i) for i in ids], pa.string())})


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def metadata_files(table: Table) -> set[str]:
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"
    return {f"file://{path}" for path in folder.glob("*.metadata.json")}


def test_a_created_table_is_loaded_with_its_schema_location_and_uuid(catalog: Catalog) -> None:
    created = catalog.create_table("db.t", SCHEMA, properties={"owner": "sales"})
    loaded = catalog.load_table("db.t")
    assert loaded.name() == ("db", "t")
    assert loaded.metadata == created.metadata
    assert loaded.metadata_location == created.metadata_location
    assert loaded.properties == {"owner": "sales"}
    assert loaded.location().endswith("/warehouse/db.db/t")


def test_a_second_catalog_sees_a_commit_at_once(catalog: Catalog, open_one: Callable[[], Catalog], kind: str) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    reader = catalog if kind == "in-memory" else open_one()
    table.append(rows(1, 2))
    table.append(rows(3))
    assert ids(reader.load_table("db.t")) == [1, 2, 3]
    assert reader.load_table("db.t").metadata_location == table.metadata_location


def test_creating_a_table_that_exists_is_refused_and_leaves_no_file(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", SCHEMA)
    assert metadata_files(table) == {table.metadata_location}


def test_a_table_needs_a_namespace_that_exists(catalog: Catalog) -> None:
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", SCHEMA)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table_transaction("nowhere.t", SCHEMA)


def test_a_table_that_is_not_there_says_so(catalog: Catalog) -> None:
    assert not catalog.table_exists("db.t")
    for action in (catalog.load_table, catalog.drop_table, catalog.purge_table):
        with pytest.raises(NoSuchTableError):
            action("db.t")


def test_tables_are_listed_by_their_namespace(catalog: Catalog) -> None:
    catalog.create_namespace("other")
    for name in ("db.b", "db.a", "other.c"):
        catalog.create_table(name, SCHEMA)
    assert sorted(catalog.list_tables("db")) == [("db", "a"), ("db", "b")]
    assert catalog.list_tables("other") == [("other", "c")]
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("nowhere")


def test_a_dropped_table_is_gone_and_its_files_are_not(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")
    assert catalog.list_tables("db") == []
    assert table.metadata_location in metadata_files(table)
    again = catalog.register_table("db.t", table.metadata_location)
    assert ids(again) == [1]


def test_a_commit_on_stale_metadata_is_refused_when_its_requirement_no_longer_holds(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    first, second = catalog.load_table("db.t"), catalog.load_table("db.t")
    with first.update_schema() as change:
        change.add_column("a", StringType())
    before = metadata_files(first)
    with pytest.raises(CommitFailedException), second.update_schema() as change:
        change.add_column("b", StringType())
    assert catalog.load_table("db.t").metadata_location == first.metadata_location
    assert metadata_files(first) == before


def test_a_commit_on_stale_metadata_is_applied_when_its_requirements_still_hold(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    first, second = catalog.load_table("db.t"), catalog.load_table("db.t")
    first.append(rows(1))
    second.transaction().set_properties(owner="sales").commit_transaction()
    now = catalog.load_table("db.t")
    assert ids(now) == [1]
    assert now.properties["owner"] == "sales"


def test_an_append_on_stale_metadata_is_made_again_after_a_commit_to_another_branch(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    with table.manage_snapshots() as change:
        change.create_branch(table.metadata.snapshots[0].snapshot_id, "audit")
    stale = catalog.load_table("db.t")
    table.append(rows(2), branch="audit")
    stale.append(rows(3))
    now = catalog.load_table("db.t")
    assert ids(now) == [1, 3]
    assert [snapshot.sequence_number for snapshot in now.metadata.snapshots] == [1, 2, 3]


def test_a_commit_without_a_change_writes_nothing(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, properties={"owner": "sales"})
    catalog.commit_table(table, (), ())
    assert catalog.load_table("db.t").metadata_location == table.metadata_location
    assert metadata_files(table) == {table.metadata_location}


def test_a_commit_to_a_dropped_table_says_that_it_is_gone(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    catalog.drop_table("db.t")
    with pytest.raises(NoSuchTableError):
        table.transaction().set_properties(owner="sales").commit_transaction()
    assert not catalog.table_exists("db.t")


def test_a_commit_to_another_table_of_the_same_name_is_refused(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    catalog.drop_table("db.t")
    other = catalog.create_table("db.t", SCHEMA)
    with pytest.raises(CommitFailedException, match="UUID"):
        table.transaction().set_properties(owner="sales").commit_transaction()
    assert catalog.load_table("db.t").metadata_location == other.metadata_location


def test_every_commit_gets_a_metadata_file_of_its_own_and_logs_the_one_before(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    seen = [table.metadata_location]
    for number in range(3):
        table.append(rows(number))
        seen.append(table.metadata_location)
    assert len(set(seen)) == 4
    assert [entry.metadata_file for entry in catalog.load_table("db.t").metadata.metadata_log] == seen[:-1]
    assert metadata_files(table) == set(seen)


def test_old_metadata_files_are_removed_as_the_properties_say(catalog: Catalog) -> None:
    table = catalog.create_table(
        "db.t",
        SCHEMA,
        properties={
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "2",
        },
    )
    seen = [table.metadata_location]
    for number in range(5):
        table.append(rows(number))
        seen.append(table.metadata_location)
    assert metadata_files(table) == set(seen[-3:])
    assert ids(catalog.load_table("db.t")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("enabled", ["perhaps", "true"])
def test_a_commit_that_landed_is_no_failure_though_old_metadata_files_cannot_be_removed(
    catalog: Catalog, enabled: str
) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": enabled, "write.metadata.previous-versions-max": "1"}
    table = catalog.create_table("db.t", SCHEMA, properties=properties)
    path = Path(table.metadata_location.removeprefix("file://"))
    elsewhere = {"metadata-file": "gopher://old/00000.metadata.json", "timestamp-ms": 1}
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata-log": [elsewhere]}))
    for number in (1, 2):
        catalog.load_table("db.t").append(rows(number))
    assert ids(catalog.load_table("db.t")) == [1, 2]


def test_a_created_table_is_invisible_until_its_transaction_commits(catalog: Catalog) -> None:
    with catalog.create_table_transaction("db.t", SCHEMA, properties={"owner": "sales"}) as transaction:
        transaction.append(rows(1, 2))
        assert not catalog.table_exists("db.t")
    table = catalog.load_table("db.t")
    assert ids(table) == [1, 2]
    assert table.properties["owner"] == "sales"


def test_of_two_transactions_that_create_a_table_one_fails(catalog: Catalog) -> None:
    first = catalog.create_table_transaction("db.t", SCHEMA)
    second = catalog.create_table_transaction("db.t", SCHEMA)
    first.commit_transaction()
    with pytest.raises(CommitFailedException):
        second.commit_transaction()
    table = catalog.load_table("db.t")
    assert metadata_files(table) == {table.metadata_location}


def test_a_table_is_registered_by_its_metadata(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    catalog.create_namespace("other")
    registered = catalog.register_table("other.copy", table.metadata_location)
    assert registered.name() == ("other", "copy")
    assert ids(registered) == [1]
    assert registered.metadata.table_uuid == table.metadata.table_uuid


def test_registering_over_a_table_needs_to_be_asked_for(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    older = table.metadata_location
    table.append(rows(1))
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("db.t", older)
    assert ids(catalog.load_table("db.t")) == [1]
    assert ids(catalog.register_table("db.t", older, overwrite=True)) == []
    assert catalog.load_table("db.t").metadata_location == older


def test_nothing_is_registered_by_a_file_that_is_not_there_or_no_metadata(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        catalog.register_table("db.t", f"file://{tmp_path}/gone.metadata.json")
    (tmp_path / "junk.metadata.json").write_text('{"format-version": 2}')
    with pytest.raises(UnreadableMetadataError, match=r"junk\.metadata\.json"):
        catalog.register_table("db.t", f"file://{tmp_path}/junk.metadata.json")
    with pytest.raises(NoSuchNamespaceError):
        catalog.register_table("nowhere.t", f"file://{tmp_path}/gone.metadata.json")
    assert catalog.list_tables("db") == []


def test_a_renamed_table_has_its_new_name_only_and_keeps_its_history(catalog: Catalog) -> None:
    catalog.create_namespace("other")
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    renamed = catalog.rename_table("db.t", "other.u")
    assert renamed.name() == ("other", "u")
    assert renamed.metadata == table.metadata
    assert not catalog.table_exists("db.t")
    assert catalog.list_tables("db") == []
    assert catalog.list_tables("other") == [("other", "u")]
    renamed.append(rows(2))
    assert ids(catalog.load_table("other.u")) == [1, 2]
    with pytest.raises(NoSuchTableError):
        table.append(rows(3))


def test_a_table_can_be_renamed_there_and_back(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    catalog.rename_table("db.t", "db.u")
    catalog.rename_table("db.u", "db.t")
    assert catalog.list_tables("db") == [("db", "t")]
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_rename_is_refused_without_effect(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    catalog.create_table("db.u", SCHEMA)
    with pytest.raises(NoSuchTableError):
        catalog.rename_table("db.missing", "db.v")
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("db.t", "db.u")
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table("db.t", "nowhere.t")
    assert sorted(catalog.list_tables("db")) == [("db", "t"), ("db", "u")]


def test_a_new_table_never_shares_the_folder_of_one_that_was_renamed_or_dropped(catalog: Catalog) -> None:
    first = catalog.create_table("db.t", SCHEMA)
    catalog.rename_table("db.t", "db.u")
    second = catalog.create_table("db.t", SCHEMA)
    catalog.drop_table("db.t")
    third = catalog.create_table("db.t", SCHEMA)
    assert len({first.location(), second.location(), third.location()}) == 3


def test_a_new_table_never_shares_the_folder_of_one_whose_metadata_is_elsewhere(
    catalog: Catalog, tmp_path: Path
) -> None:
    elsewhere = {"write.metadata.path": f"file://{tmp_path}/elsewhere"}
    first = catalog.create_table("db.t", SCHEMA, properties=elsewhere)
    first.append(rows(1))
    catalog.drop_table("db.t")
    second = catalog.create_table("db.t", SCHEMA, properties=elsewhere)
    assert second.location() != first.location(), "the dropped table's data files are still there"


def test_a_staged_table_is_not_committed_into_a_folder_that_another_table_took_meanwhile(catalog: Catalog) -> None:
    staged = catalog.create_table_transaction("db.t", SCHEMA)
    first = catalog.create_table("db.t", SCHEMA)
    catalog.rename_table("db.t", "db.u")
    staged.append(rows(1))
    with pytest.raises(CommitFailedException, match=r"db\.db/t has the metadata of another table .* create .* again"):
        staged.commit_transaction()
    assert catalog.list_tables("db") == [("db", "u")]
    assert metadata_files(first) == {first.metadata_location}
    with catalog.create_table_transaction("db.t", SCHEMA) as again:
        again.append(rows(1))
    assert catalog.load_table("db.t").location() != first.location()


def test_a_staged_table_goes_where_it_was_told_whatever_is_there(catalog: Catalog) -> None:
    first = catalog.create_table("db.t", SCHEMA)
    staged = catalog.create_table_transaction("db.u", SCHEMA, location=first.location())
    staged.commit_transaction()
    assert catalog.load_table("db.u").location() == first.location()


@pytest.mark.parametrize("late", [False, True], ids=["before the metadata is written", "after it is written"])
@pytest.mark.parametrize("staged", [False, True], ids=["created", "staged"])
def test_of_two_tables_that_are_created_in_one_folder_at_once_one_goes_elsewhere(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, staged: bool, late: bool
) -> None:
    """The other creator is in the middle of our creation, and has renamed its table before ours is published."""
    write = MetastoreCatalog._write_metadata

    def write_among_others(*arguments: Any) -> None:
        monkeypatch.setattr(MetastoreCatalog, "_write_metadata", staticmethod(write))
        if late:
            write(*arguments)
        catalog.create_table("db.t", SCHEMA)
        catalog.rename_table("db.t", "db.u")
        if not late:
            write(*arguments)

    transaction = catalog.create_table_transaction("db.t", SCHEMA)
    monkeypatch.setattr(MetastoreCatalog, "_write_metadata", staticmethod(write_among_others))
    try:
        transaction.commit_transaction() if staged else catalog.create_table("db.t", SCHEMA)
    except CommitFailedException:
        assert (staged, late) == (True, False)
    tables = [catalog.load_table(name) for name in catalog.list_tables("db")]
    assert len(tables) == (1 if staged and not late else 2)
    assert len({table.location() for table in tables}) == len(tables)
    for table in tables:
        assert metadata_files(table) == {table.metadata_location}


@pytest.mark.parametrize("sign", ["?", "#"])
def test_new_location_that_other_readers_would_cut_is_refused_and_nothing_there_is_touched(
    catalog: Catalog, tmp_path: Path, sign: str
) -> None:
    report = tmp_path / "report"
    report.write_text("of somebody else")
    place = f"file://{report}{sign}v=1"
    table = catalog.create_table("db.t", SCHEMA)
    attempts: list[Callable[[], object]] = [
        lambda: catalog.create_table("db.u", SCHEMA, location=place),
        lambda: catalog.create_table("db.u", SCHEMA, properties={"write.data.path": place}),
        lambda: catalog.create_table_transaction("db.u", SCHEMA, location=place).commit_transaction(),
        lambda: table.transaction().set_properties({"write.data.path": place}).commit_transaction(),
    ]
    for attempt in attempts:
        with pytest.raises(UnusableLocationError, match="without these signs"):
            attempt()
    assert report.read_text() == "of somebody else"
    assert catalog.list_tables("db") == [("db", "t")]
    assert catalog.load_table("db.t").metadata_location == table.metadata_location


@pytest.mark.parametrize("name", ["x?y", "x#y", "t/data", "../../escape", "..", "a\\b", "50%"])
def test_a_name_that_is_no_folder_gets_one_of_its_own_within_the_warehouse(
    catalog: Catalog, tmp_path: Path, name: str, kind: str
) -> None:
    if kind == "dynamoDB" and "." in name:
        pytest.skip("its names have no dots")
    catalog.create_table("db.t", SCHEMA).append(rows(1))
    table = catalog.create_table(("db", name), SCHEMA)
    table.append(rows(2))
    table.append(rows(3))
    assert ids(catalog.load_table(("db", name))) == [2, 3]
    folder = Path(table.location().removeprefix("file://"))
    assert folder.parent == tmp_path / "warehouse" / "db.db"
    assert metadata_files(table) == {table.metadata_location} | {e.metadata_file for e in table.metadata.metadata_log}
    catalog.purge_table(("db", name))
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_metadata_file_that_is_there_already_is_never_deleted(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    monkeypatch.setattr(LocationProvider, "new_table_metadata_file_location", lambda *_: table.metadata_location)
    with pytest.raises(FileExistsError):
        table.append(rows(1))
    assert catalog.load_table("db.t").metadata_location == table.metadata_location


def test_a_purged_table_leaves_no_file(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(3):
        table.append(rows(number))
    table.delete("id = 1")
    catalog.purge_table("db.t")
    assert not catalog.table_exists("db.t")
    folder = Path(table.location().removeprefix("file://"))
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_purge_keeps_the_data_of_a_table_that_shares_it(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, properties={"gc.enabled": "false"})
    table.append(rows(1))
    catalog.purge_table("db.t")
    folder = Path(table.location().removeprefix("file://"))
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".parquet"}


def test_an_identifier_without_a_namespace_is_rejected_as_pyiceberg_does(catalog: Catalog) -> None:
    location = catalog.create_table("db.t", SCHEMA).metadata_location
    attempts: list[Callable[[Any], object]] = [
        lambda bad: catalog.create_table(bad, SCHEMA),
        lambda bad: catalog.create_table_transaction(bad, SCHEMA),
        lambda bad: catalog.register_table(bad, location),
        lambda bad: catalog.rename_table("db.t", bad),
    ]
    malformed: list[Any] = ["t", (), "", (" ", "t"), ("", "t"), ".t", "db..t"]
    for bad in malformed:
        for attempt in attempts:
            with pytest.raises(NoSuchNamespaceError, match="Not a "):
                attempt(bad)
        _has_no_table(catalog, bad)


def test_an_identifier_with_an_empty_name_is_rejected(catalog: Catalog) -> None:
    malformed: list[Any] = ["db.", ("db", ""), ("db", " "), ("db", None)]
    for bad in malformed:
        with pytest.raises(ValueError, match="table's name is empty"):
            catalog.create_table(bad, SCHEMA)
        _has_no_table(catalog, bad)


def _has_no_table(catalog: Catalog, bad: Any) -> None:
    assert not catalog.table_exists(bad)
    for attempt in (catalog.load_table, catalog.drop_table, catalog.purge_table):
        with pytest.raises(NoSuchTableError):
            attempt(bad)
    with pytest.raises(NoSuchTableError):
        catalog.rename_table(bad, "db.u")


def test_properties_of_a_table_are_text_or_rejected_before_anything_is_written(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA, properties={"n": 7, "on": True})
    assert catalog.load_table("db.t").properties == {"n": "7", "on": "true"}
    bad: list[Any] = [{"k": None}, {None: "v"}]
    for properties in bad:
        with pytest.raises(ValueError, match=r"not a supported value|valid string"):
            catalog.create_table("db.u", SCHEMA, properties=properties)
        with pytest.raises(ValueError, match=r"not a supported value|valid string"):
            table.transaction().set_properties(properties).commit_transaction()
    assert catalog.load_table("db.t").metadata_location == table.metadata_location
    assert not (tmp_path / "warehouse/db.db/u").exists()


def test_there_are_no_views(catalog: Catalog) -> None:
    assert catalog.list_views("db") == []
    assert not catalog.view_exists("db.v")
    with pytest.raises(NoSuchViewError):
        catalog.load_view("db.v")
    with pytest.raises(NoSuchViewError):
        catalog.drop_view("db.v")
