"""Partitioning, sort order, properties, format and location: what may change, and what is refused."""

import pytest
from pyiceberg.table.metadata import TableMetadata

from tableformat.declaration import RefusalKind, TableDeclaration, difference
from tests.unit.declaration.tables import (
    column,
    created,
    declare,
    evolve,
    evolved,
    ids,
    partition,
    sentences,
    sort,
    with_a_row,
)

COLUMNS = (column("a"), column("ts", "timestamp"), column("s", "struct<x: int>"))


def spec(metadata: TableMetadata) -> list[tuple[int, str]]:
    return [(field.field_id, field.name) for field in metadata.spec().fields]


def test_partitioning_changes_for_new_files_and_old_files_keep_theirs() -> None:
    table = with_a_row(created(declare(*COLUMNS, partitioning=(partition("ts", "month"),))))
    found = difference(declare(*COLUMNS, partitioning=(partition("ts", "day"), partition("a", "bucket[8]"))), table)
    assert sentences(found) == [
        "partition new files by day of ts as ts_day, bucket[8] of a as a_bucket_8 "
        "(files that are there keep theirs: month of ts as ts_month)"
    ]
    after = evolved(table, found)
    assert spec(after) == [(1001, "ts_day"), (1002, "a_bucket_8")]
    assert after.specs()[0] == table.spec()


def test_a_partition_field_that_returns_gets_its_own_id_and_name_back() -> None:
    first = declare(*COLUMNS, partitioning=(partition("ts", "day", "on"),))
    table = evolve(created(first), declare(*COLUMNS, partitioning=(partition("a"),)))
    both = evolve(table, declare(*COLUMNS, partitioning=(partition("a"), partition("ts", "day"))))
    assert spec(both) == [(1001, "a"), (1000, "on")]
    again = evolve(both, first)
    assert again.default_spec_id == 0
    assert again.last_partition_id == 1001


def test_ids_of_partition_fields_are_never_given_twice() -> None:
    table = evolve(created(declare(*COLUMNS, partitioning=(partition("a"),))), declare(*COLUMNS, partitioning=()))
    assert spec(table) == []
    after = evolve(table, declare(*COLUMNS, partitioning=(partition("s.x"),)))
    assert spec(after) == [(1001, "s.x")]


def test_names_of_partition_fields_stay_unique_across_all_specs() -> None:
    table = created(declare(column("a"), partitioning=(partition("a"),)))
    renamed = evolve(table, declare(column("b", previous_names=("a",)), partitioning=()))
    wanted = declare(column("b"), column("c"), partitioning=(partition("c", field_name="a"),))
    (refusal,) = difference(wanted, renamed).refusals
    assert (refusal.kind, refusal.field) == (RefusalKind.PARTITION_NAME, "partitioning[c].name")
    clash = declare(column("b"), column("b_trunc_2"), partitioning=(partition("b", "truncate[2]"),))
    assert spec(evolve(renamed, clash)) == [(1001, "b_trunc_2_1001")]


def test_a_new_column_may_not_take_the_name_of_a_partition_field() -> None:
    table = created(declare(*COLUMNS, partitioning=(partition("ts", "day"),)))
    (refusal,) = difference(declare(*COLUMNS, column("ts_day", "int")), table).refusals
    assert (refusal.kind, refusal.field) == (RefusalKind.PARTITION_NAME, "schema.columns[ts_day].name")


def test_a_partition_field_is_renamed_in_place() -> None:
    table = created(declare(*COLUMNS, partitioning=(partition("ts", "day"),)))
    assert spec(evolve(table, declare(*COLUMNS, partitioning=(partition("ts", "day", "on"),)))) == [(1000, "on")]


def test_partitioning_follows_a_renamed_column() -> None:
    table = created(declare(column("a"), partitioning=(partition("a"),)))
    wanted = declare(column("b", previous_names=("a",)), partitioning=(partition("b"),))
    found = difference(wanted, table)
    assert sentences(found) == ["rename column a to b"]
    assert difference(wanted, evolved(table, found)).is_empty


def test_a_new_column_is_partitioned_by_in_the_same_commit() -> None:
    table = created(declare(column("a")))
    after = evolve(table, declare(column("a"), column("b"), partitioning=(partition("b"),), sort_order=(sort("b"),)))
    assert after.spec().fields[0].source_id == ids(after)["b"] == after.sort_order().fields[0].source_id


def test_partitioning_of_format_version_1_is_left_alone() -> None:
    table = created(declare(*COLUMNS, partitioning=(partition("a"),)), format_version=1)
    (refusal,) = difference(declare(*COLUMNS, partitioning=(partition("ts", "day"),)), table).refusals
    assert (refusal.kind, refusal.field) == (RefusalKind.FORMAT_TOO_OLD, "partitioning")
    upgraded = evolve(table, declare(*COLUMNS, partitioning=(partition("ts", "day"),), format_version=2))
    assert upgraded.format_version == 2
    assert spec(upgraded) == [(1001, "ts_day")]


def test_void_partition_fields_count_as_none() -> None:
    table = created(declare(*COLUMNS, partitioning=(partition("a"),)))
    void = table.spec().fields[0].model_copy(update={"transform": "void"})
    data = table.model_dump()
    data["partition-specs"][0]["fields"] = [{**void.model_dump(), "transform": "void"}]
    with_void = type(table).model_validate(data)
    assert difference(declare(*COLUMNS, partitioning=()), with_void).is_empty


def test_the_sort_order_is_replaced_and_removed_and_found_again() -> None:
    first = declare(*COLUMNS, sort_order=(sort("a"),))
    table = created(first)
    found = difference(declare(*COLUMNS, sort_order=(sort("ts"), sort("a"))), table)
    assert sentences(found) == ["sort new files by ts asc nulls-first, a asc nulls-first"]
    second = evolved(table, found)
    assert second.default_sort_order_id == 2
    unsorted = evolve(second, declare(*COLUMNS, sort_order=()))
    assert unsorted.default_sort_order_id == 0
    assert evolve(unsorted, first).default_sort_order_id == 1


def test_what_is_not_declared_is_left_alone() -> None:
    table = created(declare(*COLUMNS, partitioning=(partition("a"),), sort_order=(sort("a"),), format_version=3))
    assert difference(declare(*COLUMNS), table).is_empty


def test_only_properties_that_were_declared_are_ever_unset() -> None:
    table = created(declare(*COLUMNS, properties={"ours": "1", "engine's": "2", "kept": "3"}))
    found = difference(
        declare(*COLUMNS, properties={"kept": "4"}), table, previously_declared_properties=frozenset({"ours", "gone"})
    )
    assert sentences(found) == ["set property kept to '4' (it was '3')", "remove property ours (it was '1')"]
    assert evolved(table, found).properties == {"engine's": "2", "kept": "4"}


@pytest.mark.parametrize(("now", "wanted"), [(1, 2), (1, 3), (2, 3)])
def test_the_format_is_upgraded(now: int, wanted: int) -> None:
    table = created(declare(column("a")), format_version=now)
    found = difference(declare(column("a"), format_version=wanted), table)
    assert sentences(found) == [f"upgrade the format from version {now} to {wanted}"]
    after = evolved(table, found)
    assert after.format_version == wanted
    assert after.model_dump_json()
    assert difference(declare(column("a"), format_version=wanted), after).is_empty
    assert getattr(after, "next_row_id", None) == (0 if wanted == 3 else None)


def test_a_format_downgrade_is_refused() -> None:
    (refusal,) = difference(
        declare(column("a"), format_version=2), created(declare(column("a"), format_version=3))
    ).refusals
    assert (refusal.kind, refusal.declared, refusal.found) == (RefusalKind.FORMAT_DOWNGRADE, "2", "3")


def test_another_location_is_refused() -> None:
    table = created(declare(column("a"), location="s3://bucket/db/t"))
    (refusal,) = difference(declare(column("a"), location="s3://bucket/db/other"), table).refusals
    assert (refusal.kind, refusal.field) == (RefusalKind.IMMUTABLE_FIELD, "location")
    assert difference(declare(column("a"), location="s3a://bucket/db/t/"), table).is_empty


def test_a_commit_requires_the_state_that_it_was_computed_for() -> None:
    found = difference(declare(column("a"), column("b")), created(declare(column("a"))))
    assert {requirement.type for requirement in found.requirements} == {
        "assert-table-uuid",
        "assert-current-schema-id",
        "assert-last-assigned-field-id",
        "assert-default-spec-id",
        "assert-last-assigned-partition-id",
        "assert-default-sort-order-id",
    }


def test_no_difference_needs_no_commit() -> None:
    declared = declare(*COLUMNS, partitioning=(partition("a"),), sort_order=(sort("a"),), properties={"k": "v"})
    found = difference(declared, created(declared))
    assert (found.is_empty, found.updates, found.requirements) == (True, (), ())


def test_a_table_that_is_not_there_yet_is_a_creation() -> None:
    declared: TableDeclaration = declare(*COLUMNS, partitioning=(partition("ts", "day"),), sort_order=(sort("a"),))
    assert sentences(difference(declared, None)) == [
        "create table db.t (format version 2, partitioned by day of ts as ts_day, sorted by a asc nulls-first): "
        "a string, ts timestamp, s struct<x: int>"
    ]
    (refusal,) = difference(declare(column("a", "timestamp_ns")), None).refusals
    assert refusal.kind == RefusalKind.FORMAT_TOO_OLD


def test_an_encrypted_table_is_not_altered_because_its_keys_would_be_lost() -> None:
    wanted = declare(column("a"))
    plain = created(wanted)
    table = plain.model_copy(update={"properties": {**plain.properties, "encryption.key-id": "k1"}})
    assert difference(wanted, table).is_empty
    found = difference(declare(column("a"), column("b")), table)
    assert [refusal.field for refusal in found.refusals] == ["properties[encryption.key-id]"]
