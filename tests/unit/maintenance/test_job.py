"""The driver's report on its way through a termination message, which Kubernetes cuts at 4,096 bytes."""

from tableformat.inspection import TableHealth
from tableformat.inspection.health import PartitionHealth
from tableformat.maintenance.expiry import ExpiryResult
from tableformat.maintenance.job import TERMINATION_MESSAGE_BYTES, JobReport
from tableformat.maintenance.summaries import PlanSummary


def read_back(report: JobReport) -> JobReport:
    text = report.to_termination_message()
    assert len(text.encode()) <= TERMINATION_MESSAGE_BYTES
    return JobReport.model_validate_json(text)


def test_a_report_that_fits_comes_back_whole() -> None:
    plan = PlanSummary(files=3, bytes=10, lines=("a", "b"))
    report = JobReport(succeeded=True, reason="Completed", message="done", plan=plan, expiry=ExpiryResult())

    assert read_back(report) == report


def test_lines_and_names_are_left_out_before_figures_are() -> None:
    health = TableHealth(
        snapshot_id=1,
        data_files=100,
        small_files=50,
        data_bytes=1000,
        records=7,
        delete_files=0,
        snapshots=3,
        manifests=2,
        median_file_bytes=10,
        partitions=10,
        worst_partitions=tuple(PartitionHealth(f"{number}{'ä' * 300}", 1, 1, 1) for number in range(10)),
    )
    report = JobReport(
        succeeded=False,
        reason="Failed",
        message="m" * 5000,
        plan=PlanSummary(files=3, bytes=10, lines=tuple("ü" * 200 for _ in range(20))),
        expiry=ExpiryResult(refs_removed=tuple(f"tag-{number}-{'x' * 50}" for number in range(200))),
        inspection=health,
    )

    found = read_back(report)

    assert found.message.startswith("mmm")
    assert found.plan is not None
    assert (found.plan.files, found.plan.bytes) == (3, 10)
    assert found.inspection is not None
    assert (found.inspection.data_files, found.inspection.worst_partitions) == (100, ())
    assert found.expiry is not None
    assert 0 < len(found.expiry.refs_removed) < 200


def test_a_long_message_loses_its_middle_and_keeps_what_it_is_about_and_why() -> None:
    message = f"data file x.parquet: {'at ' * 1000} is damaged"
    found = read_back(JobReport(succeeded=False, reason="Failed", message=message)).message
    assert found.startswith("data file x.parquet")
    assert found.endswith("is damaged")
    assert len(found) == 1000
