"""Answers that get lost, whatever comes after: what cannot be known is called unknown, and nothing live is deleted.

On the embedded catalog, where a test decides what the database answers. Real connections that break are in
`test_faults.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.typedef import Identifier

from tableformat.catalogs import (
    CatalogAccessError,
    CatalogUnavailableError,
    CorruptCatalogEntryError,
    SqlConfig,
    UnreadableMetadataError,
    open_catalog,
)
from tableformat.catalogs.commit import Pointer
from tableformat.catalogs.format_v3 import create_table_v3
from tableformat.catalogs.outcomes import LostRace, OutcomeUnknown
from tableformat.catalogs.sql import SharedSqlCatalog
from tableformat.commits.change import Change, swap
from tests.integration.catalogs.test_faults import IMPATIENT
from tests.integration.catalogs.test_tables import SCHEMA, ids, metadata_files, rows

Step = Callable[..., None]


@pytest.fixture
def config(tmp_path: Path) -> SqlConfig:
    return SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")


@pytest.fixture
def catalog(config: SqlConfig) -> Iterator[SharedSqlCatalog]:
    with open_catalog(config) as opened:
        assert isinstance(opened, SharedSqlCatalog)
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def truth(config: SqlConfig, catalog: SharedSqlCatalog) -> Iterator[Catalog]:
    """The same catalog, as another process has it."""
    with open_catalog(config) as opened:
        yield opened


def _answers(monkeypatch: pytest.MonkeyPatch, catalog: SharedSqlCatalog, write: str, *answers: Step | None) -> None:
    """The catalog's next writes go to these instead, with the true write as their first argument; None lets it pass."""
    true, left = getattr(catalog, write), list(answers)

    def answer(*arguments: Any) -> None:
        step = left.pop(0) if left else None
        if step is None:
            true(*arguments)
        else:
            step(true, *arguments)

    monkeypatch.setattr(catalog, write, answer)


def _lost_though_applied(write: Step, *arguments: Any) -> None:
    write(*arguments)
    raise OutcomeUnknown("the connection was cut")


def _lost(write: Step, *arguments: Any) -> None:
    raise OutcomeUnknown("the connection was cut")


def _forbidden(*_: Any) -> None:
    raise CatalogAccessError("403")


def _all_files_are_there(table: Table) -> bool:
    return {table.metadata_location} | {e.metadata_file for e in table.metadata.metadata_log} <= metadata_files(table)


@pytest.fixture
def table(catalog: SharedSqlCatalog) -> Table:
    catalog.create_table("db.t", SCHEMA, properties=IMPATIENT).append(rows(1))
    return catalog.load_table("db.t")


@pytest.mark.parametrize(
    "refusal", [CatalogAccessError, UnreadableMetadataError, CorruptCatalogEntryError, RuntimeError]
)
def test_a_commit_in_doubt_stays_so_though_looking_it_up_is_refused(
    catalog: SharedSqlCatalog,
    truth: Catalog,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    refusal: type[Exception],
) -> None:
    def refused(_: object) -> None:
        raise refusal("the token has expired")

    def lost_and_then_refused(write: Step, *arguments: Any) -> None:
        monkeypatch.setattr(catalog, "read_pointer", refused)
        _lost_though_applied(write, *arguments)

    _answers(monkeypatch, catalog, "swap_pointer", lost_and_then_refused)
    with pytest.raises(CommitStateUnknownException):
        table.append(rows(2))
    assert ids(truth.load_table("db.t")) == [1, 2]
    assert _all_files_are_there(truth.load_table("db.t"))


def test_a_commit_in_doubt_stays_so_though_the_same_swap_is_refused_later(
    catalog: SharedSqlCatalog, truth: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arrives_late(write: Step, *arguments: Any) -> None:
        write(*arguments)
        raise CatalogAccessError("403")

    _answers(monkeypatch, catalog, "swap_pointer", _lost, arrives_late)
    with pytest.raises(CommitStateUnknownException):
        table.append(rows(2))
    assert ids(truth.load_table("db.t")) == [1, 2]


def test_a_commit_in_doubt_stays_so_though_the_database_is_away(
    catalog: SharedSqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database, elsewhere = tmp_path / "catalog.db", tmp_path / "away.db"

    def lost_with_the_database(write: Step, *arguments: Any) -> None:
        write(*arguments)
        catalog.engine.dispose()
        database.rename(elsewhere)
        database.mkdir()  # which no database can be opened by
        raise OutcomeUnknown("the server closed the connection")

    _answers(monkeypatch, catalog, "swap_pointer", lost_with_the_database)
    with pytest.raises(CommitStateUnknownException):
        table.append(rows(2))
    with pytest.raises(CatalogUnavailableError, match="does not answer"):
        catalog.load_table("db.t")
    database.rmdir()
    elsewhere.rename(database)
    assert ids(catalog.load_table("db.t")) == [1, 2]


def test_a_lost_answer_is_looked_up_though_the_property_for_that_is_no_number(
    catalog: SharedSqlCatalog, truth: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.transaction().set_properties({"commit.status-check.num-retries": "many"}).commit_transaction()
    _answers(monkeypatch, catalog, "swap_pointer", _lost_though_applied)
    table.append(rows(2))
    assert ids(truth.load_table("db.t")) == [1, 2]


@pytest.mark.parametrize("refusal", [CatalogAccessError, CorruptCatalogEntryError])
def test_a_commit_that_is_refused_for_certain_leaves_no_file(
    catalog: SharedSqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    def refused(*_: Any) -> None:
        raise refusal("no")

    before = metadata_files(table)
    _answers(monkeypatch, catalog, "swap_pointer", refused)
    with pytest.raises(refusal):
        table.append(rows(2))
    assert metadata_files(table) == before


def _create_v3(catalog: SharedSqlCatalog) -> Table:
    return create_table_v3(
        catalog,
        ("db", "t"),
        schema=SCHEMA,
        location=catalog.new_location(("db", "t")),
        partition_spec=UNPARTITIONED_PARTITION_SPEC,
        sort_order=UNSORTED_SORT_ORDER,
        properties=IMPATIENT,
    )


def test_a_refused_creation_of_format_version_3_leaves_no_file_and_keeps_its_folder_free(
    catalog: SharedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(monkeypatch, catalog, "create_pointer", _forbidden)
    with pytest.raises(CatalogAccessError):
        _create_v3(catalog)
    assert _create_v3(catalog).location().endswith("/warehouse/db.db/t")


def test_a_creation_of_format_version_3_is_found_though_its_answer_is_lost_and_others_have_committed(
    catalog: SharedSqlCatalog, truth: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed_on(write: Step, *arguments: Any) -> None:
        write(*arguments)
        swap(truth.load_table("db.t"), Change((SetPropertiesUpdate(updates={"owner": "sales"}),), ()))
        raise OutcomeUnknown("the connection was cut")

    _answers(monkeypatch, catalog, "create_pointer", committed_on)
    created = _create_v3(catalog)
    now = truth.load_table("db.t")
    assert now.metadata.table_uuid == created.metadata.table_uuid
    assert now.properties["owner"] == "sales"
    assert _all_files_are_there(now)


def test_a_drop_whose_answer_is_lost_takes_no_table_that_was_created_since(
    catalog: SharedSqlCatalog, truth: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def created_anew(write: Step, *arguments: Any) -> None:
        write(*arguments)
        truth.create_table("db.t", SCHEMA).append(rows(2))
        raise OutcomeUnknown("the connection was cut")

    for drop in (catalog.drop_table, catalog.purge_table):
        _answers(monkeypatch, catalog, "delete_pointer", created_anew)
        with pytest.raises(CommitStateUnknownException):
            drop("db.t")
        monkeypatch.undo()
        assert ids(truth.load_table("db.t")) == [2]
    assert _all_files_are_there(table)


@pytest.mark.parametrize("drops", [True, False])
def test_a_drop_whose_answer_is_lost_is_sent_again_to_the_same_table_only(
    catalog: SharedSqlCatalog, truth: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, drops: bool
) -> None:
    """As where the catalog keeps the table's identity beside the pointer."""
    read = catalog.read_pointer

    def identified(identifier: Identifier) -> Pointer | None:
        pointer = read(identifier)
        return pointer and replace(pointer, table_uuid=truth.load_table(identifier).metadata.table_uuid)

    def changed_meanwhile(write: Step, *arguments: Any) -> None:
        if drops:
            write(*arguments)
            truth.create_table("db.t", SCHEMA)
        truth.load_table("db.t").append(rows(2))
        raise OutcomeUnknown("the connection was cut")

    monkeypatch.setattr(catalog, "read_pointer", identified)
    _answers(monkeypatch, catalog, "delete_pointer", changed_meanwhile)
    catalog.drop_table("db.t")
    assert truth.table_exists("db.t") is drops


@pytest.mark.parametrize("applied", [True, False])
def test_a_registration_whose_answer_is_lost_undoes_no_commit_made_since(
    catalog: SharedSqlCatalog, truth: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    good = table.metadata_location
    table.append(rows(666))

    def committed_on(write: Step, *arguments: Any) -> None:
        if applied:
            write(*arguments)
        truth.load_table("db.t").append(rows(2))
        raise OutcomeUnknown("the connection was cut")

    _answers(monkeypatch, catalog, "swap_pointer", committed_on)
    if applied:
        assert ids(catalog.register_table("db.t", good, overwrite=True)) == [1, 2]
    else:
        with pytest.raises(CommitStateUnknownException, match="Look at the table"):
            catalog.register_table("db.t", good, overwrite=True)
    assert ids(truth.load_table("db.t")) == ([1, 2] if applied else [1, 2, 666])


def test_a_registration_is_sent_again_while_nothing_has_changed(
    catalog: SharedSqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = table.metadata.metadata_log[0].metadata_file
    for answer in (_lost, _lost_though_applied):
        _answers(monkeypatch, catalog, "swap_pointer", answer)
        assert ids(catalog.register_table("db.t", older, overwrite=True)) == []
        monkeypatch.undo()
        catalog.register_table("db.t", table.metadata_location, overwrite=True)
    for number, answer in enumerate((_lost, _lost_though_applied)):
        _answers(monkeypatch, catalog, "create_pointer", answer)
        assert ids(catalog.register_table(f"db.copy{number}", table.metadata_location)) == [1]
        monkeypatch.undo()


def test_a_registration_that_did_not_arrive_is_not_taken_for_one_by_the_history_it_is_in(
    catalog: SharedSqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the version of a pointer can change without the pointer, by a label on a ConfigMap."""
    older = table.metadata.metadata_log[0].metadata_file
    read, versions = catalog.read_pointer, iter("abcdefgh")

    def labelled(identifier: Identifier) -> Pointer | None:
        pointer = read(identifier)
        return pointer and replace(pointer, version=next(versions))

    def without_version(write: Step, identifier: Identifier, expected: Pointer, *rest: Any) -> None:
        write(identifier, replace(expected, version=expected.location), *rest)

    monkeypatch.setattr(catalog, "read_pointer", labelled)
    _answers(monkeypatch, catalog, "swap_pointer", _lost, without_version)
    assert ids(catalog.register_table("db.t", older, overwrite=True)) == []


def test_a_registration_that_somebody_else_was_before_is_refused(
    catalog: SharedSqlCatalog, truth: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: Any) -> None:
        truth.create_table("db.u", SCHEMA)
        raise LostRace("the row exists")

    _answers(monkeypatch, catalog, "create_pointer", taken)
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("db.u", table.metadata_location)
