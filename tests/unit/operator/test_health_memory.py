"""What is remembered of tables between the looks at them: as much as fits, and something of it even where more come."""

import random
from collections.abc import Iterable
from functools import cache

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import LongType, NestedField

from tablewright.observe.tables import MOST_SNAPSHOTS, HealthMemory

WEIGHT = 10  # of a table without snapshots


def metadata(snapshots: int = 0) -> TableMetadata:
    made = [Snapshot(snapshot_id=number + 1, manifest_list="file:///m", timestamp_ms=1) for number in range(snapshots)]
    return TableMetadataV2(
        location="file:///t",
        last_column_id=1,
        schemas=[Schema(NestedField(1, "id", LongType(), required=False))],
        partition_specs=[{"spec-id": 0, "fields": []}],
        snapshots=made,
    )


of_table = cache(lambda _: metadata())


def hits(memory: HealthMemory, locations: Iterable[str]) -> int:
    """How many of the looks at tables found their metadata remembered; those that did not leave it there."""
    found = 0
    for location in locations:
        found += memory.at(location) is not None
        memory.keep(location, of_table(location))
    return found


def test_of_twice_the_tables_that_fit_a_good_part_is_remembered_at_every_round() -> None:
    tables = 200
    memory = HealthMemory(snapshots=WEIGHT * tables // 2, draw=random.Random(0).randrange)
    rounds = [hits(memory, map(str, range(tables))) for _ in range(20)]
    assert rounds[0] == 0
    assert sum(rounds[5:]) / len(rounds[5:]) / tables > 0.15


def test_all_tables_are_remembered_where_all_of_them_fit() -> None:
    tables = 5000
    memory = HealthMemory()
    assert tables * WEIGHT <= MOST_SNAPSHOTS
    assert [hits(memory, map(str, range(tables))) for _ in range(2)] == [0, tables]


def test_no_more_is_remembered_than_fits() -> None:
    memory = HealthMemory(snapshots=100 * WEIGHT, draw=random.Random(0).randrange)
    hits(memory, map(str, range(1000)))
    assert sum(memory.at(str(number)) is not None for number in range(1000)) == 100


def test_metadata_that_a_commit_has_superseded_gives_its_place_to_the_new() -> None:
    memory = HealthMemory(snapshots=100 * WEIGHT)
    tables = [str(number) for number in range(99)]
    hits(memory, tables)
    busy = metadata()
    for commit in range(1000):
        memory.keep(f"busy-{commit}", busy)
    assert [memory.at(f"busy-{commit}") is not None for commit in (998, 999)] == [False, True]
    assert hits(memory, tables) == len(tables)


def test_what_was_remembered_twice_has_its_place_once() -> None:
    memory = HealthMemory(snapshots=100 * WEIGHT)
    hits(memory, ["same"] * 1000)
    assert hits(memory, map(str, range(99))) == 0
    assert hits(memory, ["same", *map(str, range(99))]) == 100


def test_one_table_with_a_long_history_costs_no_other_its_place() -> None:
    memory = HealthMemory(snapshots=100 * WEIGHT)
    tables = [str(number) for number in range(100)]
    hits(memory, tables)
    memory.keep("long", metadata(snapshots=10 * WEIGHT))
    assert memory.at("long") is None
    assert hits(memory, tables) == len(tables)
