"""Tables that somebody else made, re-made, dropped or altered."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog import Catalog

from tableformat.declaration import Applied, ManagementMode, RefusalKind, TableLocation, apply_declaration
from tests.integration.declaration.conftest import REACHABLE_BY_OTHERS
from tests.integration.declaration.declaring import IDENTIFIER, apply, column, create, declare, metadata_bytes

FULL = ManagementMode.FULL


def test_a_table_is_adopted_only_after_its_uuid_was_recorded(catalog: Catalog) -> None:
    table = create(catalog, declare(column("a", "int")))
    before = metadata_bytes(catalog, table)
    wanted = declare(column("a", "long"))
    first = apply_declaration(catalog, wanted, mode=FULL, known_uuid=None)
    assert [change.sentence for change in first.pending] == ["widen column a from int to long"]
    assert (first.changes, first.in_sync) == ((), False)
    assert metadata_bytes(catalog, table) == before
    assert first.table is not None
    second = apply_declaration(catalog, wanted, mode=FULL, known_uuid=first.table.metadata.table_uuid)
    assert second.in_sync
    assert [change.sentence for change in second.changes] == ["widen column a from int to long"]


def test_a_table_whose_difference_is_refused_is_not_adopted(catalog: Catalog) -> None:
    create(catalog, declare(column("a", "long")))
    applied = apply_declaration(catalog, declare(column("a", "int")), mode=FULL, known_uuid=None)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.TYPE_CHANGE]
    assert applied.pending == ()


@pytest.mark.parametrize("mode", list(ManagementMode))
def test_a_table_that_was_dropped_and_made_again_is_not_silently_taken(catalog: Catalog, mode: ManagementMode) -> None:
    known = create(catalog, declare(column("a", "int")))
    catalog.drop_table(IDENTIFIER)
    other = create(catalog, declare(column("a", "int")))
    before = metadata_bytes(catalog, other)
    applied = apply(catalog, declare(column("a", "long")), known, mode=mode)
    (refusal,) = applied.refusals
    assert (refusal.kind, refusal.declared, refusal.found) == (
        RefusalKind.TABLE_REPLACED,
        str(known.metadata.table_uuid),
        str(other.metadata.table_uuid),
    )
    assert metadata_bytes(catalog, other) == before


def test_a_table_that_was_dropped_is_not_silently_created_anew(catalog: Catalog) -> None:
    declared = declare(column("a"))
    known = create(catalog, declared)
    catalog.drop_table(IDENTIFIER)
    applied = apply(catalog, declared, known)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.TABLE_MISSING]
    assert not catalog.table_exists(IDENTIFIER)
    assert apply_declaration(catalog, declared, mode=FULL, known_uuid=None).created


def test_drift_is_reported_field_by_field_and_repaired_in_full(catalog: Catalog) -> None:
    declared = declare(column("a", "int", doc="one"), column("b"), properties={"k": "1"})
    table = create(catalog, declared)
    with catalog.load_table(IDENTIFIER).transaction() as transaction:
        with transaction.update_schema() as update:
            update.update_column("a", doc="two")
            update.delete_column("b")
        transaction.set_properties({"k": "2", "engine's": "3"})
    applied = apply(catalog, declared, table, declaration_in_force=True)
    assert [(drift.field, drift.declared, drift.found, drift.repaired) for drift in applied.drift] == [
        ("schema.columns[a].doc", "one", "two", True),
        ("schema.columns[b]", "string", None, True),
        ("properties[k]", "1", "2", True),
    ]
    assert applied.in_sync
    metadata = catalog.load_table(IDENTIFIER).metadata
    assert metadata.schema().find_field("a").doc == "one"
    assert metadata.properties["engine's"] == "3"
    assert apply(catalog, declared, table, declaration_in_force=True).drift == ()


def test_drift_that_cannot_be_repaired_safely_stays_and_is_reported(catalog: Catalog) -> None:
    declared = declare(column("a", "int"))
    table = create(catalog, declared)
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.update_column("a", column("x", "long").type)
        update.add_column("theirs", column("x", "string").type)
    before = metadata_bytes(catalog, table)
    applied = apply(catalog, declared, table, declaration_in_force=True)
    assert [(drift.field, drift.declared, drift.found, drift.repaired) for drift in applied.drift] == [
        ("schema.columns[a].type", "int", "long", False),
        ("schema.columns[theirs]", None, "string", False),
    ]
    assert len(applied.refusals) == 2
    assert metadata_bytes(catalog, table) == before


def test_a_change_of_the_declaration_is_no_drift(catalog: Catalog) -> None:
    table = create(catalog, declare(column("a", "int")))
    applied = apply(catalog, declare(column("a", "long")), table)
    assert (len(applied.changes), applied.drift) == (1, ())


@pytest.mark.parametrize("configuration", REACHABLE_BY_OTHERS, indirect=True)
def test_creations_race_and_one_wins(open_another: Callable[[], Catalog]) -> None:
    catalogs = [open_another() for _ in range(6)]
    catalogs[0].create_namespace_if_not_exists("db")
    declared = declare(column("a"), column("b", "long"))

    def one(catalog: Catalog) -> Applied:
        return apply_declaration(catalog, declared, mode=FULL, known_uuid=None)

    with ThreadPoolExecutor(len(catalogs)) as threads:
        outcomes = list(threads.map(one, catalogs))
    assert sum(outcome.created for outcome in outcomes) == 1
    assert all(outcome.in_sync for outcome in outcomes)
    assert len({outcome.table.metadata.table_uuid for outcome in outcomes if outcome.table is not None}) == 1


@pytest.mark.parametrize("configuration", REACHABLE_BY_OTHERS, indirect=True)
def test_alterations_race_and_all_end_as_declared(open_another: Callable[[], Catalog]) -> None:
    catalogs = [open_another() for _ in range(4)]
    table = create(catalogs[0], declare(column("a", "int")))
    wanted = declare(column("a", "long"), column("b"), column("c"))

    with ThreadPoolExecutor(len(catalogs)) as threads:
        outcomes = list(threads.map(lambda catalog: apply(catalog, wanted, table), catalogs))
    assert all(outcome.in_sync for outcome in outcomes)
    assert sum(bool(outcome.changes) for outcome in outcomes) == 1
    metadata = catalogs[0].load_table(IDENTIFIER).metadata
    assert [(field.field_id, field.name) for field in metadata.schema().fields] == [(1, "a"), (2, "b"), (3, "c")]
    assert len(metadata.metadata_log) == 1


@pytest.mark.parametrize("below", ["", "/inside", "/.."])
def test_a_location_that_overlaps_another_tables_is_refused(catalog: Catalog, tmp_path: Path, below: str) -> None:
    taken = f"{tmp_path}/places/first"
    create(catalog, declare(column("a"), location=f"file://{taken}"))
    wanted = f"{tmp_path}/places" if below == "/.." else f"file:{taken}{below}/"
    declared = declare(column("a"), identifier=("db", "second"), location=wanted)
    applied = apply_declaration(catalog, declared, mode=FULL, known_uuid=None)
    (refusal,) = applied.refusals
    assert (refusal.kind, refusal.field) == (RefusalKind.LOCATION_OVERLAP, "location")
    assert "db.t" in refusal.reason
    assert not catalog.table_exists(("db", "second"))


def test_the_default_location_is_checked_too(catalog: Catalog, tmp_path: Path) -> None:
    create(catalog, declare(column("a"), location=f"file://{tmp_path}/warehouse"))
    applied = apply_declaration(catalog, declare(column("a"), identifier=("db", "u")), mode=FULL, known_uuid=None)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.LOCATION_OVERLAP]


def test_data_beside_the_table_is_checked_too(catalog: Catalog, tmp_path: Path) -> None:
    create(catalog, declare(column("a"), properties={"write.data.path": f"file://{tmp_path}/data/t"}))
    declared = declare(column("a"), identifier=("db", "u"), location=f"file://{tmp_path}/data")
    applied = apply_declaration(catalog, declared, mode=FULL, known_uuid=None)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.LOCATION_OVERLAP]


def test_a_neighbour_with_a_similar_name_is_no_overlap(catalog: Catalog, tmp_path: Path) -> None:
    create(catalog, declare(column("a"), location=f"file://{tmp_path}/places/first"))
    declared = declare(column("a"), identifier=("other", "second"), location=f"file://{tmp_path}/places/first_2")
    assert apply_declaration(catalog, declared, mode=FULL, known_uuid=None).created


def test_a_caller_that_knows_the_locations_need_not_have_them_loaded(catalog: Catalog, tmp_path: Path) -> None:
    declared = declare(column("a"), location=f"file://{tmp_path}/x/y")
    known, own = TableLocation(("db", "other"), f"file://{tmp_path}/x"), (f"file://{tmp_path}/x/y",)
    applied = apply_declaration(
        catalog,
        declared,
        mode=FULL,
        known_uuid=None,
        overlapping=lambda _, identifier, places: known if (identifier, places) == (IDENTIFIER, own) else None,
    )
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.LOCATION_OVERLAP]


def test_a_uuid_that_nothing_has_is_reported_as_replaced(catalog: Catalog) -> None:
    create(catalog, declare(column("a")))
    applied = apply_declaration(catalog, declare(column("a")), mode=FULL, known_uuid=uuid4())
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.TABLE_REPLACED]
