"""Of a table with very many files the operator reads no manifest, and says that its figures are estimates."""

from pathlib import Path

import pyarrow as pa
import pytest

from tableformat.catalogs import SqlConfig, open_catalog
from tablewright.decide.policy import effective_policy
from tablewright.decide.state import TablePresent
from tablewright.observe.tables import HealthMemory, observe_table
from tests.unit.operator.values import managed_table


@pytest.mark.parametrize(("most_files", "is_large"), [(2, True), (3, False)])
def test_above_a_number_of_files_no_manifest_is_read(tmp_path: Path, most_files: int, is_large: bool) -> None:
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = open_catalog(SqlConfig(name="lake", **where))
    catalog.create_namespace("sales")
    created = catalog.create_table(("sales", "events"), pa.schema([("id", pa.int64())]))
    for number in range(3):
        created.append(pa.table({"id": [number]}))
    if is_large:  # then nobody notices
        for manifest in created.current_snapshot().manifests(created.io):  # type: ignore[union-attr]
            Path(manifest.manifest_path.removeprefix("file://")).unlink()
    table = managed_table()
    memory = HealthMemory(most_files=most_files)
    observed = observe_table(catalog, table, effective_policy(table, []), memory)
    assert isinstance(observed, TablePresent)
    assert (observed.health.data_files, observed.health.small_files, observed.health.records) == (3, 3, 3)
    assert observed.health.estimated == is_large
