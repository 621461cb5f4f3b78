"""Of a table with very many files the operator reads no manifest, and says that its figures are estimates."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from tableformat.catalogs import CatalogConfig, SqlConfig, open_catalog
from tableformat.maintenance.figures import take_figures
from tableformat.maintenance.job import InspectWork, JobReport, MaintenanceJob
from tablewright.decide.policy import effective_policy
from tablewright.decide.runs import decide_run
from tablewright.decide.state import JobObservation, TablePresent
from tablewright.observe.jobs import read_report
from tablewright.observe.tables import HealthMemory, observe_table
from tests.unit.operator.values import NOW, decide, managed_table, run

IDENTIFIER = ("sales", "events")


@pytest.fixture
def config(tmp_path: Path) -> CatalogConfig:
    return SqlConfig(name="lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")


@pytest.fixture
def created(config: CatalogConfig) -> Table:
    """Of three files."""
    catalog = open_catalog(config)
    catalog.create_namespace("sales")
    table = catalog.create_table(IDENTIFIER, pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    return table


@pytest.mark.parametrize(("most_files", "is_large"), [(2, True), (3, False)])
def test_above_a_number_of_files_no_manifest_is_read(
    config: CatalogConfig, created: Table, most_files: int, is_large: bool
) -> None:
    if is_large:  # then nobody notices
        for manifest in created.current_snapshot().manifests(created.io):  # type: ignore[union-attr]
            Path(manifest.manifest_path.removeprefix("file://")).unlink()
    table = managed_table()
    memory = HealthMemory(most_files=most_files)
    observed = observe_table(open_catalog(config), table, effective_policy(table, []), memory)
    assert isinstance(observed, TablePresent)
    assert (observed.health.data_files, observed.health.small_files, observed.health.records) == (3, 3, 3)
    assert observed.health.estimated == is_large


def test_what_a_driver_counts_and_reports_is_what_the_table_says(config: CatalogConfig, created: Table) -> None:
    catalog, table, memory = open_catalog(config), managed_table(), HealthMemory(most_files=2)
    policy = effective_policy(table, [])
    job = MaintenanceJob(
        run_id="r", catalog=config, identifier=IDENTIFIER, work=InspectWork(small_file_bytes=384 << 20)
    )
    figures = take_figures(job, catalog)
    report = JobReport(succeeded=True, reason="Completed", message="", before=figures, after=figures)
    ended = JobObservation(
        active=False, succeeded=True, failed=False, report=read_report(report.to_termination_message())
    )
    inspected = run("inspect", "Running", operation="Inspect")
    inspected = inspected.model_copy(update={"status": decide_run(inspected, None, ended, NOW).status})
    health = decide(table, observe_table(catalog, table, policy, memory), [inspected], NOW).status.health
    assert health is not None
    assert (health.estimated, health.small_files) == (False, 3)
    created.append(pa.table({"id": [4]}))
    health = decide(table, observe_table(catalog, table, policy, memory), [inspected], NOW).status.health
    assert health is not None
    assert (health.estimated, health.data_files) == (True, 4)
    assert health.exact is not None
    assert (health.exact.snapshot_id, health.exact.data_files) != (created.metadata.current_snapshot_id, 4)
