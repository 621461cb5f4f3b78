"""A declaration that changed: one commit through any catalog, or none at all and the reasons."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table

from tableformat.declaration import ManagementMode, RefusalKind, SortColumn, TableContendedError
from tests.every_column import EVERY_COLUMN
from tests.integration.declaration.conftest import REACHABLE_BY_OTHERS
from tests.integration.declaration.declaring import apply, column, create, declare, metadata_bytes, partition


def test_everything_changes_in_one_commit(catalog: Catalog) -> None:
    first = declare(column("a", "int", required=True), column("b"), column("c"), properties={"gone": "1"})
    table = create(catalog, first)
    second = declare(
        column("b2", previous_names=("b",), doc="renamed"),
        column("a", "long"),
        column("d", "struct<x: int>"),
        removed_columns=EVERY_COLUMN,
        partitioning=(partition("b2"),),
        sort_order=(SortColumn("a"),),
        properties={"new": "2"},
        format_version=3,
    )
    applied = apply(catalog, second, table, previously_declared_properties=frozenset({"gone"}))
    assert applied.in_sync
    assert {type(change).__name__ for change in applied.changes} == {
        "UpgradeFormat", "RenameColumn", "ChangeDoc", "ChangeRequired", "WidenColumn", "AddColumn", "DropColumn",
        "ReorderColumns", "ChangePartitioning", "ChangeSortOrder", "SetProperty", "UnsetProperty",
    }  # fmt: skip
    metadata = catalog.load_table(table.name()).metadata
    assert [entry.metadata_file for entry in metadata.metadata_log] == [table.metadata_location]
    assert [(field.field_id, field.name) for field in metadata.schema().fields] == [(2, "b2"), (1, "a"), (4, "d")]
    assert (metadata.format_version, metadata.properties["new"], "gone" in metadata.properties) == (3, "2", False)
    again = apply(catalog, second, table, previously_declared_properties=frozenset({"gone"}))
    assert (again.in_sync, again.changes) == (True, ())
    assert catalog.load_table(table.name()).metadata == metadata


def test_a_refusal_leaves_the_metadata_byte_for_byte(catalog: Catalog) -> None:
    table = create(catalog, declare(column("a", "long"), column("b")))
    before = metadata_bytes(catalog, table)
    applied = apply(catalog, declare(column("a", "int"), column("c"), properties={"k": "v"}), table)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.TYPE_CHANGE, RefusalKind.REMOVED_COLUMN]
    assert (applied.changes, applied.in_sync) == ((), False)
    assert metadata_bytes(catalog, table) == before


def test_a_table_of_format_version_3_is_created_with_defaults_and_evolves(catalog: Catalog) -> None:
    first = declare(column("a"), column("n", "int", required=True, initial_default=5), format_version=3)
    table = create(catalog, first)
    assert table.metadata.format_version == 3
    assert table.schema().find_field("n").initial_default == 5
    second = declare(
        column("a"), column("n", "int", required=True, initial_default=5, write_default=6), column("ts", "timestamp_ns")
    )
    applied = apply(catalog, second, table)
    assert applied.in_sync
    metadata = catalog.load_table(table.name()).metadata
    assert metadata.schema().find_field("n").write_default == 6
    assert str(metadata.schema().find_type("ts")) == "timestamp_ns"


class Interfering:
    """Something else that happens to the table just before our commit reaches the catalog."""

    def __init__(self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.todo: list[Callable[[], object]] = []
        self._commit = catalog.commit_table
        monkeypatch.setattr(catalog, "commit_table", self.commit_table)

    def commit_table(self, table: Table, *arguments: object) -> CommitTableResponse:
        if self.todo:
            self.todo.pop(0)()
        return self._commit(table, *arguments)  # type: ignore[arg-type]


def test_a_lost_race_is_computed_anew(
    catalog: Catalog, open_another: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog, declare(column("a", "int")))
    other = open_another()
    interfering = Interfering(catalog, monkeypatch)

    def add_theirs() -> None:
        with other.load_table(table.name()).update_schema() as update:
            update.add_column("theirs", column("x", "long").type)

    interfering.todo = [add_theirs]
    wanted = declare(column("a", "long"), column("theirs", "long"), column("ours"))
    applied = apply(catalog, wanted, table, pause=lambda _: None)
    assert applied.in_sync
    assert [type(change).__name__ for change in applied.changes] == ["WidenColumn", "AddColumn"]
    schema = catalog.load_table(table.name()).schema()
    assert [(field.field_id, field.name) for field in schema.fields] == [(1, "a"), (2, "theirs"), (3, "ours")]


def test_a_property_that_somebody_else_removed_first_is_no_obstacle(
    catalog: Catalog, open_another: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog, declare(column("a"), properties={"k": "1", "l": "2"}))
    other = open_another()
    interfering = Interfering(catalog, monkeypatch)

    def remove_one() -> None:
        with other.load_table(table.name()).transaction() as transaction:
            transaction.remove_properties("k")

    interfering.todo = [remove_one]
    gone = frozenset({"k", "l"})
    applied = apply(catalog, declare(column("a")), table, previously_declared_properties=gone, pause=lambda _: None)
    assert [change.sentence for change in applied.changes] == ["remove property l (it was '2')"]
    assert not gone & catalog.load_table(table.name()).properties.keys()


def test_a_race_that_makes_the_change_unsafe_ends_in_a_refusal(
    catalog: Catalog, open_another: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog, declare(column("a")))
    other = open_another()
    interfering = Interfering(catalog, monkeypatch)
    interfering.todo = [lambda: other.load_table(table.name()).append(pa.table({"a": ["x"]}))]
    applied = apply(catalog, declare(column("a"), column("b", required=True)), table, pause=lambda _: None)
    assert [refusal.kind for refusal in applied.refusals] == [RefusalKind.REQUIRED_COLUMN]
    assert [field.name for field in catalog.load_table(table.name()).schema().fields] == ["a"]


@pytest.mark.parametrize("configuration", REACHABLE_BY_OTHERS, indirect=True)
def test_a_commit_of_unknown_outcome_is_looked_up_and_not_repeated(
    catalog: Catalog, open_another: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog, declare(column("a")))
    other = open_another()
    wanted = declare(column("a"), column("b"))
    interfering = Interfering(catalog, monkeypatch)

    def applied_but_not_answered() -> None:
        assert apply(other, wanted, table).in_sync
        raise CommitStateUnknownException("the connection was cut")

    interfering.todo = [applied_but_not_answered]
    applied = apply(catalog, wanted, table, pause=lambda _: None)
    assert applied.in_sync
    metadata = catalog.load_table(table.name()).metadata
    assert [field.field_id for field in metadata.schema().fields] == [1, 2]
    assert len(metadata.metadata_log) == 1


def test_endless_interference_ends_in_a_transient_error(
    catalog: Catalog, open_another: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog, declare(column("a")))
    other = open_another()
    interfering = Interfering(catalog, monkeypatch)
    pauses: list[float] = []

    def interfere() -> None:
        interfering.todo = []
        with other.load_table(table.name()).update_schema() as update:
            update.update_column("a", doc=f"{len(pauses)}")
        interfering.todo = [interfere]

    interfering.todo = [interfere]
    with pytest.raises(TableContendedError):
        apply(catalog, declare(column("a"), column("b")), table, pause=pauses.append)
    assert pauses == sorted(pauses)


def test_only_full_management_changes_a_table(catalog: Catalog) -> None:
    table = create(catalog, declare(column("a", "int"), column("b"), properties={"k": "1"}))
    before = metadata_bytes(catalog, table)
    wanted = declare(column("a", "long"), column("c"), properties={"k": "2"})
    for mode in (ManagementMode.MAINTAIN_ONLY, ManagementMode.OBSERVE_ONLY):
        applied = apply(catalog, wanted, table, mode=mode)
        assert (applied.changes, applied.refusals, applied.in_sync) == ((), (), False)
        assert [(drift.field, drift.declared, drift.found, drift.repaired) for drift in applied.drift] == [
            ("schema.columns[a].type", "long", "int", False),
            ("schema.columns[c]", "string", None, False),
            ("properties[k]", "2", "1", False),
            ("schema.columns[b]", None, "string", False),
        ]
    assert metadata_bytes(catalog, table) == before
