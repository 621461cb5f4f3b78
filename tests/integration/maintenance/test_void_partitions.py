"""Tables from version 1 with dropped partition fields, moves that Java cannot read, and runs that fail."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField, TimestampNanoType

from tableformat.catalogs.format_v3 import create_table_v3
from tableformat.maintenance import InProcessExecutor
from tableformat.maintenance.compaction import CompactionOptions, compact
from tableformat.maintenance.compaction.tasks import TaskMaking
from tableformat.maintenance.errors import UnsupportedTable
from tableformat.maintenance.manifests import ManifestOptions, rewrite_manifests
from tests.integration.maintenance.tables import IDENTIFIER, LocalCatalog

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "part", LongType(), required=False))
ARROW = pa.schema([pa.field("id", pa.int64()), pa.field("part", pa.int64())])
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "part"), PartitionField(1, 1001, VoidTransform(), "dropped")
)
OPTIONS = CompactionOptions(min_input_files=2)


def table_with_void_field(catalog: LocalCatalog, version: int) -> Table:
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table(IDENTIFIER, SCHEMA, partition_spec=SPEC, properties={"format-version": str(version)})
    for number in range(3):
        table.append(pa.table({"id": [number], "part": [number % 2]}, ARROW))
    with table.update_schema(allow_incompatible_changes=True) as update:  # PyIceberg cannot append to such a table
        update.update_column("id", required=True)
    return table


def ids(catalog: LocalCatalog) -> list[int]:
    return sorted(catalog.load_table(IDENTIFIER).scan().to_arrow()["id"].to_pylist())


def run_compaction(catalog: LocalCatalog) -> Any:
    return compact(catalog, IDENTIFIER, OPTIONS, executor=InProcessExecutor(), run_id="run", now=datetime.now(UTC))


def run_manifests(catalog: LocalCatalog) -> Any:
    return rewrite_manifests(catalog, IDENTIFIER, ManifestOptions(), run_id="run")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("run", [run_compaction, run_manifests])
def test_table_with_void_field_on_required_column_is_maintained(
    catalog: LocalCatalog, version: int, run: Callable[[LocalCatalog], Any]
) -> None:
    table_with_void_field(catalog, version)
    assert run(catalog).snapshot_id is not None
    assert ids(catalog) == [0, 1, 2]


class _Failing(PyArrowFileIO):
    """Storage that refuses the n-th Avro file."""

    def __init__(self, io: PyArrowFileIO, left: list[int]) -> None:
        super().__init__(io.properties)
        self._left = left

    def new_output(self, location: str) -> PyArrowFile:
        if location.endswith(".avro"):
            self._left[0] -= 1
            if self._left[0] == 0:
                raise RuntimeError("no space left for this file")
        return super().new_output(location)


class _FailingCatalog(LocalCatalog):
    def __init__(self, folder: Path) -> None:
        self.left = [0]
        super().__init__(folder)

    def wrap(self, io: PyArrowFileIO) -> FileIO:
        return _Failing(io, self.left)


def files_in(folder: Path) -> set[Path]:
    return {path for path in (folder / "warehouse").rglob("*") if path.is_file()}


@pytest.mark.parametrize("run", [run_compaction, run_manifests])
def test_run_that_fails_at_any_metadata_file_leaves_nothing_behind(
    tmp_path: Path, run: Callable[[LocalCatalog], Any]
) -> None:
    catalog = _FailingCatalog(tmp_path)
    table_with_void_field(catalog, 2)
    before = files_in(tmp_path)
    for failing in range(1, 10):
        catalog.left[0] = failing
        try:
            run(catalog)
        except RuntimeError:
            assert files_in(tmp_path) == before
        else:
            break
    assert failing > 1
    assert ids(catalog) == [0, 1, 2]
    catalog.close()


def test_move_to_identity_partition_of_nanoseconds_is_refused_by_name(catalog: LocalCatalog) -> None:
    schema = Schema(NestedField(1, "at", TimestampNanoType(), required=False))
    catalog.create_namespace_if_not_exists("db")
    table = create_table_v3(
        catalog,
        IDENTIFIER,
        schema=schema,
        location=catalog.new_location(IDENTIFIER),
        partition_spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "at")),
        sort_order=UNSORTED_SORT_ORDER,
        properties={},
    )
    making = TaskMaking(table, CompactionOptions(use_current_spec=True), None)
    with pytest.raises(UnsupportedTable, match="partition field 'at'"):
        making._output_spec(PartitionSpec(spec_id=1))
    assert making._output_spec(table.spec()) is None
