"""Random histories with deletion vectors, nested values, NaN and the way to format version 3, against a plain model.

Whatever happens before, and while a compaction runs: rows stay the model's, and from the moment a row has an id, it
keeps its id and the sequence number of its last change.
"""

import copy
import io
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.deletion_vector import DeletionVector, _extract_vector_payload
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.commits.delta import Delta, NewFile, snapshot_with_delta
from tableformat.commits.head import commit_on_main
from tableformat.commits.memory import CommitMemory
from tableformat.commits.runs import RUN_ID
from tableformat.engine import RewriteTask
from tableformat.engine.delete_writing import write_deletion_vectors
from tableformat.maintenance import InProcessExecutor, Outcomes
from tableformat.maintenance.compaction import CompactionOptions, compact, plan_compaction
from tests.integration.compaction.naive import Row, entries, stored
from tests.integration.compaction.tables import IDENTIFIER, NOW, create, put_file, sql_catalog

SCHEMA = Schema(
    NestedField(1, "k", LongType(), required=True),
    NestedField(2, "p", IntegerType(), required=False),
    NestedField(3, "v", StringType(), required=False),
    NestedField(
        4,
        "place",
        StructType(
            NestedField(5, "x", DoubleType(), required=False),
            NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
        ),
        required=False,
    ),
)
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
ROW_ID, LAST_UPDATED = 2147483540, 2147483539
FIRST_ROW_ID, REFERENCED_FILE, CONTENT_OFFSET, CONTENT_SIZE = 16, 17, 18, 19  # in a manifest's data file
Lineage = tuple[int | None, int]
Values = dict[str, Any]
PLACES: list[Values | None] = [
    None,
    {"x": None, "tags": None},
    {"x": 0.0, "tags": []},
    {"x": -0.0, "tags": [None, "a"]},
    {"x": float("nan"), "tags": ["b"]},
]


class Lake:
    """The table, and of each live row what it says and, once it is known, its lineage."""

    def __init__(self, folder: Path) -> None:
        self.catalog = sql_catalog(folder)
        self.table: Table = create(self.catalog, SCHEMA, spec=SPEC)
        self.rows: dict[int, Values] = {}
        self.lineage: dict[int, Lineage] = {}
        self._keys = 0

    def append(self, partition: int, contents: list[tuple[str | None, Values | None]]) -> None:
        rows = [
            {"k": self._keys + number, "p": partition, "v": v, "place": place}
            for number, (v, place) in enumerate(contents)
        ]
        self._keys += len(rows)
        content = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(SCHEMA))
        if self.table.current_snapshot() is None:
            put_file(self.table, content, partition=Record(partition))
        else:
            file = self._file(content, partition, DataFileContent.DATA)
            self._commit(lambda _: {"added": (NewFile(file),)})
        self.rows |= dict(enumerate(rows, self._keys - len(rows)))

    def upgrade(self) -> None:
        if self.table.metadata.format_version < 3:
            self.catalog.commit_table(self.table, (), (WriteFormatV3Update(),))
            self.table.refresh()

    def delete_by_vector(self, chosen: set[int]) -> None:
        if self.table.metadata.format_version < 3:
            return
        doomed = {key for key in self.rows if key % 5 in chosen}

        def vectors(table: Table) -> dict[str, Any]:
            found, known, files = self._live(table), self._vectors(table), {}
            positions: dict[str, set[int]] = defaultdict(set)
            for key in doomed:
                entry, position, _ = found[key]
                positions[entry.data_file.file_path].add(position)
                files[entry.data_file.file_path] = entry.data_file
            merged = {
                path: np.array(sorted(listed | known.get(path, set())), np.int64) for path, listed in positions.items()
            }
            written = write_deletion_vectors(table.io, f"{table.location()}/data/{uuid.uuid4()}.puffin", merged)
            added = []
            for vector in written:
                file = DataFile.from_args(
                    3,
                    content=DataFileContent.POSITION_DELETES,
                    file_path=vector.path,
                    file_format=FileFormat.PUFFIN,
                    partition=files[vector.data_file].partition,
                    record_count=vector.records,
                    file_size_in_bytes=vector.size_bytes,
                )
                file[REFERENCED_FILE] = vector.data_file
                assert vector.content_range is not None
                file[CONTENT_OFFSET], file[CONTENT_SIZE] = vector.content_range
                file.spec_id = 0
                added.append(NewFile(file))
            return {"added": tuple(added), "superseded": frozenset(merged)}

        if doomed:
            self._commit(vectors)
            self._forget(doomed)

    def delete_equal(self, partition: int, column: str, row: tuple[str | None, Values | None]) -> None:
        """In one partition, by a text or by a number in a struct."""
        key = {"v": row[0], "place": row[1]}
        schema = SCHEMA.select(column)
        file = self._file(
            pa.Table.from_pylist([key], schema=schema_to_pyarrow(schema)),
            partition,
            DataFileContent.EQUALITY_DELETES,
            equality_ids=[SCHEMA.find_field(column).field_id],
        )
        self._commit(lambda _: {"added": (NewFile(file),)})
        deleted = [
            k for k, row in self.rows.items() if row["p"] == partition and _value(row, column) == _value(key, column)
        ]
        self._forget(deleted)

    def compact(self, options: CompactionOptions, meanwhile: tuple[Any, ...] | None) -> None:
        lake = self

        class Interrupted(InProcessExecutor):
            def run(self, tasks: Sequence[RewriteTask]) -> Outcomes:
                nonlocal meanwhile
                for outcome in super().run(tasks):
                    if meanwhile is not None:
                        (name, *arguments), meanwhile = meanwhile, None
                        getattr(lake, name)(*arguments)
                    yield outcome

        quiet = meanwhile is None
        compact(self.catalog, IDENTIFIER, options, executor=Interrupted(), run_id=uuid.uuid4().hex, now=NOW)
        self.table.refresh()
        if quiet:
            assert plan_compaction(self.table, options, now=NOW).is_empty, "a second plan must be empty"

    def check(self) -> None:
        found = self._live(self.table.refresh())
        assert {key: repr(_values(row)) for key, (_, _, row) in found.items()} == {
            key: repr(row) for key, row in self.rows.items()
        }
        lineage = {key: _lineage(*place) for key, place in found.items()}
        for key, known in self.lineage.items():
            assert lineage[key] == known, f"row {key}"
        self.lineage = {key: own for key, own in lineage.items() if own[0] is not None}
        ids = [number for number, _ in self.lineage.values() if number is not None]
        assert len(ids) == len(set(ids)), "row ids are given once"
        if isinstance(metadata := self.table.metadata, TableMetadataV3):
            assert all(number < (metadata.next_row_id or 0) for number in ids)

    def _forget(self, keys: Sequence[int] | set[int]) -> None:
        for key in keys:
            del self.rows[key]
            self.lineage.pop(key, None)

    def _commit(self, make: Callable[[Table], dict[str, Any]]) -> None:
        run_id = uuid.uuid4().hex

        def snapshot(table: Table, head: Snapshot) -> Snapshot | None:
            delta = Delta(**make(table), summary={RUN_ID: run_id})
            return snapshot_with_delta(table, head, delta, CommitMemory(table.metadata.new_snapshot_id()))

        commit_on_main(self.catalog, IDENTIFIER, snapshot, run_id=run_id, sleep=lambda _: None)
        self.table.refresh()

    def _file(self, rows: pa.Table, partition: int, content: DataFileContent, **arguments: Any) -> DataFile:
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, store_schema=False)
        path = f"{self.table.location()}/data/{uuid.uuid4()}.parquet"
        with self.table.io.new_output(path).create() as stream:
            stream.write(buffer.getvalue())
        file = DataFile.from_args(
            3,
            content=content,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(partition),
            record_count=rows.num_rows,
            file_size_in_bytes=len(buffer.getvalue()),
            **arguments,
        )
        file.spec_id = 0
        return file

    def _vectors(self, table: Table) -> dict[str, set[int]]:
        """By data file: the rows that its deletion vector names."""
        found: dict[str, set[int]] = {}
        for entry in entries(table):
            file = entry.data_file
            if file.content == DataFileContent.POSITION_DELETES:
                assert file[REFERENCED_FILE] not in found, "a file has one vector"
                with table.io.new_input(file.file_path).open() as stream:
                    stream.seek(file[CONTENT_OFFSET])
                    blob = stream.read(file[CONTENT_SIZE])
                [bitmap] = DeletionVector._deserialize_bitmap(_extract_vector_payload(bytes(blob)))
                found[file[REFERENCED_FILE]] = {int(place) for place in bitmap}
        return found

    def _live(self, table: Table) -> dict[int, tuple[ManifestEntry, int, Row]]:
        """Every live row by its key: its file, its place in it, and itself."""
        everything, vectors = entries(table), self._vectors(table)
        deletes = [
            (entry, stored(table, entry.data_file))
            for entry in everything
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES
        ]
        found: dict[int, tuple[ManifestEntry, int, Row]] = {}
        for entry in everything:
            if entry.data_file.content != DataFileContent.DATA:
                continue
            for position, row in enumerate(stored(table, entry.data_file)):
                if position in vectors.get(entry.data_file.file_path, ()):
                    continue
                if any(_deletes(delete, keys, entry, row) for delete, keys in deletes):
                    continue
                assert row[1] not in found, "a row is there once"
                found[row[1]] = (entry, position, row)
        return found


def _deletes(delete: ManifestEntry, keys: list[Row], data: ManifestEntry, row: Row) -> bool:
    if (delete.sequence_number or 0) <= (data.sequence_number or 0):
        return False
    if delete.data_file.partition != data.data_file.partition:
        return False
    [field_id] = delete.data_file.equality_ids or []
    column = SCHEMA.find_column_name(field_id) or ""
    return any(_value(_values(key), column) == _value(_values(row), column) for key in keys)


def _values(row: Row) -> Values:
    return {field.name: row.get(field.field_id) for field in SCHEMA.fields}


def _value(row: Values, column: str) -> str:
    """As a text, in which NaN is NaN, and nought is not minus nought."""
    name, _, below = column.partition(".")
    value = row[name]
    return repr(value if not below or value is None else value[below])


def _lineage(entry: ManifestEntry, position: int, row: Row) -> Lineage:
    first, number = entry.data_file[FIRST_ROW_ID], row.get(ROW_ID)
    if number is None and first is not None:
        number = first + position
    updated = row.get(LAST_UPDATED)
    return number, (entry.sequence_number or 0) if updated is None else updated


partitions = st.sampled_from([1, 2])
contents = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(PLACES))
changes = st.one_of(
    st.tuples(st.just("append"), partitions, st.lists(contents, min_size=1, max_size=5)),
    st.tuples(st.just("delete_by_vector"), st.sets(st.integers(0, 4), min_size=1, max_size=2)),
    st.tuples(st.just("delete_equal"), partitions, st.sampled_from(["v", "place.x"]), contents),
    st.tuples(st.just("upgrade")),
)
compactions = st.tuples(
    st.just("compact"),
    st.builds(
        lambda order, inputs, ratio, step: CompactionOptions.model_validate(
            {
                "target_file_bytes": 10**6,
                "min_input_files": inputs,
                "delete_ratio_percent": ratio,
                "commit_every_tasks": step,
                "verify_contents": True,
                **order,
            }
        ),
        st.sampled_from(
            [
                {},
                {"strategy": "sort", "order": [{"name": "place.x"}, {"name": "k", "descending": True}]},
                {"strategy": "zorder", "order": [{"name": "k"}, {"name": "v"}]},
            ]
        ),
        st.integers(1, 3),
        st.sampled_from([1, 30]),
        st.sampled_from([None, 1]),
    ),
    st.none() | changes,
)
EVERYTHING = CompactionOptions(target_file_bytes=10**6, min_input_files=2, delete_ratio_percent=1)


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.booleans(), st.lists(st.one_of(changes, changes, compactions), min_size=6, max_size=10))
def test_rows_keep_their_values_and_their_lineage_through_every_history(
    upgraded_first: bool, history: list[tuple[Any, ...]]
) -> None:
    append, upgrade = ("append", 1, [("a", place) for place in PLACES]), ("upgrade",)
    before = [append, upgrade] if upgraded_first else [append]
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        for name, *arguments in [*before, *history, upgrade, append, ("compact", EVERYTHING, None)]:
            note(f"{name} {arguments}")
            getattr(lake, name)(*copy.deepcopy(arguments))
            lake.check()
        assert set(lake.lineage) == set(lake.rows), "in version 3 every row has an id"
        lake.catalog.close()
