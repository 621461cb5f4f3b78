"""The difference over random tables and random successors: right, or refused without a trace."""

from collections.abc import Container
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.types import NestedField

from tableformat.declaration import (
    Column,
    InvalidDeclarationError,
    TableDeclaration,
    difference,
    type_text,
)
from tests.every_column import EVERY_COLUMN
from tests.unit.declaration.strategies import declared_columns, edits
from tests.unit.declaration.tables import created, evolved, ids, partition, sort, with_a_row

DROP = EVERY_COLUMN


def declaration(columns: tuple[Column, ...], data: st.DataObject) -> TableDeclaration:
    """With partitioning and sorting by whatever columns can carry them."""
    plain = [column.name for column in columns if column.type.is_primitive]
    layout: dict[str, Any] = {}
    with_layout: bool = data.draw(st.booleans(), label="with layout")
    if plain and with_layout:
        chosen = st.lists(st.sampled_from(plain), unique=True)
        partitioned: list[str] = data.draw(chosen)
        ordered: list[str] = data.draw(chosen)
        layout = {"partitioning": tuple(map(partition, partitioned)), "sort_order": tuple(map(sort, ordered))}
    return TableDeclaration(("db", "t"), columns, removed_columns=DROP, **layout)


def shape(schema: Schema) -> list[tuple[str, str, bool]]:
    def one(field: NestedField) -> tuple[str, str, bool]:
        return field.name, type_text(field.field_type), field.required

    return [one(field) for field in schema.fields]


def declared_shape(columns: tuple[Column, ...]) -> list[tuple[str, str, bool]]:
    return [(column.name, type_text(column.type), column.required) for column in columns]


def ids_ever_used(metadata: TableMetadata) -> set[int]:
    return {field_id for schema in metadata.schemas for field_id in schema._lazy_id_to_name}


@settings(max_examples=60)
@given(declared_columns(), st.data())
def test_a_history_of_random_edits_keeps_every_promise(columns: tuple[Column, ...], data: st.DataObject) -> None:
    wanted = declaration(columns, data)
    table = created(wanted)
    assert difference(wanted, table).is_empty
    if data.draw(st.booleans(), label="with a row"):
        table = with_a_row(table)
    for _ in range(3):
        edit = data.draw(edits(columns))
        try:
            wanted = declaration(edit.columns, data)
        except InvalidDeclarationError:  # columns that swap their names
            event("invalid")
            continue
        before, text = ids(table), table.model_dump_json()
        found = difference(wanted, table)
        assert table.model_dump_json() == text, "the difference altered the metadata that it was given"
        event("refused" if found.refusals else "applied")
        if found.refusals:
            assert found.updates == ()
            assert all(refusal.reason and refusal.remedy and refusal.field for refusal in found.refusals)
            continue
        after = evolved(table, found)

        assert shape(after.schema()) == declared_shape(edit.columns), "not the declared table"
        assert difference(wanted, after).is_empty, "a second difference is not empty"
        for path, field_id in ids(after).items():
            old = edit.kept.get(tuple(path.split(".")))
            if old is not None:
                assert field_id == before[".".join(old)], f"{path} lost its values"
            else:
                assert field_id > table.last_column_id, f"{path} brings the values of another column back"
        assert ids_ever_used(after) >= ids_ever_used(table)
        assert after.last_column_id == max(ids_ever_used(after))
        partition_ids = [field.field_id for spec in after.partition_specs for field in spec.fields]
        assert after.last_partition_id == max(partition_ids, default=999)
        by_id = {
            (field.field_id, field.source_id, str(field.transform)) for s in after.partition_specs for field in s.fields
        }
        assert len({field_id for field_id, *_ in by_id}) == len(by_id), "a partition field id has two meanings"
        assert after.snapshots == table.snapshots
        assert TableMetadataUtil.parse_raw(after.model_dump_json()) == after
        table, columns = after, edit.columns


@settings(max_examples=60)
@given(declared_columns(), declared_columns(), st.sampled_from([(), EVERY_COLUMN]), st.booleans())
def test_two_unrelated_declarations_are_reconciled_or_refused(
    first: tuple[Column, ...], second: tuple[Column, ...], removed: Container[str], filled: bool
) -> None:
    table = created(TableDeclaration(("db", "t"), first))
    table = with_a_row(table) if filled else table
    wanted = TableDeclaration(("db", "t"), second, removed_columns=removed)
    found = difference(wanted, table)
    if found.refusals:
        assert not found.updates
        assert not found.requirements
        return
    after = evolved(table, found)
    assert shape(after.schema()) == declared_shape(second)
    assert difference(wanted, after).is_empty
    lost = set(ids(table).values()) - set(ids(after).values())
    assert not lost or removed == DROP
