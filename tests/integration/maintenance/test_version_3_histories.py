"""Random histories through the upgrade to format version 3: deletion vectors that share a file, and rows with ids.

Whatever expiry and its kin take away, a file of vectors stays while one of them is needed; and a row that has an id
keeps it, with the sequence number of its last change, from a snapshot to the next.
"""

import tempfile
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import Record

from tableformat.catalogs.format_v3 import WriteFormatV3Update
from tableformat.commits.delta import Delta, NewFile, snapshot_with_delta
from tableformat.commits.memory import CommitMemory
from tableformat.engine.delete_writing import WrittenDeletes, write_deletion_vectors
from tableformat.inspection import read_entries, read_manifests
from tests.integration.compaction.naive import entries, stored
from tests.integration.maintenance.tables import LocalCatalog, read, rows, set_ref
from tests.integration.maintenance.test_histories import STEP, STEPS, History

ROW_ID, LAST_UPDATED = 2147483540, 2147483539
FIRST_ROW_ID = 16  # in a manifest's data file
Lineage = tuple[int, int]


class CatalogOfVersion3(LocalCatalog):
    """PyIceberg writes metadata of version 3 only when told to in the same commit."""

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        first = (WriteFormatV3Update(),) if table.metadata.format_version >= 3 else ()
        return super().commit_table(table, requirements, (*first, *updates))


class HistoryThroughVersion3(History):
    """PyIceberg writes no data into a table of version 3, so from the upgrade on we do."""

    def __init__(self, catalog: LocalCatalog) -> None:
        super().__init__(catalog)
        self.lineage: dict[int, dict[int, Lineage]] = {}
        self.contents: dict[str, list[dict[int, int | None]]] = {}

    def upgrade(self) -> None:
        self.table.catalog.commit_table(self.table, (), (WriteFormatV3Update(),))
        self.table.refresh()

    @property
    def is_upgraded(self) -> bool:
        return self.table.metadata.format_version >= 3

    def append(self, branch: str = "main") -> None:
        if self.is_upgraded:
            self.commit(Delta(added=(self.new_file(),)), branch)
        else:
            super().append(branch)

    def stage(self) -> None:
        if self.is_upgraded:
            self.commit(Delta(added=(self.new_file(),)), None)
        else:
            super().stage()

    def overwrite(self) -> None:
        if self.is_upgraded:
            removed = {entry.data_file.file_path: manifest for entry, manifest in self.data_files()}
            self.commit(Delta(removed=removed, added=(self.new_file(),)))
        else:
            super().overwrite()

    def delete(self, number: int) -> None:
        if self.is_upgraded:
            ids = self.ids_of_main()
            self.take_out({each for each in ids if each <= ids[number % len(ids)]})
        else:
            super().delete(number)

    def mark(self, number: int) -> None:
        """A row of two of main's files each, by vectors in one file."""
        if self.is_upgraded:
            live, files = set(self.ids_of_main()), [entry.data_file.file_path for entry, _ in self.data_files()]
            chosen = [files[(number + each) % len(files)] for each in range(2)] if files else []
            firsts = ([row for row in self.ids_in(path) if row in live][:1] for path in chosen)
            self.take_out({row for first in firsts for row in first})
        else:
            super().mark(number)

    def take_out(self, doomed: set[int]) -> None:
        """Files without a row left go; of the others each gets a vector, which has what was deleted before as well."""
        live = set(self.ids_of_main()) - doomed
        removed: dict[str, str] = {}
        vectors: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        for entry, manifest in self.data_files():
            path, ids = entry.data_file.file_path, self.ids_in(entry.data_file.file_path)
            if live.isdisjoint(ids):
                removed[path] = manifest
            elif not doomed.isdisjoint(ids):
                vectors[path] = np.array([place for place, row in enumerate(ids) if row not in live], np.int64)
        location = f"{self.table.location()}/data/{uuid.uuid4()}.puffin"
        written = write_deletion_vectors(self.table.io, location, vectors) if vectors else []
        added = tuple(NewFile(_vector(each)) for each in written)
        if doomed:
            self.commit(Delta(removed=removed, superseded=vectors.keys(), added=added))

    def commit(self, delta: Delta, branch: str | None = "main") -> None:
        """On top of the branch, or on top of main and on no branch at all."""
        table = self.table.refresh()
        ref = table.metadata.refs.get(branch or "main")
        head = table.metadata.snapshot_by_id(ref.snapshot_id) if ref is not None else None
        snapshot = snapshot_with_delta(table, head, delta, CommitMemory(table.metadata.new_snapshot_id()))
        table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot),))
        if branch is not None:
            set_ref(table.refresh(), branch, snapshot.snapshot_id)
        table.refresh()

    def new_file(self) -> NewFile:
        content = rows().cast(schema_to_pyarrow(self.table.schema()))
        buffer = pa.BufferOutputStream()
        pq.write_table(content, buffer, store_schema=False)
        path = f"{self.table.location()}/data/{uuid.uuid4()}.parquet"
        with self.table.io.new_output(path).create() as stream:
            stream.write(buffer.getvalue().to_pybytes())
        return NewFile(
            _file(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                record_count=content.num_rows,
                file_size_in_bytes=buffer.getvalue().size,
            )
        )

    def ids_of_main(self) -> list[int]:
        head = self.table.current_snapshot()
        return [] if head is None else read(self.table, head.snapshot_id)

    def data_files(self) -> list[tuple[ManifestEntry, str]]:
        """Of main, each with its manifest."""
        head = self.table.current_snapshot()
        manifests = [] if head is None else read_manifests(self.table.io, head)
        return [
            (entry, manifest.manifest_path)
            for manifest in manifests
            for entry in read_entries(self.table.io, manifest)
            if entry.data_file.content == DataFileContent.DATA
        ]

    def rows_in(self, file: DataFile) -> list[dict[int, int | None]]:
        if file.file_path not in self.contents:
            self.contents[file.file_path] = stored(self.table, file)
        return self.contents[file.file_path]

    def ids_in(self, path: str) -> list[int]:
        (file,) = [entry.data_file for entry, _ in self.data_files() if entry.data_file.file_path == path]
        return [row[1] or 0 for row in self.rows_in(file)]

    def check(self) -> None:
        super().check()
        metadata = self.table.metadata
        for snapshot in metadata.snapshots:
            found = self.lineage_in(snapshot.snapshot_id)
            assert self.lineage.setdefault(snapshot.snapshot_id, found) == found
            before = self.lineage.get(snapshot.parent_snapshot_id or 0, {})
            assert {row: found[row] for row in found.keys() & before} == {
                row: before[row] for row in found.keys() & before
            }
            assert len({number for number, _ in found.values()}) == len(found)
            if isinstance(metadata, TableMetadataV3):
                assert all(number < (metadata.next_row_id or 0) for number, _ in found.values())

    def lineage_in(self, snapshot_id: int) -> dict[int, Lineage]:
        """Of the snapshot's rows that have ids."""
        found: dict[int, Lineage] = {}
        live = set(self.rows[snapshot_id])
        for entry in entries(self.table, snapshot_id):
            if entry.data_file.content != DataFileContent.DATA:
                continue
            first = entry.data_file[FIRST_ROW_ID]
            for place, row in enumerate(self.rows_in(entry.data_file)):
                number = row.get(ROW_ID)
                if number is None and first is not None:
                    number = first + place
                updated = row.get(LAST_UPDATED)
                if number is not None and row[1] in live:
                    found[row[1] or 0] = number, (entry.sequence_number or 0) if updated is None else updated
        return found


def _file(**arguments: object) -> DataFile:
    file = DataFile.from_args(3, partition=Record(), **arguments)
    file.spec_id = 0
    return file


def _vector(written: WrittenDeletes) -> DataFile:
    assert written.content_range is not None
    offset, size = written.content_range
    return _file(
        content=DataFileContent.POSITION_DELETES,
        file_path=written.path,
        file_format=FileFormat.PUFFIN,
        record_count=written.records,
        file_size_in_bytes=written.size_bytes,
        referenced_data_file=written.data_file,
        content_offset=offset,
        content_size_in_bytes=size,
    )


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")  # an emptied table, overwritten
# One of two vectors of a file goes with its data file, and the snapshots that had both expire.
@example([("append", 0)], [("append", 0), ("mark", 0), ("delete", 0), ("append", 0), ("delete", 0), ("expire", 5)])
@example([("append", 0), ("mark", 0)], [("append", 0), ("mark", 0), ("stage", 0), ("compact", 0), ("expire", 9)])
# No manifest has a live file.
@example([], [("append", 0), ("append", 0), ("delete", 5), ("manifests", 0), ("compact", 0)])
@given(st.lists(STEP, max_size=3), STEPS)
# No shrinking: an example takes a second, and a history of some fifteen steps can be read as it is.
@settings(max_examples=6, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_vectors_and_row_ids_outlive_whatever_goes_around_them(
    before: list[tuple[str, int]], steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = CatalogOfVersion3(Path(folder))
        history = HistoryThroughVersion3(catalog)
        for what, number in before:
            history.step(what, number)
        history.upgrade()
        for what, number in steps:
            history.step(what, number)
        assert history.is_upgraded
        history.end()
        catalog.close()
