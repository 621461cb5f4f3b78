"""A run by hand as a MaintenanceRun: what it is called, and, in a folder, what `get runs` shows of it.

It is recorded when it has ended. `apply` takes up what it finds unfinished, by the table's policy, and what was typed
for a run by hand is not in any policy.
"""

from datetime import UTC, datetime
from typing import Any

from tableformat.maintenance.job import CherryPickWork, MaintenanceJob, RollbackWork
from tablewright.api.export import object_name
from tablewright.api.objects import parse
from tablewright.api.run import Cause, MaintenanceRun, MaintenanceRunStatus, Phase
from tablewright.cli.catalogs import AddressedTable
from tablewright.cli.output import tell
from tablewright.decide.causes import CAUSE_ANNOTATION, name_of_run
from tablewright.decide.runs import decide_run
from tablewright.decide.state import JobObservation
from tablewright.embedded.driver import DriverEnded
from tablewright.embedded.state import EmbeddedState
from tablewright.observe.jobs import read_report

INTERRUPTED = DriverEnded(succeeded=False, report="", failure="the run was interrupted")


def name_by_hand(found: AddressedTable, operation: str, run_id: str) -> str:
    table = object_name(found.identifier[-1]) if found.declared is None else found.declared.metadata.name
    return name_of_run(table, operation, run_id)


def record(found: AddressedTable, job: MaintenanceJob, ended: DriverEnded, *, started: datetime, now: datetime) -> None:
    """Nothing for a dry run, which changes nothing, and for a table that no folder declares."""
    if found.declared is None or found.state is None or job.dry_run:
        return
    run = run_by_hand(job, found.declared.key, ended, started=started, now=now)
    try:
        EmbeddedState(found.state).record_ended_run(run)
    except OSError as error:  # the run itself is done
        tell(f"warning: the run is not recorded for `tablewright get runs`: {error}")


def run_by_hand(
    job: MaintenanceJob, table: tuple[str, str], ended: DriverEnded, *, started: datetime, now: datetime
) -> MaintenanceRun:
    namespace, name = table
    spec: dict[str, Any] = {"tableRef": {"name": name}, "operation": job.work.operation}
    match job.work:
        case RollbackWork(options=options):
            given = {
                "snapshotId": options.snapshot_id,
                "asOf": options.as_of_ms and datetime.fromtimestamp(options.as_of_ms / 1000, UTC).isoformat(),
                "tag": options.tag,
                "beforeRun": options.before_run,
                "undo": options.undo or None,
                "allowLosingCommits": options.allow_losing_commits,
            }
            spec["rollback"] = {key: value for key, value in given.items() if value is not None}
        case CherryPickWork(snapshot_id=snapshot_id):
            spec["cherryPick"] = {"snapshotId": snapshot_id}
        case _:
            pass
    metadata = {
        "name": job.run_name,
        "namespace": namespace,
        "uid": job.run_id,
        "creationTimestamp": started.replace(microsecond=0).isoformat(),
        "annotations": {CAUSE_ANNOTATION: Cause.MANUAL.value},
    }
    run = parse(MaintenanceRun, {"metadata": metadata, "spec": spec})
    running = MaintenanceRunStatus(phase=Phase.RUNNING, start_time=started.replace(microsecond=0))
    observed = JobObservation(
        active=False,
        succeeded=ended.succeeded,
        failed=not ended.succeeded,
        failure=ended.failure,
        failure_reason="Interrupted" if ended is INTERRUPTED else "JobFailed",
        report=read_report(ended.report),
    )
    decision = decide_run(run.model_copy(update={"status": running}), None, observed, now.replace(microsecond=0))
    return run.model_copy(update={"status": decision.status})
