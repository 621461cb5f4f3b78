"""The lines by which `apply` tells of runs: what a run did, and figures only where there are some."""

import pytest

from tableformat.maintenance.compaction import CompactionResult
from tableformat.maintenance.expiry import ExpiryResult
from tableformat.maintenance.job import JobReport
from tableformat.maintenance.manifests import ManifestResult
from tableformat.maintenance.retention import RowRetentionResult
from tablewright.api.objects import parse
from tablewright.api.run import MaintenanceRun, Phase
from tablewright.cli.rendering import describe_event
from tablewright.embedded.apply import RunEnded
from tablewright.observe.jobs import read_report
from tests.unit.operator.values import managed_table


def line_of(operation: str, message: str, **done: object) -> str:
    report = JobReport.model_validate({"succeeded": True, "reason": "Completed", "message": message, **done})
    told = read_report(report.model_dump_json(exclude_defaults=True))
    assert told is not None
    run = parse(
        MaintenanceRun,
        {
            "metadata": {"name": "r", "namespace": "sales"},
            "spec": {"tableRef": {"name": "t"}, "operation": operation},
        },
    )
    status = run.status.model_copy(update={"phase": Phase.SUCCEEDED, "message": told.message, "result": told.result})
    return describe_event(RunEnded(managed_table(), run.model_copy(update={"status": status})))


@pytest.mark.parametrize(
    ("operation", "done", "end"),
    [
        (
            "Compact",
            {"compaction": CompactionResult(snapshot_id=1, files_rewritten=4, bytes_rewritten=4096, rows=9)},
            "done, 4.0 KiB became 0 B, 9 rows",
        ),
        ("ExpireSnapshots", {"expiry": ExpiryResult(snapshots_expired=2, bytes_deleted=2048)}, "done, 2.0 KiB freed"),
        ("RewriteManifests", {"manifests": ManifestResult(snapshot_id=1, manifests_replaced=3)}, "done"),
        ("DeleteExpiredRows", {"rows": RowRetentionResult(snapshot_id=1, rows_removed=5, bytes_removed=512)}, "done"),
    ],
)
def test_a_run_tells_the_figures_of_its_own_operation(operation: str, done: dict[str, object], end: str) -> None:
    assert line_of(operation, "done", **done).endswith(f": {operation} succeeded: {end}")


def test_what_row_retention_removed_is_still_in_storage() -> None:
    """Expiry deletes it, and counts it, later."""
    rows = RowRetentionResult(snapshot_id=1, rows_removed=5, files_removed=2, bytes_removed=512)
    report = JobReport(succeeded=True, reason="Completed", message="done", rows=rows)
    told = read_report(report.model_dump_json(exclude_defaults=True))
    assert told is not None
    assert told.result is not None
    assert (told.result.removed_files, told.result.removed_bytes) == (2, 512)
    assert (told.result.deleted_files, told.result.deleted_bytes) == (0, 0)
