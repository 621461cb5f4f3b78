"""Small tables with a history, on SQLite and a local folder, and what a plain reading of them says."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.typedef import Properties
from pyiceberg.types import LongType, NestedField

from tableformat.catalogs.sql import SharedSqlCatalog
from tableformat.inspection import snapshot_files
from tableformat.locations import Place

IDENTIFIER = ("db", "events")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", LongType(), required=False),
)
_numbers = itertools.count()


class LocalCatalog(SharedSqlCatalog):
    """On a folder. `wrap` stands between the tables and their storage, for tests that break it."""

    def __init__(self, folder: Path) -> None:
        super().__init__("lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder / 'warehouse'}")

    def _load_file_io(self, properties: Properties = {}, location: str | None = None) -> FileIO:  # noqa: ARG002, B006
        return self.wrap(PyArrowFileIO({**self.properties, **properties}))

    def wrap(self, io: PyArrowFileIO) -> FileIO:
        return io


def create(catalog: Catalog, properties: dict[str, str] | None = None) -> Table:
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(IDENTIFIER, SCHEMA, properties=properties or {})


def rows(count: int = 3, part: int = 0) -> pa.Table:
    """Rows that no other call gives."""
    return pa.table(
        {
            "id": pa.array([next(_numbers) for _ in range(count)], pa.int64()),
            "part": pa.array([part] * count, pa.int64()),
        }
    )


def append(table: Table, times: int = 1, branch: str | None = "main") -> list[int]:
    """The ids of the snapshots made."""
    made = []
    for _ in range(times):
        table.append(rows(), branch=branch)
        made.append(head(table).snapshot_id)
    return made


def stage(table: Table) -> int:
    """A snapshot that no ref leads to, as write-audit-publish makes it."""
    before = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    table.append(rows(), branch=None)
    return next(s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in before)


def tag(table: Table, name: str, snapshot_id: int, max_ref_age_ms: int | None = None) -> None:
    table.manage_snapshots().create_tag(snapshot_id, name, max_ref_age_ms).commit()


def set_ref(table: Table, name: str, snapshot_id: int, kind: SnapshotRefType = SnapshotRefType.BRANCH) -> None:
    table.catalog.commit_table(
        table,
        (),
        (
            SetSnapshotRefUpdate(
                ref_name=name,
                type=kind,
                snapshot_id=snapshot_id,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
        ),
    )
    table.refresh()


def head(table: Table) -> Snapshot:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot


def later(table: Table, **delta: float) -> datetime:
    """A time after the table's last change."""
    return datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC) + timedelta(**delta)


def read(table: Table, snapshot_id: int) -> list[int]:
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def read_all(table: Table) -> dict[int, list[int]]:
    """Every snapshot's rows."""
    return {snapshot.snapshot_id: read(table, snapshot.snapshot_id) for snapshot in table.metadata.snapshots}


def reachable(table: Table) -> set[str]:
    """Every file that the table needs, read the plain way."""
    metadata = table.metadata
    found = {table.metadata_location} | {entry.metadata_file for entry in metadata.metadata_log}
    found |= {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {Place.of(location).path for location in found}


def on_disk(table: Table, *, records: bool = False) -> set[str]:
    """Every file below the table's location; without maintenance's own records unless asked for."""
    root = Path(Place.of(table.location()).path)
    return {str(path) for path in root.rglob("*") if path.is_file() and (records or "_tablewright" not in path.parts)}


def records_of(table: Table) -> Iterator[str]:
    return (path for path in on_disk(table, records=True) if "_tablewright" in path)


def row_ids(table: Table) -> dict[int, int]:
    """By each row's `id`: those of format version 3, given by the files or written into them."""
    found: dict[int, int] = {}
    files = snapshot_files(table.io, head(table.refresh())).data
    for path, first in zip(files["path"].to_pylist(), files["first_row_id"].to_pylist(), strict=True):
        with table.io.new_input(path).open() as stream:
            rows = pq.read_table(stream).to_pylist()
        for place, row in enumerate(rows):
            own = row.get("_row_id")
            found[row["id"]] = first + place if own is None else own
    return found
