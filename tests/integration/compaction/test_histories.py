"""Random histories of a table against a plain model of it: whatever happened, compaction never changes a row."""

import copy
import tempfile
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType

from tableformat.maintenance.compaction import CompactionOptions, plan_compaction
from tests.integration.compaction.deletes import delete_equal, delete_positions
from tests.integration.compaction.naive import Row, as_read, entries, live_rows
from tests.integration.compaction.tables import NOW, compacted, create, put_file, sql_catalog

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "amount", FloatType(), required=False),
)
CITIES = ["Agra", "Pune", None]
ORDERS: list[dict[str, object]] = [
    {},
    {"strategy": "sort", "order": [{"name": "id", "descending": True}]},
    {"strategy": "zorder", "order": [{"name": "id"}, {"name": "city"}]},
]


class History:
    """The table and its model: for each live row, where it is filed and what it says."""

    def __init__(self, folder: Path) -> None:
        self.catalog = sql_catalog(folder)
        self.table: Table = create(self.catalog, SCHEMA)
        self.rows: list[tuple[int, Record, Row]] = []
        self.past: dict[int, list[str]] = {}
        self._next_id = 0

    def append(self, cities: list[str | None], amounts: list[float | None]) -> None:
        schema, spec = self.table.schema(), self.table.spec()
        by_partition: dict[Record, list[Row]] = defaultdict(list)
        for city, amount in zip(cities, amounts, strict=False):
            number = self._next_id % 12  # ids come again, after deletes as well as beside their like
            row: Row = {1: number, 2: city, 3: amount}
            row |= {field.field_id: f"x{self._next_id}" for field in schema.fields if field.field_id > 3}
            by_partition[Record(city) if spec.fields else Record()].append(row)
            self._next_id += 1
        for partition, rows in by_partition.items():
            content = [{field.name: row[field.field_id] for field in schema.fields} for row in rows]
            put_file(self.table, pa.Table.from_pylist(content, schema=schema.as_arrow()), partition=partition)
            self.rows += [(spec.spec_id, partition, row) for row in rows]

    def delete_by_position(self, chosen: set[int]) -> None:
        doomed: dict[tuple[int, Record], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        spec_id = self.table.spec().spec_id
        for file, position, row in live_rows(self.table):
            if row[1] % 7 in chosen and file.spec_id == spec_id:
                doomed[file.spec_id, file.partition][file.file_path].append(position)
        self.rows = [kept for kept in self.rows if kept[0] != spec_id or kept[2][1] % 7 not in chosen]
        for (_, partition), positions in doomed.items():
            delete_positions(self.table, positions, partition=partition)

    def delete_by_id(self, chosen: set[int]) -> None:
        """Everywhere: under the first spec, which has no partitions."""
        ids = sorted(row[1] for _, _, row in self.rows if row[1] % 5 in chosen)
        if ids and self.table.current_snapshot() is not None:
            delete_equal(self.table, ["id"], [{"id": i} for i in ids], spec_id=0)
            self.rows = [kept for kept in self.rows if kept[2][1] not in ids]

    def delete_by_city(self, city: str | None) -> None:
        """In one partition if there are any, by a column that may be null."""
        if self.table.current_snapshot() is None:
            return
        spec = self.table.spec()
        partition = Record(city) if spec.fields else Record()
        delete_equal(self.table, ["city"], [{"city": city}], partition=partition, spec_id=spec.spec_id)

        def is_doomed(filed: tuple[int, Record, Row]) -> bool:
            return (not spec.fields or filed[:2] == (spec.spec_id, partition)) and filed[2][2] == city

        self.rows = [kept for kept in self.rows if not is_doomed(kept)]

    def evolve(self, change: str) -> None:
        schema = self.table.schema()
        with self.table.update_schema() as update:
            if change == "add":
                update.add_column(f"extra_{uuid.uuid4().hex[:6]}", StringType())
            elif change == "drop" and schema.fields[-1].field_id > 3:
                update.delete_column(schema.fields[-1].name)
            elif change == "rename":
                update.rename_column(schema.find_field(3).name, f"renamed_{uuid.uuid4().hex[:6]}")
            elif change == "widen":
                update.update_column("id", LongType())
                update.update_column(schema.find_field(3).name, DoubleType())
            elif change == "move":
                update.move_first(schema.fields[-1].name)

    def repartition(self) -> None:
        with self.table.update_spec() as update:
            if self.table.spec().fields:
                update.remove_field("city")
            else:
                update.add_field("city", IdentityTransform(), "city")

    def compact(self, options: CompactionOptions) -> None:
        compacted(self.catalog, options)
        self.table.refresh()
        if options.use_current_spec:
            # Rows of several old partitions can meet in a new one, in files that the next run packs.
            compacted(self.catalog, options)
            self.table.refresh()
            spec = self.table.spec()
            self.rows = [(spec.spec_id, Record(row[2]) if spec.fields else Record(), row) for _, _, row in self.rows]
            filed = {entry.data_file.spec_id for entry in entries(self.table) if not entry.data_file.content}
            assert filed <= {spec.spec_id}
        assert plan_compaction(self.table, options, now=NOW).is_empty, "a second plan must be empty"

    def check(self) -> None:
        assert as_read((row for _, _, row in live_rows(self.table)), self.table.schema()) == self.model()

    def model(self) -> list[str]:
        return as_read((row for _, _, row in self.rows), self.table.schema())

    def remember(self) -> None:
        if self.table.metadata.current_snapshot_id is not None:
            self.past[self.table.metadata.current_snapshot_id] = as_read((row for _, _, row in self.rows), ALL_COLUMNS)

    def check_the_past(self) -> None:
        for snapshot_id, rows in self.past.items():
            assert as_read((row for _, _, row in live_rows(self.table, snapshot_id)), ALL_COLUMNS) == rows


ALL_COLUMNS = Schema(*(NestedField(number, f"c{number}", StringType(), required=False) for number in (1, 2, 3)))

amounts = st.lists(st.none() | st.floats(width=32, allow_nan=False), min_size=6, max_size=6)
steps = st.one_of(
    st.tuples(st.just("append"), st.lists(st.sampled_from(CITIES), min_size=1, max_size=6), amounts),
    st.tuples(st.just("append"), st.lists(st.sampled_from(CITIES), min_size=1, max_size=6), amounts),
    st.tuples(st.just("delete_by_position"), st.sets(st.integers(0, 6), min_size=1, max_size=4)),
    st.tuples(st.just("delete_by_id"), st.sets(st.integers(0, 4), min_size=1, max_size=2)),
    st.tuples(st.just("delete_by_city"), st.sampled_from(CITIES)),
    st.tuples(st.just("evolve"), st.sampled_from(["add", "drop", "rename", "widen", "move"])),
    st.tuples(st.just("repartition")),
    st.tuples(
        st.just("compact"),
        st.builds(
            lambda order, inputs, ratio, step, move: CompactionOptions.model_validate(
                {
                    "target_file_bytes": 10**6,
                    "min_input_files": inputs,
                    "delete_ratio_percent": ratio,
                    "commit_every_tasks": step,
                    "verify_contents": True,
                    "use_current_spec": move,
                    **order,
                }
            ),
            st.sampled_from(ORDERS),
            st.integers(1, 4),
            st.sampled_from([1, 30]),
            st.sampled_from([None, 1]),
            st.booleans(),
        ),
    ),
)
EVERYTHING = CompactionOptions(target_file_bytes=10**6, min_input_files=2, delete_ratio_percent=1)


def test_a_plan_has_the_files_too_that_deletes_fall_to_when_others_are_rewritten(tmp_path: Path) -> None:
    """A delete of the whole table is taken to be for all its files in part, and after the rewrite for those alone."""
    lake = History(tmp_path)
    nothing: list[float | None] = [None] * 6
    lake.repartition()
    lake.append(["Agra", "Agra", "Pune"], nothing)
    lake.delete_by_city("Agra")
    lake.append(["Agra"], nothing)
    lake.delete_by_id({2})
    lake.delete_by_position({0})
    lake.compact(CompactionOptions(target_file_bytes=10**6, min_input_files=2, delete_ratio_percent=30))
    lake.check()


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=8, max_size=14))
def test_rows_are_the_models_after_every_history_and_every_snapshot_stays_as_it_was(
    history: list[tuple[Any, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = History(Path(folder))
        for name, *arguments in [*history, ("compact", EVERYTHING)]:
            note(f"{name} {arguments}")
            getattr(lake, name)(*copy.deepcopy(arguments))
            lake.remember()
            if name == "compact":
                lake.check()
        lake.check_the_past()
        lake.catalog.close()
